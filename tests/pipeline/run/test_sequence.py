from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.ground.jobs import Job, Platform, State
from pipeline.ground.results import Attempt, Result
from pipeline.run.begin import run_jobs
from pipeline.run.goldens import Wanted
from pipeline.run.listener import RunSummary
from pipeline.run.local import LocalExecutor
from pipeline.run.options import Host, RunOptions
from pipeline.run.sequence import at_best, builds, expected, expected_memory, ordered

CANN = Platform("cann", "cann", "a2a3")

Run = Callable[..., RunSummary]
MakeJob = Callable[..., Job]


def no_size(job: Job) -> float:
    return 0.0


def result(job: Job, *seconds: float) -> Result:
    tries = tuple(Attempt("", State.PASSED, "", each) for each in seconds)
    return Result(job, State.PASSED, seconds=seconds[-1], tries=tries)


def test_a_job_takes_what_it_took(make_job: MakeJob) -> None:
    job, other = make_job(), make_job()
    assert expected([job, other], {job.id: 7.0, other.id: 8.0}, no_size)[job.id] == 7.0


def test_a_job_without_a_record_takes_the_median_of_its_kind(make_job: MakeJob) -> None:
    known = [make_job() for _ in range(3)]
    slow, unknown = make_job("slow"), make_job()
    recorded = {**dict(zip((job.id for job in known), (1.0, 2.0, 9.0), strict=True)), slow.id: 50.0}
    assert expected([*known, slow, unknown], recorded, no_size)[unknown.id] == 2.0


def test_of_jobs_of_no_known_kind_the_larger_take_longer_and_a_compiler_longest(make_job: MakeJob) -> None:
    small, large, compiled = make_job("small"), make_job("large"), make_job("small", platform=CANN)
    sizes = {small.id: 1e6, large.id: 6e8, compiled.id: 1e6}
    found = expected([small, large, compiled], {}, lambda job: sizes[job.id])
    assert 0 < found[small.id] < found[large.id] < found[compiled.id]


def test_a_job_needs_the_memory_of_its_record_else_the_most_of_its_kind_else_what_is_usual(
    make_job: MakeJob,
) -> None:
    known, larger, alike = (make_job() for _ in range(3))
    emulated, compiled = make_job("other"), make_job(platform=CANN)
    both = make_job("other", platform=CANN, other=emulated.platform)
    recorded = {known.id: 1e9, larger.id: 3e9}
    found = expected_memory([known, larger, alike, emulated, compiled, both], recorded, no_size)
    assert (found[known.id], found[larger.id], found[alike.id]) == (1e9, 3e9, 3e9)
    assert 0 < found[emulated.id] < found[compiled.id] == found[both.id]


def test_the_longest_begin_first_and_equals_keep_their_order(make_job: MakeJob) -> None:
    jobs = [make_job() for _ in range(4)]
    seconds = dict(zip((job.id for job in jobs), (1.0, 5.0, 1.0, 9.0), strict=True))
    assert ordered(jobs, seconds, {}) == [jobs[3], jobs[1], jobs[0], jobs[2]]


def test_what_others_wait_for_is_built_first_by_the_shortest_of_them(make_job: MakeJob) -> None:
    jobs = [make_job() for _ in range(3)]
    seconds = dict(zip((job.id for job in jobs), (9.0, 5.0, 1.0), strict=True))
    assert ordered(jobs, seconds, {jobs[0].id: {"a"}, jobs[1].id: {"a"}}) == [jobs[1], jobs[0], jobs[2]]


def test_only_jobs_with_data_need_what_their_backend_builds(make_job: MakeJob) -> None:
    lacking = {"cann": "a library", "pypto": "an extension", "emulator": ""}
    emulated, run, compiled = make_job(), make_job(platform=CANN), make_job(platform=CANN, profile=None)
    both, two = make_job(other=CANN), make_job(platform=CANN, other=Platform("a2a3", "pypto", "a2a3"))
    found = builds([emulated, run, compiled, both, two], lacking.__getitem__)
    assert found == {
        run.id: {"a library"},
        both.id: {"a library"},
        two.id: {"a library", "an extension"},
    }


def test_a_job_that_builds_two_things_is_the_first_of_both(make_job: MakeJob) -> None:
    jobs = [make_job() for _ in range(3)]
    seconds = dict(zip((job.id for job in jobs), (9.0, 5.0, 1.0), strict=True))
    needed = {jobs[0].id: {"b"}, jobs[1].id: {"a"}, jobs[2].id: {"a", "b"}}
    assert ordered(jobs, seconds, needed) == [jobs[2], jobs[0], jobs[1]]


def test_what_took_no_time_is_recorded_too(make_job: MakeJob) -> None:
    job, alike = make_job(), make_job()
    assert expected([job, alike], {job.id: 0.0}, lambda job: 1e9) == {job.id: 0.0, alike.id: 0.0}


def test_no_order_is_better_than_work_shared_out_evenly(make_job: MakeJob) -> None:
    jobs = [make_job() for _ in range(4)]
    assert at_best([result(job, 2.0) for job in jobs], 2, {}, {}, {}) == 4.0
    # Each try takes its time.
    assert at_best([result(jobs[0], 2.0, 3.0)], 1, {}, {}, {}) == 5.0
    assert at_best([], 2, {}, {}, {}) == 0.0


@pytest.mark.parametrize(
    ("workers", "reach", "waited", "best"),
    [
        (4, {}, {}, 6.0),  # the longest job
        (4, {"1": ("emulated-0",), "2": ("emulated-0",)}, {}, 9.0),  # one device for two jobs
        (4, {"1": ("npu-0", "npu-1"), "2": ("npu-0", "npu-1")}, {}, 6.0),
        (4, {}, {"3": {"1"}}, 7.0),  # one job waits for what another builds
    ],
)
def test_no_order_is_better_than_what_has_to_wait(
    workers: int,
    reach: Mapping[str, Any],
    waited: Mapping[str, Any],
    best: float,
    make_job: MakeJob,
) -> None:
    results = [result(make_job(id=str(n)), seconds) for n, seconds in ((1, 6.0), (2, 3.0), (3, 1.0))]
    assert at_best(results, workers, reach, defaultdict(lambda: 1), waited) == best


def test_what_waited_for_a_build_was_shared_out_after_it(make_job: MakeJob) -> None:
    results = [result(make_job(id=str(n)), 2.0) for n in range(4)]
    assert at_best(results, 2, {}, {}, {"0": {"1", "2", "3"}}) == 5.0


WIDTHS = {"a:host": 3, "a:npu-0": 1, "b:host": 2, "b:npu-0": 1}
REACHES = (("b:npu-0",), ("b:host",), ("b:npu-0", "b:host"), ())


@dataclass
class Played:
    """A job: how long its tries take, if it waits for what the first job builds, and where it ran."""

    seconds: list[int]
    reach: tuple[str, ...]
    waits: bool
    where: list[str] = field(default_factory=list)


def play(jobs: Sequence[Played], workers: int, lost: int) -> int:
    """The seconds that jobs take of which each begins, in this order, as soon as there is room for it.

    `lost` is when node a is lost: until then, what can run on b can run there too.
    """
    now, built = 0, False
    waiting, running = list(jobs), list[tuple[int, Played]]()
    while waiting or running:
        for job in tuple(waiting):
            used = Counter(one.where[-1] for _, one in running)
            others = tuple(name.replace("b:", "a:") for name in job.reach) if now < lost else ()
            names = (*others, *job.reach) or ("",)
            free = next((name for name in names if not name or used[name] < WIDTHS[name]), None)
            if len(running) < workers and free is not None and (built or not job.waits or job is jobs[0]):
                running.append((now + job.seconds[len(job.where)], job))
                job.where.append(free)
                waiting.remove(job)
        now, ended = min(running, key=lambda one: one[0])
        running.remove((now, ended))
        built = built or ended is jobs[0]
        if len(ended.where) < len(ended.seconds):
            waiting.insert(0, ended)
    return now


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    jobs=st.lists(
        st.builds(
            Played,
            st.lists(st.integers(1, 9), min_size=1, max_size=2),
            st.sampled_from(REACHES),
            st.booleans(),
        ),
        min_size=1,
        max_size=12,
    ),
    workers=st.integers(1, 7),
    lost=st.sampled_from([0, 5, 30]),
)
def test_no_run_is_quicker_than_at_best(
    jobs: Sequence[Played], workers: int, lost: int, make_job: MakeJob
) -> None:
    """Also if places take several jobs, a node was lost, and what builds is tried again."""
    jobs = [replace(job, where=[]) for job in jobs]
    seconds = play(jobs, workers, lost)
    results = []
    for number, job in enumerate(jobs):
        pairs = zip(job.where, job.seconds, strict=True)
        tries = tuple(Attempt(place, State.PASSED, "", float(each)) for place, each in pairs)
        results.append(Result(make_job(id=str(number)), State.PASSED, tries=tries))
    reach = {str(number): job.reach for number, job in enumerate(jobs)}
    waited = {"0": {str(number) for number, job in enumerate(jobs) if job.waits and number}}
    assert at_best(results, workers, reach, WIDTHS, waited) <= seconds + 1e-9


# In a run


def test_a_run_begins_with_the_longest(run: Run, make_job: MakeJob, watcher: Any) -> None:
    jobs = [make_job() for _ in range(3)]
    seconds = dict(zip((job.id for job in jobs), (1.0, 3.0, 2.0), strict=True))
    run(*jobs, jobs=1, expected=seconds)
    assert [job for job, _, _ in watcher.started] == [jobs[1].id, jobs[2].id, jobs[0].id]


@pytest.mark.parametrize("builder", ["passes", "ends_as:infrastructure", "exits_hard:3"])
def test_one_job_builds_while_only_those_that_do_not_need_it_go_on(
    builder: str, run: Run, make_job: MakeJob, watcher: Any
) -> None:
    first, second, third = make_job(builder), make_job(), make_job()
    other = make_job("sleeps:0.2")
    ended_before: dict[str, set[str]] = {}

    def remember(job: Job) -> None:
        ended_before.setdefault(job.id, {one.job.id for one in watcher.finished})

    watcher.on_start = remember
    build = {job.id: {"a library"} for job in (first, second, third)}
    seconds = {first.id: 1.0, second.id: 5.0, third.id: 5.0, other.id: 2.0}
    summary = run(other, second, third, first, jobs=3, retries=0, expected=seconds, builds=build)
    assert [job for job, _, _ in watcher.started[:2]] == [first.id, other.id]
    assert first.id in ended_before[second.id] & ended_before[third.id]
    assert first.id not in ended_before[other.id]
    assert [one.state for one in summary.results[:3]] == [State.PASSED] * 3
    took = {one.job.id: one.seconds for one in summary.results}
    assert summary.at_best >= took[first.id] + max(took[second.id], took[third.id])


def test_the_golden_of_the_job_that_begins_first_is_asked_for_first(
    options: RunOptions, host: Host, make_job: MakeJob
) -> None:
    asked: list[str] = []

    class Computing(LocalExecutor):
        def compute(self, missing: Mapping[str, Wanted]) -> None:
            asked.extend(missing)

    jobs = [make_job() for _ in range(3)]
    seconds = dict(zip((job.id for job in jobs), (1.0, 3.0, 2.0), strict=True))
    missing = {job.id: Wanted(job, str(options.cache), None, 1.0) for job in jobs[:2]}
    options = replace(options, expected=seconds, missing=missing)
    run_jobs(jobs, options, [], replace(host, executor=Computing))
    assert asked == [jobs[1].id, jobs[0].id]
