"""The controller: takes the jobs of a plan through the state machine; each job ends with one result.

One thread runs one loop. It gives places to jobs, has an executor (`executor.py`) run their processes there,
and waits for their ends, signals and deadlines with a selector. `verdict.py` decides what a result means,
`evidence.py` whether a failure is the job's or its device's. Whatever watches the run implements the
interface in `listener.py`.
"""

from __future__ import annotations

import gc
import math
import selectors
import shutil
import signal
import time
import traceback
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path

from pipeline.ground.computed import Computed
from pipeline.ground.jobs import Job, State
from pipeline.ground.results import Result
from pipeline.ground.streams import INTERNAL_ERROR
from pipeline.ground.words import counted
from pipeline.run import sequence, states, verdict
from pipeline.run.artefacts import Artefacts, relocated
from pipeline.run.builders import Builders
from pipeline.run.devices import Device, lock_name
from pipeline.run.evidence import Evidence, Next
from pipeline.run.executor import Ended, Executor, Process, Site, Told
from pipeline.run.folders import RunFolder
from pipeline.run.journal import Journal, JournalError, Record, lost_result
from pipeline.run.listener import Broadcast, Listener, RunInfo, RunSummary
from pipeline.run.options import Host, RunOptions
from pipeline.run.processes import SignalWatch
from pipeline.run.queue import Queue
from pipeline.run.reach import Reach
from pipeline.run.tries import Fault, fresh
from pipeline.run.unfinished import Running, Task
from pipeline.run.waiting import LockWaits

_LOCK_POLL = 0.2


@dataclass(eq=False)
class Run:
    """One run, from its first event to its last.

    `_finished` are the results from before it was resumed. `_before` is what a resumed run recorded if it had
    ended and nothing is left of it: its times stay.
    """

    _plan: Sequence[Job]
    _finished: Mapping[str, Result]
    _options: RunOptions
    _listeners: Sequence[Listener]
    _host: Host
    _folder: RunFolder
    _executor: Executor
    _before: Record | None = None

    def __post_init__(self) -> None:
        options, folder = self._options, self._folder
        self._settings = options.settings
        given = options.settings.retries
        self._retries = options.retries if given is None else given
        self._watchers = Broadcast(self._listeners)
        self._journal = Journal(folder.journal)
        self._everybody = Broadcast([self._journal, *self._listeners])
        self._artefacts = Artefacts(folder.job_folder, options.artefact_bytes)
        for probe in sorted(self._probe_folder.glob("*")):  # left from before the run was resumed
            self._artefacts.admit_probe(probe)
        self._waiting: Queue[Task] = Queue()
        self._parked: list[Task] = []
        self._builders = Builders(options.builds)
        self._reach = Reach(self._plan, self._executor)
        self._evidence = Evidence(self._reach.places, self._executor.set_aside)
        self._running: dict[int, Running] = {}
        self._probing: set[str] = set()
        self._orders = 0
        self._waits = LockWaits(self._executor.holder, self._host.now)
        self._stopped = ""
        self._stop_at = math.inf
        self._problems: list[str] = []

    def execute(self, notes: Sequence[str] = (), *, resumed: bool = False) -> RunSummary:
        """Run everything; `notes` are remarks for the listeners. No process or lock is left behind."""
        begun = time.monotonic()
        self._site = Site(self._folder.run_id, self._folder.path, resumed)
        with ExitStack() as stack:
            stack.callback(self._folder.close)
            stack.callback(self._journal.close)
            stack.callback(self._executor.close)
            signals = stack.enter_context(SignalWatch(signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
            self._selector = stack.enter_context(selectors.DefaultSelector())
            self._selector.register(signals, selectors.EVENT_READ, lambda: self._interrupt(signals))
            info = self._info(notes, resumed)
            self._everybody.tell(lambda listener: listener.run_started(info))
            if (deadline := self._options.deadline) is not None:
                # The jobs are stopped early enough for the run to have ended by the deadline.
                self._stop_at = begun + deadline - min(2 * self._options.grace, deadline / 2)
            try:
                shutil.rmtree(self._site.results, ignore_errors=True)  # left by a run that was killed
                self._site.results.mkdir()
                told = Told(
                    self._ended, self._set_aside, self._everybody.remark, self._take_reach, self._stop
                )
                self._executor.open(self._site, self._selector, told)
                self._begin_goldens(self._admit_plan())
                # What stays until the end is not searched for garbage again and again: with thousands of jobs
                # that took a quarter of a millisecond for each.
                gc.freeze()
                stack.callback(gc.unfreeze)
                self._loop()
            except Exception:
                # Also after a fault of the pipeline the run ends with a report, and with exit code 3.
                self._problems.append(f"internal error:\n{traceback.format_exc()}")
            return self._conclude(time.monotonic() - begun)

    def _info(self, notes: Sequence[str], resumed: bool) -> RunInfo:
        return RunInfo(
            self._folder.run_id,
            self._folder.path,
            tuple(self._plan),
            self._before.started if self._before else self._time(),
            self._executor.workers,
            self._options.facts,
            (*notes, *self._executor.remarks()),
            resumed,
            self._settings,
            self._options.sources,
            frozenset(self._finished),
        )

    @property
    def _probe_folder(self) -> Path:
        return self._folder.path / "probes"

    def _admit_plan(self) -> Sequence[Job]:
        """Settle the jobs that need not or cannot run. Returns the others, in the order in which to begin."""
        waiting: dict[str, Task] = {}
        for job in self._plan:
            if job.id in self._finished:
                known = self._finished[job.id]
                if place := self._executor.place_of(known):
                    self._evidence.know(place, known)
                self._record(self._artefacts.admit(known), self._watchers)
                continue
            task = Task(job)
            availability = self._executor.available(job)
            if availability:
                task.state = states.advance(job.id, task.state, State.WAITING)
                waiting[job.id] = task
            else:
                reason = "; ".join(filter(None, (availability.reason, availability.remedy)))
                skipped = self._options.review(Result(job, State.SKIPPED, reason))
                self._end(task, verdict.apply_requirement(skipped))
        jobs = [task.job for task in waiting.values()]
        order = sequence.ordered(jobs, self._options.expected, self._options.builds)
        for job in order:
            self._waiting.add(waiting[job.id], self._kind(waiting[job.id]))
        return order

    def _take_reach(self) -> None:
        """There are other places: jobs that wait may be able to have them."""
        waiting = list(self._waiting.drain())
        self._reach.take()
        for task in waiting:
            self._waiting.add(task, self._kind(task))

    def _kind(self, task: Task) -> Hashable:
        """What a waiting task waits for: the same for all tasks that begin or wait for the same reasons."""
        if task.tries or task.repeats:
            return task.job.id  # its own past decides where it can begin
        golden = self._options.missing.get(task.job.id)
        return (
            self._reach.of(task.job),
            task.job.kernel,
            tuple(each.backend for each in task.job.platforms),
            task.job.profile is None,
            frozenset(self._builders.needed_by(task.job)),
            golden.job.id if golden is not None else "",
        )

    def _begin_goldens(self, jobs: Sequence[Job]) -> None:
        wanted = self._options.missing
        self._executor.compute({job.id: wanted[job.id] for job in jobs if job.id in wanted})

    def _loop(self) -> None:
        blocked = self._start_ready()
        while True:
            if remark := self._waits.observe(self._executor.held_elsewhere(blocked)):
                self._everybody.remark(remark)
            if not self._waiting and not self._running:
                if not self._parked:
                    return
                if not blocked:
                    self._seek_news()
                    blocked = self._start_ready()
                    continue
            wakes = [self._executor.wake_at, self._stop_at]
            if blocked:
                wakes.append(time.monotonic() + _LOCK_POLL)
            wake = min(wakes)
            happened = self._selector.select(wake - time.monotonic() if wake < math.inf else None)
            # The next jobs begin before anybody is told of the last ones, so that no place stands empty while
            # the journal is synced.
            with self._everybody.afterwards():
                for key, _ in happened:
                    key.data()
                if time.monotonic() >= self._stop_at:
                    self._stop(f"the run's deadline of {self._options.deadline:g} s")
                self._executor.wake()
                blocked = self._start_ready()

    def _start_ready(self) -> Sequence[str]:
        """Start all jobs that can start. The locks of devices that jobs wait for while a worker is free."""
        busy = self._start_probes()
        if not self._executor.has_room:
            return ()
        later = self._evidence.failing_kernels()
        for kind, task in self._waiting.offered(lambda one: not one.examined and one.job.kernel in later):
            if not self._executor.has_room:
                return ()
            if self._executor.awaits_golden(task.job):
                continue
            if self._builders.is_being_built(task.job, (one.process.job for one in self._running.values())):
                continue
            device = None
            if self._reach.of(task.job):
                wanted = self._wanted(task)
                if not wanted:
                    self._without_device(self._waiting.take(kind))
                    continue
                wanted = self._executor.ready(task.job, wanted)
                if not wanted or wanted in busy:
                    continue
                device = self._executor.take(task.job, wanted)
                if device is None:
                    busy[wanted] = None
                    continue
            self._start(self._waiting.take(kind), device)
        return tuple(chain.from_iterable(busy))

    def _start_probes(self) -> dict[tuple[str, ...], None]:
        """Start the probes of suspect devices. Returns the devices that are not free."""
        busy: dict[tuple[str, ...], None] = {}
        for name, job_id in self._evidence.probes(self._probing).items():
            if self._stopped or not self._executor.has_room:
                break
            job = next(job for job in self._plan if job.id == job_id)
            device = self._executor.take(job, [name])
            if device is None:
                busy[name,] = None
                continue
            self._everybody.remark(f"probe: does device {name} pass {job_id}? ({self._evidence.why(name)})")
            folder = self._probe_folder / str(self._orders + 1)
            shutil.rmtree(folder, ignore_errors=True)  # left from before the run was resumed
            self._probing.add(name)
            self._send(None, job, folder, device)
        return busy

    def _wanted(self, task: Task) -> tuple[str, ...]:
        """The places that a task may be given now, the best first; empty if none is left for it."""
        usable = self._reach.usable(task.job)
        if task.repeats:
            if task.place in usable:
                return (task.place,)  # a difference then is the job's
            task.repeats.clear()
        # Avoid places where this job failed, even if they are free and the others are not.
        tried = {one.device for one in task.tries}
        left = fresh(usable, tried) if tried else usable
        if not left and (task.anywhere or not task.examined):
            left = usable
        return self._evidence.choose(left, idle=not self._running)

    def _start(self, task: Task, device: Device | None) -> None:
        if not task.examined:
            task.state = states.advance(task.job.id, task.state, State.RUNNING)
        folder = self._folder.job_folder(task.job)
        if task.starts == 0 and self._site.resumed:
            shutil.rmtree(folder, ignore_errors=True)  # left from before
        task.starts += 1
        task.place = device.name if device is not None else ""
        number, attempt = device.number if device is not None else None, task.attempt
        self._everybody.tell(lambda listener: listener.job_started(task.job, number, attempt))
        self._send(task, task.job, folder / str(task.starts), device)

    def _send(self, task: Task | None, job: Job, folder: Path, device: Device | None) -> None:
        """Begin a process for a job: of its task, or to probe the device if there is no task."""
        self._orders += 1
        process = Process(self._orders, job, folder, device)
        began = self._host.now().isoformat(timespec="milliseconds")
        self._running[process.number] = Running(task, process, began)
        self._executor.start(process)

    def _time(self) -> str:
        return self._host.now().isoformat(timespec="seconds")

    def _ended(self, number: int, ended: Ended) -> None:
        """The process of a number ended."""
        running = self._running.pop(number)
        job, place = running.process.job, running.process.device
        if running.task is None and place is not None:
            self._probing.discard(place.name)
        if ended.returned:
            self._take_back(running)
            return
        if ended.fault:
            self._problems.append(f"a keeper failed: {ended.fault}")
        written = self._site.result(number)
        if ended.lost is not None:
            result = ended.lost
        elif ended.report is None:
            result = verdict.judge_lost(job, ended.fault, ended.gave_up)
        else:
            result = verdict.judge(job, ended.report, written, self._options.marks)
        written.unlink(missing_ok=True)
        if ended.facts:
            result = replace(result, facts={**result.facts, **ended.facts})
        self._settle(running, result)

    def _take_back(self, running: Running) -> None:
        """A process did not begin: its task waits again, as if it had never been started."""
        task = running.task
        if task is None:
            return  # a probe: the device is still suspect, and so it will be tried again
        task.starts -= 1
        if not self._stopped:
            self._requeue(task)
        elif task.examined:
            self._decide(task)
        else:
            self._finish(task, Result(task.job, State.INTERRUPTED, self._stopped))

    def _settle(self, running: Running, result: Result) -> None:
        """After a process has ended, start another try or another repeat, or end the job."""
        task, process = running.task, running.process
        self._builders.end(process.job)
        if task is None:
            self._settle_probe(process, result)
            return
        device = process.device.number if process.device is not None else None
        if self._options.queue is not None and device is None:
            device = result.device  # the job itself says which card the scheduler lent it
        result = replace(result, device=device, started=running.started, attempts=task.attempt)
        result = relocated(result, process.folder, self._folder.path)
        if result.state is not State.INFRASTRUCTURE:
            task.repeats.append(result)
            unfinished = result.state in verdict.JUDGED and len(task.repeats) < self._settings.repeat
            if unfinished and not self._stopped:
                self._requeue(task)
                return
            result = verdict.merge_repeats(task.repeats)
            if result.state is State.INTERRUPTED or (unfinished and result.state is State.PASSED):
                result = replace(result, state=State.INTERRUPTED, message=self._stopped)
        task.repeats.clear()  # another try is a series of its own
        name = task.place or (lock_name(task.job.platform, device) if device is not None else "")
        if result.state is not State.INTERRUPTED:
            task.tries.append(self._evidence.note(name, result))
        if result.state is not State.INTERRUPTED or task.examined:
            self._decide(task)
        else:
            self._finish(task, result)
        if process.device is not None and (fault := self._evidence.refuses(name, self._unfinished())):
            self._give_up(fault)
        self._reconsider()

    def _unfinished(self) -> Iterator[Job]:
        yield from (one.job for one in self._waiting)
        yield from (one.process.job for one in self._running.values())

    def _settle_probe(self, process: Process, result: Result) -> None:
        folder = process.folder
        if result.state is State.PASSED:
            shutil.rmtree(folder, ignore_errors=True)
        self._artefacts.admit_probe(folder)
        if result.state is State.INTERRUPTED or process.device is None:
            return
        name, job = process.device.name, result.job.id
        if fault := self._evidence.probed(name, result):
            self._give_up(fault)
        elif result.state is State.PASSED:
            self._everybody.remark(f"device {name} passes {job}")
        else:
            self._everybody.remark(f"the probe of device {name} says nothing about it: {result.message}")
        self._reconsider()

    def _set_aside(self, name: str, reason: str) -> None:
        self._give_up(Fault(f"device {name}", (name,), reason))

    def _give_up(self, fault: Fault) -> None:
        for name in fault.places:
            self._executor.set_aside.setdefault(name, fault.reason)
        self._everybody.remark(f"{fault.what} is set aside: {fault.reason}")

    def _reconsider(self) -> None:
        """Decide again about jobs whose end depends on news about a device."""
        parked, self._parked = self._parked, []
        for task in parked:
            self._decide(task)

    def _seek_news(self) -> None:
        """When only such jobs are left: probe the devices, else try one of the jobs again, else end it."""
        if not self._evidence.question([one for task in self._parked for one in task.tries]):
            task = min(self._parked, key=lambda one: len(one.tries))
            self._parked.remove(task)
            self._decide(task, final=True)
        self._reconsider()

    def _decide(self, task: Task, *, final: bool = False) -> None:
        """After a try, or news about a device: end the task, try it again, or wait unless this is `final`."""
        usable, places = self._reach.usable(task.job), self._reach.of(task.job)
        goes_on = not self._stopped and (bool(usable) or not places)
        tried = {one.device for one in task.tries}
        elsewhere = goes_on and bool(fresh(usable, tried))
        decision = self._evidence.decide(
            task.tries,
            elsewhere=elsewhere,
            alone=len(usable if places else self._executor.lent(task.job)) == 1,
            retries=self._retries if goes_on else 0,
            final=final or not goes_on,
        )
        if decision is Next.WAIT:
            self._parked.append(task)
        elif decision is Next.AGAIN:
            task.attempt, task.anywhere = task.attempt + 1, not elsewhere
            last = task.tries[-1]
            # A job that was refused by a device that has passed nothing waits until there is more evidence;
            # not if it blames the node, which waits for what becomes of it on another one.
            late = last.refused and not last.by_node and not self._evidence.proven(last.device)
            self._requeue(task, last=late)
        elif isinstance(decision, Result):
            self._finish(task, decision)

    def _requeue(self, task: Task, *, last: bool = False) -> None:
        if not task.examined:
            task.state = states.advance(task.job.id, task.state, State.WAITING)
        self._waiting.add(task, self._kind(task), first=not last)

    def _without_device(self, task: Task) -> None:
        if task.examined:
            self._decide(task, final=True)
            return
        names = self._reach.of(task.job)
        reasons = "; ".join(f"{name}: {self._executor.set_aside[name]}" for name in names)
        self._finish(task, Result(task.job, State.INFRASTRUCTURE, f"no device is left ({reasons})"))

    def _finish(self, task: Task, result: Result) -> None:
        """End a task that was tried: with its tries as facts, reviewed and excused."""
        result = self._options.review(task.with_tries(result))
        self._end(task, verdict.apply_requirement(result))

    def _end(self, task: Task, result: Result) -> None:
        task.state = states.advance(task.job.id, task.state, result.state)
        self._record(self._artefacts.admit(result), self._everybody)

    def _record(self, result: Result, listeners: Broadcast) -> None:
        listeners.tell(lambda listener: listener.job_finished(result))

    def _result(self, job: Job) -> Result:
        """The result of a job that has ended, in this process or before the run was resumed."""
        known = self._finished.get(job.id)
        try:
            return self._artefacts.final(known if known is not None else self._journal.result(job))
        except JournalError as error:  # the report of all others is written none the less
            if str(error) not in self._problems:
                self._problems.append(str(error))
            return lost_result(job)

    def _interrupt(self, signals: SignalWatch) -> None:
        for number in signals.take():
            self._stop(f"interrupted by {number.name}")

    def _stop(self, reason: str) -> None:
        """End the run early: start nothing more, and end the jobs that are running."""
        if self._stopped:
            return
        self._stopped, self._stop_at = reason, math.inf
        waited_for = cache(self._waits.reason)
        self._reconsider()
        for task in self._waiting.drain():
            if task.examined:
                self._decide(task)
                continue
            why = filter(None, (reason, waited_for(self._reach.of(task.job))))
            self._end(task, Result(task.job, State.INTERRUPTED, "; ".join(why)))
        self._executor.cancel()

    def _at_best(self) -> float:
        """See `sequence.at_best`."""
        ran = (self._result(job) for job in self._plan if job.id not in self._finished)
        reach = self._reach
        return sequence.at_best(ran, reach.most_workers, reach.places, reach.widths, self._builders.waited())

    def _conclude(self, seconds: float) -> RunSummary:
        before = self._before
        # Every planned job must have a result: one without is a fault of the pipeline, and is reported.
        lost = [job for job in self._plan if job.id not in self._finished and not self._journal.has(job)]
        if lost and not self._problems:
            self._problems.append(f"no result of {len(lost)} of {counted(len(self._plan), 'planned job')}")
        for job in lost:
            self._record(lost_result(job), self._everybody)
        results = Computed(self._result, self._plan)
        shutil.rmtree(self._site.results, ignore_errors=True)
        code = states.exit_code(result.state for result in results)
        dropped = tuple(sorted(self._artefacts.dropped))
        summary = RunSummary(
            self._folder.run_id,
            self._folder.path,
            results,
            code,
            before.seconds if before is not None and before.seconds is not None else seconds,
            set_aside=dict(sorted(self._executor.set_aside.items())),
            undecided=self._evidence.undecided(),
            dropped=dropped,
            at_best=before.at_best if before is not None else self._at_best(),
        )
        # Each listener is told of the failures of those before it.
        self._everybody.tell(lambda listener: listener.run_finished(self._with_problems(summary)))
        return self._with_problems(summary)

    def _with_problems(self, summary: RunSummary) -> RunSummary:
        problems = (*self._problems, *self._everybody.problems, *self._watchers.problems)
        code = INTERNAL_ERROR if problems else summary.exit_code
        return replace(summary, problems=problems, exit_code=code)
