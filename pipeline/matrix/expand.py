"""Expands a matrix to jobs, in this order: the lanes' `include` blocks, the compare lane, `exclude`.

The compare lane has a job for each platform, geometry and profile of the device jobs that are left after
`exclude`; `exclude` then applies to it too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fnmatch import translate
from functools import cached_property, lru_cache
from itertools import product
from typing import Protocol

from golden.profiles import resolve
from pipeline.ground.jobs import ExpectedFailure, Job, Lane, work_name
from pipeline.matrix.model import Matrix
from pipeline.matrix.schema import ExpectedFailureRule

COMPARED = "all"
"""The kernel name of compare jobs: they run the programs of all kernels of their workload."""


@dataclass(frozen=True)
class Candidate:
    """A job as an `include` block names it.

    `profile` is that of `Job`; in the compile lane programs are verified on it, and it is not part of the id.
    `block` is the block's place in its lane; a compare job has that of the first device job it comes from.
    """

    lane: Lane
    platform: str
    geometry: str
    kernel: str
    profile: str | None
    block: int

    @cached_property
    def id(self) -> str:
        """The job's id."""
        work = work_name(self.lane, self.kernel, self.profile)
        return _id(self.lane, self.platform, self.geometry, work)


def _id(lane: Lane, platform: str, geometry: str, work: str) -> str:
    return "/".join([lane.value, platform, geometry, work])


def named(job: Job) -> Job:
    """The job with the id that its fields give, for use after its fields were changed."""
    return replace(job, id=_id(job.lane, job.platform_name, job.geometry_name, job.work))


def settled(job: Job, night: date) -> Job:
    """The job with the seed that this night gives its profile; the id keeps the profile as it is written."""
    if job.profile is None:
        return job
    profile = resolve(job.profile, night)
    return job if profile == job.profile else replace(job, profile=profile, written_profile=job.profile)


class Rule(Protocol):
    """An entry that names jobs by a glob of their ids."""

    @property
    def jobs(self) -> str:
        """The glob."""
        ...


class Matcher:
    """Tells which of some rules match a job id."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._patterns = [re.compile(translate(rule.jobs)) for rule in rules]

    def __call__(self, job_id: str) -> list[int]:
        """Return the places of the rules that match, in order."""
        return [place for place, pattern in enumerate(self._patterns) if pattern.match(job_id)]


@lru_cache(maxsize=1)  # the checks and the plan need the same candidates, and there are many
def included(matrix: Matrix) -> tuple[Candidate, ...]:
    """Return what the `include` blocks of the compile and device lanes name, in their order."""
    lanes = matrix.document.lanes
    compiled = (
        Candidate(Lane.COMPILE, platform, geometry, kernel, block.verify, place)
        for place, block in enumerate(lanes.compile.include)
        for platform, geometry, kernel in product(block.platforms, block.geometries, block.kernels)
    )
    run = (
        Candidate(Lane.DEVICE, platform, geometry, kernel, profile, place)
        for place, block in enumerate(lanes.device.include)
        for platform, geometry, kernel, profile in product(
            block.platforms, block.geometries, block.kernels, block.profiles
        )
    )
    return (*compiled, *run)


@lru_cache(maxsize=1)
def with_compared(matrix: Matrix) -> tuple[Candidate, ...]:
    """Return the included jobs and the compare jobs derived from them; `exclude` is not yet applied."""
    candidates = included(matrix)
    return (*candidates, *_compared(_kept(matrix, candidates)))


@lru_cache(maxsize=1)
def planned(matrix: Matrix) -> tuple[Candidate, ...]:
    """Return the candidates of the plan: those of `with_compared` that no exclusion takes out."""
    return tuple(_kept(matrix, with_compared(matrix)))


def _kept(matrix: Matrix, candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    excluded = Matcher(matrix.document.exclude)
    return (candidate for candidate in candidates if not excluded(candidate.id))


def _compared(candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    found: dict[tuple[str, str, str | None], Candidate] = {}
    for one in candidates:
        place = one.platform, one.geometry, one.profile
        if one.lane is Lane.DEVICE and place not in found:
            found[place] = Candidate(
                Lane.COMPARE, one.platform, one.geometry, COMPARED, one.profile, one.block
            )
    return iter(found.values())


def expand(matrix: Matrix, today: date) -> tuple[Job, ...]:
    """Expand a matrix to its jobs: compile lane, device lane, compare lane, each in the order it is written.

    Args:
        matrix: a loaded matrix.
        today: the run's day; an expected failure that ended before it is no longer attached to its jobs.
    """
    timeouts = Matcher(matrix.document.timeouts)
    expected = Matcher(matrix.document.expected_failures)
    return tuple(
        Job(
            id=one.id,
            lane=one.lane,
            platform=matrix.platforms[one.platform],
            workload=matrix.geometries[one.geometry].workload,
            geometry_name=one.geometry,
            geometry=matrix.geometries[one.geometry].shapes,
            kernel=one.kernel,
            profile=one.profile,
            timeout=float(time_limit(matrix, one.lane, timeouts(one.id))),
            expected_failure=_expected_failure(excusing_rule(matrix, expected(one.id), today)),
            plan_options=matrix.geometries[one.geometry].plan_options,
        )
        for one in planned(matrix)
    )


def time_limit(matrix: Matrix, lane: Lane, matching: Sequence[int]) -> float:
    """Return a job's time limit in seconds: that of the last rule that matches it, else that of its lane."""
    lanes = matrix.document.lanes
    if matching:
        return matrix.document.timeouts[matching[-1]].timeout
    of_lane: dict[Lane, float] = {
        Lane.COMPILE: lanes.compile.timeout,
        Lane.DEVICE: lanes.device.timeout,
        Lane.COMPARE: lanes.compare.timeout,
    }
    return of_lane[lane]


def excusing_rule(matrix: Matrix, matching: Sequence[int], today: date) -> ExpectedFailureRule | None:
    """Return the expected failure that counts among the matching ones: the last that has not ended."""
    rules = (matrix.document.expected_failures[place] for place in reversed(matching))
    return next((rule for rule in rules if rule.until is None or today <= rule.until), None)


def _expected_failure(rule: ExpectedFailureRule | None) -> ExpectedFailure | None:
    return None if rule is None else ExpectedFailure(rule.reason, rule.link, rule.until)
