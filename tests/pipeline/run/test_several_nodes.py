"""Runs on several nodes, with an executor that runs nothing: who is at fault, a job, a device or a node."""

from __future__ import annotations

import os
import random
import selectors
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from pipeline.engines.base import Availability
from pipeline.ground.jobs import Job, State
from pipeline.ground.results import Blame, Diff, Result, StageResult
from pipeline.run.begin import run_jobs
from pipeline.run.devices import Device, node_of, number_of
from pipeline.run.executor import Ended, Process, Site, Told
from pipeline.run.listener import RunSummary
from pipeline.run.options import Host, RunOptions

MakeJob = Callable[..., Job]
Ends = Callable[[Job, str], Result]


class Nodes:
    """An executor that has places with so many processes at a time, where jobs end at once, as told.

    The places of a job are those that its platform's name is a part of the name of.
    """

    def __init__(
        self, plan: Sequence[Job], widths: Mapping[str, int], ends: Ends, draw: random.Random
    ) -> None:
        self.set_aside: dict[str, str] = {}
        self.workers = sum(widths.values())
        self.wake_at = float("inf")
        self._plan, self._widths, self._ends, self._draw = plan, widths, ends, draw
        self._places = tuple(widths)
        self._used: Counter[str] = Counter()
        self._running: deque[Process] = deque()
        self.order: list[tuple[str, str]] = []

    @property
    def has_room(self) -> bool:
        return len(self._running) < self.workers

    def remarks(self) -> Sequence[str]:
        return ()

    def open(self, site: Site, selector: selectors.BaseSelector, told: Told) -> None:
        self._told, self._bell = told, os.eventfd(0)
        selector.register(self._bell, selectors.EVENT_READ, self._end_one)

    def wake(self) -> None:
        pass

    def available(self, job: Job) -> Availability:
        return Availability()

    def reach(self, job: Job) -> tuple[str, ...]:
        return self._places

    def width(self, name: str) -> int:
        return self._widths[name]

    def ready(self, job: Job, names: tuple[str, ...]) -> tuple[str, ...]:
        return names

    def lent(self, job: Job) -> tuple[int, ...]:
        return ()

    def place_of(self, result: Result) -> str:
        return ""

    def take(self, job: Job, names: Sequence[str]) -> Device | None:
        free = (
            name for name in names if self._used[name] < self._widths[name] and name not in self.set_aside
        )
        name = next(free, "")
        self._used[name] += 1
        return Device(number_of(name), name) if name else None

    def held_elsewhere(self, names: Sequence[str]) -> tuple[str, ...]:
        return ()

    def holder(self, name: str) -> str:
        return ""

    def start(self, process: Process) -> None:
        self._running.append(process)
        os.eventfd_write(self._bell, 1)

    def _end_one(self) -> None:
        self._running.rotate(self._draw.randrange(len(self._running)))
        process = self._running.popleft()
        if not self._running:
            os.eventfd_read(self._bell)
        assert process.device is not None
        self._used[process.device.name] -= 1
        self.order.append((process.job.id, process.device.name))
        result = self._ends(process.job, process.device.name)
        self._told.ended(process.number, Ended(lost=replace(result, seconds=1.0)))

    def cancel(self) -> None:
        pass

    def compute(self, missing: Mapping[str, Any]) -> None:
        pass

    def awaits_golden(self, job: Job) -> bool:
        return False

    def close(self) -> None:
        os.close(self._bell)


Night = Callable[..., RunSummary]


@pytest.fixture
def night(options: RunOptions, watcher: Any) -> Night:
    """Runs jobs on nodes `a` and `b` of two devices each, unless others are given."""

    def run(
        plan: Sequence[Job], ends: Ends, *, widths: Mapping[str, int] | None = None, seed: int = 0
    ) -> RunSummary:
        there = widths or dict.fromkeys(devices("a", "b"), 1)
        nodes = Nodes(plan, there, ends, random.Random(seed))
        host = Host(available=lambda _job: Availability(), executor=lambda _terms: nodes)
        summary = run_jobs(plan, options, [watcher], host)
        assert summary.problems == ()
        return summary

    return run


def devices(*nodes: str) -> list[str]:
    return [f"{node}:emulated-{number}" for node in nodes for number in (0, 1)]


def fine(job: Job, place: str) -> Result:
    return Result(job, State.PASSED, device=number_of(place))


def lacks(job: Job, message: str) -> Result:
    return Result(job, State.INFRASTRUCTURE, message, blames=Blame.HOST)


def wrong(job: Job, place: str) -> Result:
    diff = Diff("y", (1,), 1, 1, 1, "bad", "good")
    stages = (StageResult("fused", State.MISMATCH, diffs=(diff,)),)
    return Result(job, State.MISMATCH, "bad", device=number_of(place), stages=stages)


def states(summary: RunSummary) -> Counter[State]:
    return Counter(one.state for one in summary.results)


def on_b(does: Callable[[Job, str], Result]) -> Ends:
    """Jobs of the kernel `target` end so on node b; all else passes."""
    return lambda job, place: (
        does(job, place) if node_of(place) == "b" and job.kernel == "target" else fine(job, place)
    )


MIXTURES = {"alone": ["target"] * 12, "among others": ["target", "passes"] * 8}


@pytest.mark.parametrize("mixture", MIXTURES)
@pytest.mark.parametrize("message", ["the compiler cannot be run", "[Errno 28] No space left on device"])
@pytest.mark.parametrize("widths", [None, {"a:host": 2, "b:host": 2}], ids=["devices", "hosts"])
@pytest.mark.parametrize("seed", range(3))
def test_what_a_node_lacks_is_no_jobs_fault_and_the_node_is_set_aside(
    night: Night, make_job: MakeJob, watcher: Any, mixture: str, message: str, widths: Any, seed: int
) -> None:
    plan = [make_job(kernel) for kernel in MIXTURES[mixture]]
    summary = night(plan, on_b(lambda job, _place: lacks(job, message)), widths=widths, seed=seed)
    assert states(summary) == {State.PASSED: len(plan)}
    assert {node_of(name) for name in summary.set_aside} == {"b"}
    assert len(summary.set_aside) == (1 if widths else 2)
    (told,) = (line for line in watcher.remarks if "is set aside" in line)
    assert told.startswith("node b is set aside: device/emu/")
    assert told.endswith(f"ends here as infrastructure: {message}")


@pytest.mark.parametrize("mixture", MIXTURES)
@pytest.mark.parametrize("seed", range(5))
def test_wrong_outputs_of_a_node_are_no_jobs_fault_and_never_become_a_pass(
    night: Night, make_job: MakeJob, watcher: Any, mixture: str, seed: int
) -> None:
    plan = [make_job(kernel) for kernel in MIXTURES[mixture]]
    summary = night(plan, on_b(wrong), seed=seed)
    red = [one for one in summary.results if any(each.state is State.MISMATCH for each in one.tries)]
    assert red
    assert {one.state for one in red} == {State.DEVICE_DEPENDENT}
    assert states(summary)[State.PASSED] == len(plan) - len(red)
    for one in red:
        assert one.message.startswith(f"wrong on device {one.device} of b, right on device ")
        assert one.message.endswith(" of a: bad")
    if mixture == "alone":
        assert {*summary.set_aside} == {*devices("b")}
        aside = [line for line in watcher.remarks if "is set aside" in line]
        assert aside[-1].startswith("node b is set aside: as device ")
        assert len(red) <= 3, "no more than the two devices were given before the first probe ended"


def test_a_job_that_fails_everywhere_fails_on_two_nodes(night: Night, make_job: MakeJob) -> None:
    plan = [make_job() for _ in range(4)]
    summary = night(plan, lambda job, place: wrong(job, place) if job == plan[0] else fine(job, place))
    assert states(summary) == {State.PASSED: 3, State.MISMATCH: 1}
    told = summary.results[0].facts["devices"]
    assert {" of a", " of b"} == {told[at : at + 5] for at in range(len(told)) if told.startswith(" of ", at)}
    assert summary.set_aside == {}


def test_what_a_job_provokes_it_provokes_on_two_nodes(night: Night, make_job: MakeJob) -> None:
    plan = [make_job() for _ in range(8)]
    refused = Result(plan[0], State.INFRASTRUCTURE, "507018", blames=Blame.DEVICE)
    summary = night(plan, lambda job, place: refused if job == plan[0] else fine(job, place))
    assert states(summary) == {State.PASSED: 7, State.PROVOKED: 1}
    assert {place.partition(":")[0] for place in (one.device for one in summary.results[0].tries)} == {
        "a",
        "b",
    }
    assert summary.set_aside == {}


@pytest.mark.parametrize("seed", range(3))
def test_a_sick_device_of_a_node_is_set_aside_alone(night: Night, make_job: MakeJob, seed: int) -> None:
    sick = "b:emulated-1"
    plan = [make_job() for _ in range(12)]
    summary = night(
        plan, lambda job, place: wrong(job, place) if place == sick else fine(job, place), seed=seed
    )
    assert list(summary.set_aside) == [sick]
    assert states(summary).keys() == {State.PASSED, State.DEVICE_DEPENDENT}


def test_on_the_only_node_two_devices_are_the_two_witnesses(night: Night, make_job: MakeJob) -> None:
    plan = [make_job() for _ in range(4)]
    widths = dict.fromkeys(devices("a"), 1)
    ends = lambda job, place: wrong(job, place) if job == plan[0] else fine(job, place)  # noqa: E731
    summary = night(plan, ends, widths=widths)
    assert summary.results[0].facts["devices"].startswith("failed in the same way on device ")
    full = night(plan, lambda job, _place: lacks(job, "[Errno 28] No space left on device"), widths=widths)
    assert states(full) == {State.INFRASTRUCTURE: 4}
    assert full.set_aside == {}


def test_what_no_order_could_save_counts_what_a_host_takes_at_a_time(night: Night, make_job: MakeJob) -> None:
    """Sixteen jobs of a second each, of which two nodes take four each at a time."""
    summary = night([make_job() for _ in range(16)], fine, widths={"a:host": 4, "b:host": 4})
    assert summary.at_best == 2.0


BROKEN: dict[str, Callable[[Job, str], Result]] = {
    "crashed": lambda job, _place: Result(job, State.CRASHED, "own bug"),
    "timed-out": lambda job, _place: Result(job, State.TIMED_OUT, "late"),
    "mismatch": wrong,
    "no-result": lambda job, _place: Result(job, State.NO_RESULT, "nothing"),
}
SICK: dict[str, Callable[[Job, str], Result]] = {
    "lost": lambda job, _place: Result(job, State.CRASHED, "lost"),
    "killed": lambda job, _place: Result(job, State.KILLED, "out of memory?"),
    "refused": lambda job, _place: Result(job, State.INFRASTRUCTURE, "507018", blames=Blame.DEVICE),
    "lacking": lambda job, _place: lacks(job, "no compiler"),
    "timed-out": BROKEN["timed-out"],
    "mismatch": wrong,
}


@pytest.mark.parametrize("seed", range(30))
def test_nobody_is_blamed_for_another(night: Night, make_job: MakeJob, seed: int) -> None:
    """Some kernels are broken everywhere, and a device or a whole node is sick in another way."""
    draw = random.Random(seed)
    nodes = ["a", "b", "c", "d"][: draw.choice([2, 2, 3, 4])]
    widths = {f"{node}:emulated-{number}": 1 for node in nodes for number in range(draw.choice([1, 2, 3]))}
    ill, device = draw.choice([*SICK]), draw.choice([*widths])
    alone = draw.random() < 0.4 and ill != "lacking"
    sick = {name for name in widths if name == device or (not alone and node_of(name) == node_of(device))}
    broken = [kernel for kernel in BROKEN if kernel != ill]
    kernels = ["passes", *(draw.choice(["passes", "passes", *broken]) for _ in range(draw.randint(2, 4)))]
    plan = [make_job(kernel) for kernel in kernels for _ in range(draw.randint(2, 6))]
    draw.shuffle(plan)

    def ends(job: Job, place: str) -> Result:
        return SICK[ill](job, place) if place in sick else BROKEN.get(job.kernel, fine)(job, place)

    summary = night(plan, ends, widths=widths, seed=seed)
    for result in summary.results:
        right = State.PASSED if result.job.kernel == "passes" else State(result.job.kernel)
        if result.state is State.DEVICE_DEPENDENT:
            assert ill == "mismatch"
            assert any(each.device in sick for each in result.tries)
        else:
            assert result.state is right, f"{result.job.id}: {result.message} {result.tries}"
    assert set(summary.set_aside) <= sick, summary.set_aside
