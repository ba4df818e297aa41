"""Expands a matrix to jobs, in this order: the lanes' `include` blocks, the compare lane, `exclude`.

The compare lane has a job for each platform, geometry and profile of the device jobs that are left after
`exclude`; `exclude` then applies to it too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import lru_cache
from itertools import product
from typing import TypeVar

from golden.profiles import resolve
from pipeline.ground.jobs import ExpectedFailure, Job, Lane
from pipeline.matrix.schema import Block, Document, ExpectedFailureRule, Matrix, Rule
from pipeline.matrix.select import as_pattern
from pipeline.matrix.strict_yaml import KeyPath

COMPARED = "all"
"""The kernel name of compare jobs: they run the programs of all kernels of their workload."""

Made = tuple[Job, KeyPath]
"""A job as an `include` block makes it, before the rules apply to it, and the path of the block.

For a compare job it is the block of the first device job that it comes from.
"""

AnyRule = TypeVar("AnyRule", bound=Rule)


def named(job: Job) -> Job:
    """The job with the id that its fields give, for use after its fields were changed."""
    return replace(job, id=_id(job.lane, job.platform_name, job.geometry_name, job.work))


def _id(lane: Lane, platform: str, geometry: str, work: str) -> str:
    return "/".join([lane.value, platform, geometry, work])


def settled(job: Job, night: date) -> Job:
    """The job with the seed that this night gives its profile; the id keeps the profile as it is written."""
    if job.profile is None:
        return job
    profile = resolve(job.profile, night)
    return job if profile == job.profile else replace(job, profile=profile, written_profile=job.profile)


def matching(rules: Sequence[AnyRule], job_id: str) -> list[tuple[int, AnyRule]]:
    """Return the rules that match a job id, each with its place among them, in order."""
    return [(place, rule) for place, rule in enumerate(rules) if as_pattern(rule.jobs).match(job_id)]


def blocks(document: Document) -> Iterator[tuple[Lane, KeyPath, Block]]:
    """Return the `include` blocks of the compile and device lanes with their paths, in their order."""
    lanes: Mapping[Lane, Sequence[Block]] = {
        Lane.COMPILE: document.lanes.compile.include,
        Lane.DEVICE: document.lanes.device.include,
    }
    for lane, written in lanes.items():
        for place, block in enumerate(written):
            yield lane, ("lanes", lane.value, "include", place), block


def included(matrix: Matrix) -> Iterator[Made]:
    """Return what the `include` blocks make, with the time limits of their lanes."""
    for lane, path, block in blocks(matrix.document):
        timeout = float(getattr(matrix.document.lanes, lane.value).timeout)
        for platform, name, kernel, profile in product(
            block.platforms, block.geometries, block.kernels, block.data.values()
        ):
            geometry = matrix.geometries[name]
            work = kernel if lane is Lane.COMPILE else f"{kernel}/{profile}"
            job = Job(
                id=_id(lane, platform, name, work),
                lane=lane,
                platform=matrix.platforms[platform],
                workload=geometry.workload,
                geometry_name=name,
                geometry=geometry.shapes,
                kernel=kernel,
                profile=profile,
                timeout=timeout,
                plan_options=geometry.plan_options,
            )
            yield job, path


@lru_cache(maxsize=1)  # the checks and the plan need the same jobs, and there are many
def with_compared(matrix: Matrix) -> tuple[Made, ...]:
    """Return the included jobs and the compare jobs derived from them; `exclude` is not yet applied."""
    made = tuple(included(matrix))
    timeout = float(matrix.document.lanes.compare.timeout)
    compared: dict[str, Made] = {}
    for job, path in kept(matrix, made):
        compare = _id(Lane.COMPARE, job.platform.name, job.geometry_name, str(job.profile))
        if job.lane is Lane.DEVICE and compare not in compared:
            changed = replace(job, id=compare, lane=Lane.COMPARE, kernel=COMPARED, timeout=timeout)
            compared[compare] = changed, path
    return (*made, *compared.values())


@lru_cache(maxsize=1)
def planned(matrix: Matrix) -> tuple[Made, ...]:
    """Return the plan: the jobs of `with_compared` that no exclusion takes out."""
    return tuple(kept(matrix, with_compared(matrix)))


def kept(matrix: Matrix, made: Iterable[Made]) -> Iterator[Made]:
    """Return the jobs that no exclusion takes out."""
    return ((job, path) for job, path in made if not matching(matrix.document.exclude, job.id))


def expand(matrix: Matrix, today: date) -> tuple[Job, ...]:
    """Expand a matrix to its jobs: compile lane, device lane, compare lane, each in the order it is written.

    An expected failure that ended before `today`, the run's day, is no longer attached to its jobs.
    """
    return tuple(_ruled(matrix.document, job, today) for job, _ in planned(matrix))


def _ruled(document: Document, job: Job, today: date) -> Job:
    """The job with the time limit and the expected failure that rules give it."""
    limits = [rule.timeout for _, rule in matching(document.timeouts, job.id)]
    excuse = excusing_rule([rule for _, rule in matching(document.expected_failures, job.id)], today)
    if not (limits or excuse):
        return job
    return replace(
        job,
        timeout=float(limits[-1]) if limits else job.timeout,
        expected_failure=ExpectedFailure(excuse.reason, excuse.link, excuse.until) if excuse else None,
    )


def excusing_rule(rules: Sequence[ExpectedFailureRule], today: date) -> ExpectedFailureRule | None:
    """Return the expected failure that counts among the matching ones: the last that has not ended."""
    return next((rule for rule in reversed(rules) if rule.until is None or today <= rule.until), None)
