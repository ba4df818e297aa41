"""In which order jobs begin, and how soon a run of them could have ended at best."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence, Set

from pipeline.engines.registry import BACKENDS, Backend, to_build
from pipeline.ground.jobs import Job
from pipeline.ground.results import Result

_GIGA = 1e9


def expected(
    plan: Sequence[Job], recorded: Mapping[str, float], macs: Callable[[Job], float]
) -> Mapping[str, float]:
    """By id, how long each job of a plan is expected to take, in seconds.

    It is what the job took when it was last measured, else the median of jobs of its lane, backend, geometry
    and kernel, else what its backend takes roughly for its size.

    Args:
        plan: the jobs.
        recorded: seconds by job id.
        macs: how many multiply-accumulates a job's geometry has.
    """

    def rough(job: Job) -> float:
        takes = [backend.seconds for backend in _backends(job)]
        return sum(base + growth * macs(job) / _GIGA for base, growth in takes)

    return _expected(plan, recorded, statistics.median, rough)


def expected_memory(
    plan: Sequence[Job], recorded: Mapping[str, float], macs: Callable[[Job], float]
) -> Mapping[str, float]:
    """By id, how much memory each job of a plan is expected to need at most, in bytes.

    It is found as `expected` finds seconds, but of jobs of its kind the one counts that needed most, and a
    job of two backends has one of them in memory at a time.
    """

    def rough(job: Job) -> float:
        needs = [backend.memory for backend in _backends(job)]
        return max((base + growth * macs(job) / _GIGA for base, growth in needs), default=0.0)

    return _expected(plan, recorded, max, rough)


def _expected(
    plan: Sequence[Job],
    recorded: Mapping[str, float],
    of_kind: Callable[[Sequence[float]], float],
    rough: Callable[[Job], float],
) -> Mapping[str, float]:
    alike: dict[tuple[str, ...], list[float]] = {}
    for job in plan:
        if job.id in recorded:
            alike.setdefault(_kind(job), []).append(recorded[job.id])
    usual = {kind: of_kind(values) for kind, values in alike.items()}
    known = {**{job.id: usual[_kind(job)] for job in plan if _kind(job) in usual}, **recorded}
    return {job.id: known[job.id] if job.id in known else rough(job) for job in plan}


def _kind(job: Job) -> tuple[str, ...]:
    backends = (platform.backend for platform in job.platforms)
    return (job.lane.value, job.geometry_name, job.kernel, *backends)


def _backends(job: Job) -> list[Backend]:
    return [BACKENDS[each.backend] for each in job.platforms if each.backend in BACKENDS]


def builds(plan: Sequence[Job], to_build: Callable[[str], str] = to_build) -> Mapping[str, Set[str]]:
    """By job id, what is built once for several jobs of a plan and is not built yet; see `lacked_by`.

    `to_build` says what a backend lacks.
    """
    backends = {platform.backend for job in plan for platform in job.platforms if job.profile is not None}
    lacking = {backend: what for backend in backends if (what := to_build(backend))}
    return {job.id: needs for job in plan if (needs := lacked_by(job, lacking))}


def lacked_by(job: Job, lacking: Mapping[str, str]) -> Set[str]:
    """What a job needs of that which backends lack, by their names; one that only compiles needs nothing."""
    if job.profile is None:
        return frozenset()
    return {lacking[each.backend] for each in job.platforms if each.backend in lacking}


def ordered(jobs: Sequence[Job], expected: Mapping[str, float], builds: Mapping[str, Set[str]]) -> list[Job]:
    """The jobs in the order in which they begin: one job for each build, then the longest first.

    Jobs that are expected to take equally long keep their order. `expected` and `builds` are those of
    `RunOptions`.
    """
    longest_first = sorted(jobs, key=lambda job: -expected.get(job.id, 0.0))
    builders: dict[str, Job] = {}
    for job in reversed(longest_first):  # the shortest: the others wait for its end
        for build in builds.get(job.id, ()):
            builders.setdefault(build, job)
    first = {job.id for job in builders.values()}
    return sorted(longest_first, key=lambda job: job.id not in first)


def at_best(
    results: Iterable[Result],
    workers: int,
    reach: Mapping[str, Sequence[str]],
    widths: Mapping[str, int],
    waited: Mapping[str, Set[str]],
) -> float:
    """Seconds below which no order of these jobs could have ended, each taking as long as it took.

    It is the largest of: all jobs shared out evenly among the workers; those that need the same places,
    among these; the longest job; and for each build the job that built with those that waited: the longest of
    them, or all shared out evenly.

    Args:
        results: of the jobs that were run.
        workers: how many jobs ran in parallel at most.
        reach: by job id, the places of which a job needed one; none for a job that needed none.
        widths: by place, how many jobs it takes at a time.
        waited: by id of a job that built something, the ids of those that waited for it.
    """
    took: dict[str, float] = {}
    first: dict[str, float] = {}
    sharing: dict[tuple[str, ...], float] = {}
    used: dict[tuple[str, ...], set[str]] = {}
    for one in results:
        seconds = [each.seconds for each in one.tries] or [one.seconds]
        took[one.job.id], first[one.job.id] = sum(seconds), seconds[0]
        if places := tuple(reach.get(one.job.id, ())):
            sharing[places] = sharing.get(places, 0.0) + sum(seconds)
            # Also where they ran: the places that are left may not be all that there were.
            used.setdefault(places, set(places)).update(filter(None, (each.device for each in one.tries)))
    bounds = [sum(took.values()) / workers, *took.values()]
    bounds += [seconds / sum(widths[name] for name in used[names]) for names, seconds in sharing.items()]
    for builder, others in waited.items():
        later = [took.get(job, 0.0) for job in others]
        # What a job builds is there after its first try.
        bounds.append(first.get(builder, 0.0) + max(sum(later) / workers, *later, 0.0))
    return max(bounds, default=0.0)
