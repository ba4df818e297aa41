"""Selects jobs of a plan: by names, by globs of ids, and one shard of several."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import translate
from functools import cache

from msgspec import Struct

from golden.errors import UserError
from pipeline.ground.jobs import Job, Lane
from pipeline.ground.words import closest, counted, shown

MOST_SHARDS = 256
"""The most jobs that GitHub allows in a workflow's matrix."""

_UNRECORDED = 1.0
_SHORTEST = 1e-3


class FilterError(UserError):
    """A filter or a shard makes no sense, usually because a name is unknown; one line."""


class EmptySelectionError(UserError):
    """Nothing is selected; one line that says which filter left nothing."""

    exit_code = 5


class Filters(Struct, frozen=True):
    """What to keep: a job must match one entry of every filter that is not empty. `ids` are globs."""

    geometries: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    profiles: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()


NAMES: Mapping[str, tuple[str, Callable[[Job], str | None]]] = {
    "geometries": ("geometry", lambda job: job.geometry_name),
    "platforms": ("platform", lambda job: job.platform.name),
    "kernels": ("kernel", lambda job: job.kernel),
    "profiles": ("profile", lambda job: job.profile),
}
"""What each filter, and each list of an `include` block, names, and that name of a job."""


def select(jobs: Sequence[Job], lanes: Sequence[Lane], filters: Filters) -> tuple[Job, ...]:
    """Return the jobs of some lanes that the filters keep, in the plan's order.

    `jobs` are the whole plan; a name is known if any job of any lane has it.

    Raises:
        FilterError: no job of the plan has a name that a filter asks for, or the kernels or profiles belong
            to other workloads than the geometries.
        EmptySelectionError: nothing is left.
    """
    kept = [job for job in jobs if job.lane in lanes]
    _refuse_empty(kept, "lane", [lane.value for lane in lanes])
    for field, (what, name_of) in NAMES.items():
        wanted = getattr(filters, field)
        if wanted:
            known = dict.fromkeys(name for job in jobs if (name := name_of(job)) is not None)
            _refuse_unknown(what, wanted, known)
            if field == "kernels" and filters.geometries:
                _refuse_of_other_workloads(jobs, kept, wanted)
            if field == "profiles" and filters.geometries:
                _refuse_profiles_of_others(jobs, kept, wanted)
            kept = [job for job in kept if name_of(job) in wanted]
            _refuse_empty(kept, what, wanted)
    if filters.ids:
        exact = [glob for glob in filters.ids if not re.search(r"[*?[]", glob)]
        _refuse_unknown("job", exact, [job.id for job in jobs])
        for glob in filters.ids:
            _refuse_empty([job for job in kept if as_pattern(glob).match(job.id)], "job", [glob])
        kept = [job for job in kept if any(as_pattern(glob).match(job.id) for glob in filters.ids)]
    return tuple(kept)


_IN_OVERLAYS = ("platform", "geometry")
"""What a user declares in an overlay, and may have forgotten to name."""


@cache
def as_pattern(glob: str) -> re.Pattern[str]:
    """A glob of job ids as a regular expression."""
    return re.compile(translate(glob))


def _refuse_unknown(what: str, wanted: Iterable[str], known: Iterable[str]) -> None:
    for name in wanted:
        if name not in known:
            more = "; --matrix FILE adds others" if what in _IN_OVERLAYS else ""
            raise FilterError(f"{what} `{shown(name)}` is not in the plan; {closest(name, known)}{more}")


def _refuse_of_other_workloads(jobs: Sequence[Job], kept: Sequence[Job], wanted: Sequence[str]) -> None:
    """Refuse kernels that all belong to other workloads than the geometries that are left."""
    asked = [job for job in jobs if job.kernel in wanted]
    if {job.workload for job in asked} & {job.workload for job in kept}:
        return
    kernel, geometry = asked[0], kept[0]
    kernels = dict.fromkeys(job.kernel for job in kept if job.workload == geometry.workload)
    geometries = dict.fromkeys(job.geometry_name for job in asked if job.workload == kernel.workload)
    raise FilterError(
        f"`{kernel.kernel}` is a kernel of workload {kernel.workload.name}, and geometry "
        f"{geometry.geometry_name} is one of {geometry.workload.name}; choose a kernel of "
        f"{geometry.workload.name} ({', '.join(kernels)}) or a geometry of {kernel.workload.name} "
        f"({', '.join(geometries)})"
    )


def _refuse_profiles_of_others(jobs: Sequence[Job], kept: Sequence[Job], wanted: Sequence[str]) -> None:
    """Refuse profiles that the plan has for other workloads only than those of the jobs that are left."""
    workloads = dict.fromkeys(job.workload for job in kept)
    had = {workload: [job.profile for job in jobs if job.workload == workload] for workload in workloads}
    if any(name in profiles for profiles in had.values() for name in wanted):
        return
    written = ", ".join(f"`{name}`" for name in wanted)
    told = (
        f"{workload.name} has no profile {written}; it has "
        f"{', '.join(dict.fromkeys(filter(None, profiles))) or 'none'}"
        for workload, profiles in had.items()
    )
    raise FilterError("; ".join(told))


def _refuse_empty(kept: Sequence[Job], what: str, wanted: Sequence[str]) -> None:
    if not kept:
        written = ", ".join(f"`{shown(name)}`" for name in wanted)
        raise EmptySelectionError(f"no job is left with {what} {written}; widen the filters")


def parse_shard(written: str) -> tuple[int, int]:
    """Read a shard as users write it, `2/4`: its index, from 1, and how many there are.

    Raises:
        FilterError: it is not written in this form, or there is no such part.
    """
    match = re.fullmatch(r"([0-9]{1,4})/([0-9]{1,4})", written)
    index, count = map(int, match.groups()) if match else (0, 0)
    if not 1 <= index <= count <= MOST_SHARDS:
        raise FilterError(
            f"`{shown(written)}` is no shard; write `index/count` with 1 <= index <= count <= {MOST_SHARDS}"
        )
    return index, count


def division(jobs: Sequence[Job], durations: Mapping[str, float]) -> str:
    """A digest of what `take_shard` divides by: shards with different digests do not make up one run."""
    import hashlib  # imported here, as below, because only a shard needs it

    digest = hashlib.sha256()
    for job in sorted(jobs, key=lambda job: job.id):
        digest.update(f"{job.id} {durations.get(job.id)}\n".encode())
    return digest.hexdigest()[:16]


def take_shard(
    jobs: Sequence[Job], shard: tuple[int, int], durations: Mapping[str, float]
) -> tuple[Job, ...]:
    """Return one shard's jobs, in the plan's order. Each job of the plan is in exactly one shard.

    The longest job goes first, each to the shard with the least to do so far. All shards of a run must be
    given the same durations, or some jobs may be in none of them.

    Args:
        jobs: the selected jobs, the same in every shard.
        shard: which part to return, from 1, and of how many.
        durations: recorded seconds by job id; a job without a record counts as the median of the others.

    Raises:
        FilterError: there are more shards than jobs.
    """
    index, count = shard
    if count > len(jobs):
        selected = counted(len(jobs), "job")
        raise FilterError(f"{count} shards are more than the {selected} selected; ask for fewer")
    import statistics

    recorded = [durations[job.id] for job in jobs if job.id in durations]
    usual = statistics.median(recorded) if recorded else _UNRECORDED
    seconds = {job.id: max(durations.get(job.id, usual), _SHORTEST) for job in jobs}
    loads = [0.0] * count
    mine: set[str] = set()
    for job in sorted(jobs, key=lambda job: (-seconds[job.id], job.id)):
        least = min(range(count), key=loads.__getitem__)
        loads[least] += seconds[job.id]
        if least == index - 1:
            mine.add(job.id)
    return tuple(job for job in jobs if job.id in mine)
