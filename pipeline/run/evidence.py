"""What the jobs of a run say about its devices: whether a failure is its job's fault or its device's.

Nothing here starts a process: the controller notes how processes ended, asks what follows, and carries it
out. Devices are named by their locks (`npu-0`). A place on a node that is no device counts as one.

- Two devices are independent witnesses of a job if no fault of a host explains both: if they are on different
  nodes, or if the job can run on one only (`_witness`).
- A device comes under suspicion by an infrastructure error that blames it, by the first trouble of a kind,
  and by three different jobs in trouble in a row. It gets no ordinary jobs while others can do them.
- The first job in trouble of a kind is tried on a second, independent device too. What fails alike on both is
  its fault.
- Else a probe decides about the device: the smallest job that passed in this run has to pass there. Verdicts
  that rest on the device wait for that.
- Where there are several nodes, an error that blames the host makes all devices of its node suspect, and so
  does a device that fails its probe. If a second one fails, or the host is blamed again, it is the node's
  fault.
- What was tried on a device that was set aside says nothing about a job, except that a wrong output is never
  turned into a pass.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from itertools import combinations, filterfalse

from pipeline.engines.host_faults import FULL_DISK
from pipeline.ground.jobs import Job, State
from pipeline.ground.results import Blame, Result
from pipeline.results.fingerprint import fingerprint
from pipeline.run.devices import in_words, node_of
from pipeline.run.tries import TROUBLE, WRONG, Fault, Try, places_of, told

_ROW = 3
"""So many different jobs in trouble in a row make a device suspect."""

_NODE = "node"
"""In whose stead a device is suspect of which another one on its node failed its probe."""


class Next(Enum):
    """What has to happen before a job's end is known: another try, or news about a device."""

    AGAIN = auto()
    WAIT = auto()


@dataclass
class _Device:
    """What is known of one device.

    `passes` are (event, job, whether it was a probe): those that can say something about a job in trouble.
    After the last trouble these are the first one and the first of another job; `passed` are the two jobs.
    `row` has the jobs in trouble since the last pass, `doubts` why the device is suspect, by job;
    `awaited` are those of these jobs that are being tried on a second device, `by_node` those that ended by
    the fault of its node. `compared`: a job failed on another device as it failed here. `untestable`: a probe
    failed for a reason that is not the device's, such as a full disk, so that none is tried again.
    """

    passes: list[tuple[int, str, bool]] = field(default_factory=list)
    passed: set[str] = field(default_factory=set)
    row: dict[str, Try] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    kinds: set[str] = field(default_factory=set)
    doubts: dict[str, str] = field(default_factory=dict)
    awaited: set[str] = field(default_factory=set)
    by_node: set[str] = field(default_factory=set)
    compared: bool = False
    untestable: bool = False


class Evidence:
    """The evidence of one run."""

    def __init__(self, reach: Mapping[str, Collection[str]], aside: Mapping[str, str]) -> None:
        """Begin without any.

        Args:
            reach: by job id, the devices that the run can choose for it.
            aside: the devices set aside, as they are at each moment.
        """
        self._reach = reach
        self._aside = aside
        self._devices: defaultdict[str, _Device] = defaultdict(_Device)
        self._troubled: set[str] = set()
        self._proven: set[str] = set()
        self._good: defaultdict[str, dict[str, float]] = defaultdict(dict)
        self._convicted: defaultdict[str, list[str]] = defaultdict(list)
        self._events = 0

    def know(self, device: str, result: Result) -> None:
        """A result from before the run was resumed: a job that passed can be used for probes."""
        if result.state is State.PASSED:
            self._good[device][result.job.id] = result.seconds

    def note(self, device: str, result: Result) -> Try:
        """A job ended on a device (empty: it used none). What the end means is for `decide` to say."""
        self._events += 1
        one = Try(device, result, fingerprint(result), self._events)
        if not device:
            return one
        known, job = self._devices[device], result.job.id
        if result.state is State.INFRASTRUCTURE and result.blames is Blame.HOST:
            one = replace(one, by_node=self._several(job))
        if result.state is State.PASSED:
            if len(known.passed) < 2 and job not in known.passed:
                known.passed.add(job)
                known.passes.append((one.at, job, False))
            known.by_node.discard(job)
            self._proven.add(device)
            known.row.clear()
            stays = known.awaited | known.by_node  # what one job lacks, another one may not need
            known.doubts = {who: why for who, why in known.doubts.items() if who in stays}
            self.know(device, result)
        elif one.failed or one.refused:
            one = replace(one, first=one.kind not in known.kinds)
            self._troubled.add(device)
            known.failed.add(job)
            known.passed.clear()
            known.kinds.add(one.kind)
            known.row[job] = one
            if device not in self._reach.get(job, ()):
                return one  # a scheduler chooses the devices: nothing can be steered
            if one.refused or one.first:
                self._doubt(self._blamed(one), job, f"{job} ended there as {told(result)}")
            if one.by_node:
                for place in self._blamed(one):
                    self._devices[place].by_node.add(job)
            if len(known.row) >= _ROW:
                known.doubts[""] = f"{len(known.row)} jobs in a row failed there"
        return one

    def _doubt(self, devices: Iterable[str], who: str, why: str) -> None:
        for device in devices:
            self._troubled.add(device)
            self._devices[device].doubts[who] = why

    # Devices and nodes

    def _several(self, job: str) -> bool:
        """Whether a job can run on several nodes, so that a fault of one can be told from the job's."""
        nodes = (node_of(place) for place in self._reach.get(job, ()) if place not in self._aside)
        first = next(nodes, "")
        return any(node != first for node in nodes)

    def _witness(self, job: str, device: str) -> str:
        """What bears witness about a job that ran on a device: two with the same are not independent."""
        return node_of(device) if self._several(job) else device

    def _blamed(self, one: Try) -> tuple[str, ...]:
        """The devices that a try speaks against, unless it speaks against its job."""
        return self._of_node(one.device) if one.by_node else (one.device,)

    def _of_node(self, device: str) -> tuple[str, ...]:
        """All places on the node of a device, those set aside left out; it comes first."""
        node = node_of(device)
        places = (place for place in places_of(self._reach) if node_of(place) == node)
        return tuple(place for place in dict.fromkeys((device, *places)) if place not in self._aside)

    # Which device gets which job

    def choose(self, devices: Sequence[str], *, idle: bool) -> tuple[str, ...]:
        """Those of `devices` that a job may be given now, the best first; suspects only for want of others.

        If all are suspects, jobs wait for those with the fewest failures: a device that fails fast would
        draw all the work. In an `idle` run they need not wait for a device that another process holds,
        unless a suspect can be tested or a second opinion about it is still to come.
        """
        all_known = self._devices
        troubled = {one for one in self._troubled if all_known[one].row or all_known[one].doubts}
        if troubled.isdisjoint(devices):  # there may be hundreds, and this is asked for each job
            proven = self._proven.__contains__
            return (*filter(proven, devices), *filterfalse(proven, devices))
        ranked = sorted(devices, key=lambda one: (len(all_known[one].row), not all_known[one].passes))
        best = [one for one in ranked if not all_known[one].doubts]
        if not best:
            fewest = len(all_known[ranked[0]].row) if ranked else 0
            best = [one for one in ranked if len(all_known[one].row) == fewest]
        if idle:
            others = (one for one in ranked if one not in best and not all_known[one].awaited)
            best += [one for one in others if not self._known_good(one)]
        return tuple(best)

    def failing_kernels(self) -> frozenset[str]:
        """Kernels that failed on a device where nothing has passed: jobs of others tell more about it."""
        devices = (known for known in self._devices.values() if not known.passes)
        return frozenset(one.result.job.kernel for known in devices for one in known.row.values())

    def proven(self, device: str) -> bool:
        """Whether a job has passed on a device in this run."""
        return device in self._proven

    # Probes

    def probes(self, begun: Collection[str] = ()) -> Mapping[str, str]:
        """By suspect device that can be tested now, the job that has to pass there.

        Of the devices of one node among several, one is tested at a time. `begun`: devices whose test has.
        """
        found: dict[str, str] = {}
        for device, known in self._devices.items():
            if not known.doubts or known.awaited or device in self._aside or device in begun:
                continue
            if job := self._known_good(device):
                siblings = any(node_of(other) == node_of(device) for other in (*begun, *found))
                if not (siblings and self._several(job)):
                    found[device] = job
        return found

    def why(self, device: str) -> str:
        """Why a device is suspect."""
        return "; ".join(self._devices[device].doubts.values())

    def probed(self, device: str, result: Result) -> Fault | None:
        """A probe of a device ended. Returns what to set aside; None if nothing is at fault."""
        self._events += 1
        if device in self._aside:
            return None
        known, job = self._devices[device], result.job.id
        several = self._several(job)
        lacks = several and result.state is State.INFRASTRUCTURE and result.blames is Blame.HOST
        node = self._of_node(device) if several else (device,)
        known.doubts.clear()
        if result.state is State.PASSED:
            known.passes.append((self._events, job, True))
            self._proven.add(device)
            known.row.clear()
            self._acquit(node)
        elif result.state in TROUBLE or result.blames is Blame.DEVICE or lacks:
            others = (place for place, passed in self._good.items() if job in passed)
            where = device if job in self._good[device] else next(others)
            why = f"{job}, which passed on {in_words(where)}, ends here as {told(result)}"
            return self._convict(node, why, several=several, lacks=lacks)
        else:
            known.by_node.clear()
            known.untestable = True
        return None

    def _acquit(self, node: Sequence[str]) -> None:
        """The first of the devices of a node passed a probe, so what speaks against the node is refuted."""
        self._convicted.pop(node_of(node[0]), None)
        for known in map(self._devices.__getitem__, node):
            for who in (_NODE, *known.by_node):
                known.doubts.pop(who, None)
            known.by_node.clear()

    def _convict(self, node: Sequence[str], why: str, *, several: bool, lacks: bool) -> Fault:
        """The first of the devices of a node failed a probe: since the node `lacks` something, or by itself.

        If it is the second device that did, the node is at fault too; if it is the first, the others are
        suspect. Both need another node that can do the job: there are `several`.
        """
        device, *others = node
        convicted = self._convicted[node_of(device)]
        if several and convicted:
            why = f"as {in_words(convicted[0])}, {in_words(device)} failed its probe: {why}"
        if lacks or (several and convicted):
            return Fault(f"node {node_of(device)}", tuple(node), why)
        if several:
            convicted.append(device)
            self._doubt(others, _NODE, f"{in_words(device)} failed its probe")
        return Fault(f"device {device}", (device,), why)

    def question(self, tries: Sequence[Try]) -> bool:
        """Make the devices suspect on which verdicts about jobs depend. False: no probe can be made."""
        found = False
        for one in tries:
            doubts = self._devices[one.device].doubts
            fair = self._vindicated(one) or one.device in self._aside or not self._known_good(one.device)
            if one.failed and not fair:
                doubts.setdefault(one.result.job.id, f"{one.result.job.id} ended there as {told(one.result)}")
                found = True
        return found

    def refuses(self, device: str, waiting: Iterable[Job]) -> Fault | None:
        """What to set aside since a device never passed anything and cannot be tested; None: nothing.

        It is kept as long as jobs are `waiting` for it whose kernels have not been tried there.
        """
        known = self._devices[device]
        row = list(known.row.values())
        dead = all(one.refused or one.result.state is State.TIMED_OUT for one in row)
        if len(row) < _ROW or known.passes or not dead or self._known_good(device):
            return None
        kernels = {one.result.job.kernel for one in row}
        if any(job.kernel not in kernels and device in self._reach.get(job.id, ()) for job in waiting):
            return None
        why = f"{len(row)} jobs in a row, and none passed; the last ended as {told(row[-1].result)}"
        if all(one.by_node for one in row):
            return Fault(f"node {node_of(device)}", self._of_node(device), why)
        return Fault(f"device {device}", (device,), why)

    def undecided(self) -> Mapping[str, str]:
        """Devices on which several jobs failed and none passed, and which nothing could be compared with."""
        untold = "jobs on it failed, and no other device could tell it from the kernels"
        return {
            device: f"all {len(known.failed)} {untold}"
            for device, known in sorted(self._devices.items())
            if len(known.row) >= _ROW
            and not (known.passes or known.compared or device in self._aside)
            and known.doubts
        }

    def _known_good(self, device: str) -> str:
        """The job to probe a device with: one that passed there, else elsewhere; the quickest.

        What only another node could do comes first: it says whether this one can by now.
        """
        known, here = self._devices[device], self._good[device]
        able = (
            (job not in known.by_node, job in known.failed, job not in here, seconds, job)
            for passed in self._good.values()
            for job, seconds in passed.items()
            if device in self._reach.get(job, ()) and not known.untestable
        )
        return min(able, default=(True, False, False, 0.0, ""))[-1]

    # Verdicts

    def decide(
        self, tries: Sequence[Try], *, elsewhere: bool, alone: bool, retries: int, final: bool
    ) -> Result | Next:
        """The result of a job that ended as `tries` says, or what has to come first.

        Args:
            tries: in order; the last one has just ended, or its device has just been decided about.
            elsewhere: whether there is a device that is `fresh` for the job.
            alone: whether only one device can be used.
            retries: how often an infrastructure error is retried, if that can help.
            final: no more will be known than is now.
        """
        last = tries[-1]
        for one in tries:
            for device in self._blamed(one):
                self._devices[device].awaited.discard(last.result.job.id)
        valid = [one for one in tries if one.device not in self._aside]
        errors = [one for one in valid if one.result.state is State.INFRASTRUCTURE]
        only_errors = bool(errors) and errors == valid and not elsewhere
        if last.result.state is State.INFRASTRUCTURE or (last.failed and only_errors):
            return self._after_refusal(tries, elsewhere, alone, retries, final)
        if last.failed:
            return self._after_failure(tries, elsewhere, alone, final)
        return self._after_pass(tries, final)

    def _after_pass(self, tries: Sequence[Try], final: bool) -> Result | Next:
        *before, last = tries
        if not before:
            return last.result
        wrong = next((one for one in before if one.result.state in WRONG), None)
        if last.result.state is not State.PASSED:
            return wrong.result if wrong is not None else last.result
        if wrong is not None:
            return self._dependent(wrong, last)
        others = set(self._reach.get(last.result.job.id, ())) - {last.device}
        # What a device refused and another one passed is the device's; only a failure may also be the job's.
        before = [one for one in before if one.failed and one.device in others]
        fine = next((one for one in before if self._vindicated(one)), None)
        if fine is not None:
            return self._dependent(fine, last, self._vindicated(fine))
        undecided = [one for one in before if one.device not in self._aside]
        if undecided and not final:
            return Next.WAIT
        return next((one.result for one in undecided), last.result)

    def _after_failure(
        self, tries: Sequence[Try], elsewhere: bool, alone: bool, final: bool
    ) -> Result | Next:
        failed = [one for one in tries if one.failed]
        valid = [one for one in failed if one.device not in self._aside]
        job = failed[0].result.job.id
        for one, two in combinations(valid, 2):
            if one.kind == two.kind and self._witness(job, one.device) != self._witness(job, two.device):
                for device in (one.device, two.device):
                    self._devices[device].doubts.pop(job, None)
                    self._devices[device].compared = True
                both = f"failed in the same way on {in_words(one.device)} and {in_words(two.device)}"
                return replace(one.result, facts={**one.result.facts, "devices": both})
        witnesses = {self._witness(job, one.device) for one in valid}
        open_ends = [one for one in valid if self._open(one, alone)]
        if len(witnesses) > 1:  # in different ways: one of the devices may be at fault
            open_ends = [one for one in valid if not self._vindicated(one)]
            for one in open_ends:
                self._devices[one.device].doubts.setdefault(job, f"{job} failed there in another way")
        # A sample; at the end also what rests on a device that nothing has told from the kernels.
        sample = len(witnesses) == 1 and (any(one.first for one in valid) or (final and open_ends))
        if elsewhere and (sample or not valid):
            for one in valid:
                self._devices[one.device].awaited.add(job)
            return Next.AGAIN
        if open_ends and not final:
            return Next.WAIT
        if valid or failed[0].result.state in WRONG or not failed[0].device:
            return (valid or failed)[0].result
        first = failed[0]
        message = (
            f"{in_words(first.device)} was set aside: {self._aside[first.device]} ({told(first.result)})"
        )
        return replace(first.result, state=State.INFRASTRUCTURE, message=message, blames=Blame.DEVICE)

    def _open(self, one: Try, alone: bool) -> bool:
        """Whether the device of a try is in doubt, and may yet be known to be sick or not.

        That a job failed alike on two devices is no alibi for the jobs that fail after it on one of them.
        """
        known, row = self._devices[one.device], len(self._devices[one.device].row)
        if one.by_node:
            return bool(known.by_node and self._known_good(one.device))
        if self._vindicated(one):
            return False
        if self._known_good(one.device):
            return bool(known.doubts) or row > 1
        if known.compared:
            return 1 < row <= _ROW
        return bool(known.doubts) and not known.passes and not alone

    def _after_refusal(
        self, tries: Sequence[Try], elsewhere: bool, alone: bool, retries: int, final: bool
    ) -> Result | Next:
        last, job = tries[-1], tries[-1].result.job.id
        refused = [
            one
            for one in tries
            if one.refused and not one.by_node and one.device and one.device not in self._aside
        ]
        witnesses = {self._witness(job, one.device) for one in refused}
        if last.refused and not last.by_node and (len(witnesses) > 1 or (alone and len(refused) > 1)):
            if all(self._vindicated(one) for one in refused):
                names = " and ".join(map(in_words, dict.fromkeys(one.device for one in refused)))
                message = (
                    f"the job itself provokes it, other jobs pass there ({names}): {last.result.message}"
                )
                return replace(last.result, state=State.PROVOKED, message=message, blames=Blame.NOTHING)
            if not final:
                return Next.WAIT
        errors = [one for one in tries if one.result.state is State.INFRASTRUCTURE]
        tried = sum(one.device not in self._aside for one in errors)
        if retries and tried <= retries and not _lasts(last):
            if last.by_node and elsewhere:
                for device in self._blamed(last):
                    self._devices[device].awaited.add(job)
            return Next.AGAIN
        if not final and len({one.device for one in refused}) > len(witnesses):
            tested = (place for place in self._reach.get(job, ()) if place not in self._aside)
            if any(self._devices[place].doubts and self._known_good(place) for place in tested):
                return Next.WAIT  # if the other nodes are at fault, two devices of this one are enough
        failed = [one for one in tries if one.failed]
        shown = [one for one in failed if one.device not in self._aside or one.result.state in WRONG]
        doubtful = (one for one in tries if (one.failed or one.by_node) and one.device not in self._aside)
        if not final and any(self._open(one, alone) for one in doubtful):
            return Next.WAIT
        return shown[0].result if shown else last.result

    def _vindicated(self, one: Try) -> str:
        """The job that passed on the device of a try since then: another job, or a probe. Empty: none."""
        own = one.result.job.id
        passes = self._devices[one.device].passes
        return next((job for at, job, probe in passes if at > one.at and (probe or job != own)), "")

    def _dependent(self, bad: Try, good: Try, passes: str = "") -> Result:
        """The result of a job that failed on one device and passed on another; the first one `passes` a job.

        A job whose repeats differ on one device stays what it is: chance may have spared it on the other.
        """
        if self._several(bad.result.job.id):
            # What fails there in this way need not be a job's fault: the next one is tried elsewhere too.
            self._devices[bad.device].kinds.discard(bad.kind)
        if bad.result.state is State.NONDETERMINISTIC:
            message = f"{bad.result.message}; right on {in_words(good.device)}"
            return replace(bad.result, message=message)
        if bad.result.state in WRONG:
            said = f"wrong on {in_words(bad.device)}, right on {in_words(good.device)}"
        else:
            said = f"{bad.result.state.value} on {in_words(bad.device)}, passed on {in_words(good.device)}"
            said += f"; {in_words(bad.device)} passes {passes}"
        message = ": ".join(filter(None, (said, bad.result.message)))
        return replace(bad.result, state=State.DEVICE_DEPENDENT, message=message, blames=Blame.NOTHING)


def _lasts(one: Try) -> bool:
    """Whether another try would meet the same error: the only host's disk is full or read-only."""
    full = one.result.blames is Blame.HOST and any(text in one.result.message for text in FULL_DISK)
    return full and not one.by_node
