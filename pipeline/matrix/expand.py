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
from pipeline.ground.jobs import INPUTS, ExpectedFailure, Job, Lane
from pipeline.matrix.schema import Block, Document, ExpectedFailureRule, Matrix, Rule
from pipeline.matrix.select import EmptySelectionError, as_pattern
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
    return f"{lane.value}/{platform}/{geometry}/{work}"


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


@lru_cache(maxsize=1)  # the checks and the plan need the same jobs, and there are many
def included(matrix: Matrix) -> tuple[Made, ...]:
    """Return what the `include` blocks make, with the time limits of their lanes."""
    return tuple(_included(matrix))


def _included(matrix: Matrix) -> Iterator[Made]:
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


def with_compared(matrix: Matrix) -> tuple[Made, ...]:
    """Return the included jobs and the compare jobs derived from them; `exclude` is not yet applied."""
    return included(matrix) + _compared(matrix)


def planned(matrix: Matrix) -> tuple[Made, ...]:
    """Return the plan: the jobs of `with_compared` that no exclusion takes out."""
    return _left(matrix) + _kept(matrix, _compared(matrix))


@lru_cache(maxsize=1)
def _left(matrix: Matrix) -> tuple[Made, ...]:
    return _kept(matrix, included(matrix))


@lru_cache(maxsize=1)
def _compared(matrix: Matrix) -> tuple[Made, ...]:
    timeout = float(matrix.document.lanes.compare.timeout)
    compared: dict[str, Made] = {}
    for job, path in _left(matrix):
        if job.lane is not Lane.DEVICE:
            continue
        compare = _id(Lane.COMPARE, job.platform.name, job.geometry_name, str(job.profile))
        if compare not in compared:
            changed = replace(job, id=compare, lane=Lane.COMPARE, kernel=COMPARED, timeout=timeout)
            compared[compare] = changed, path
    return tuple(compared.values())


def _kept(matrix: Matrix, made: Iterable[Made]) -> tuple[Made, ...]:
    """Return the jobs that no exclusion takes out."""
    # Not `matching`, which would look up each pattern again for each of thousands of jobs.
    excluded = [as_pattern(rule.jobs).match for rule in matrix.document.exclude]
    return tuple(each for each in made if not any(match(each[0].id) for match in excluded))


def expand(matrix: Matrix, today: date) -> tuple[Job, ...]:
    """Expand a matrix to its jobs: compile lane, device lane, compare lane, each in the order it is written.

    An expected failure that ended before `today`, the run's day, is no longer attached to its jobs.
    """
    return tuple(_ruled(matrix.document, job, today) for job, _ in planned(matrix))


def of_inputs(job: Job) -> Job:
    """The job with a user's own tensors instead of its profile, before the rules apply to it."""
    return named(replace(job, profile=INPUTS))


def on_inputs(matrix: Matrix, jobs: Iterable[Job], today: date) -> tuple[Job, ...]:
    """Return jobs on a user's own tensors instead of their profiles; the rules apply to their new ids.

    Jobs that differ in nothing but the profile become one.

    Raises:
        EmptySelectionError: exclusions take out all of them.
    """
    document, found = matrix.document, {}
    for job in jobs:
        limit = float(getattr(document.lanes, job.lane.value).timeout)
        job = replace(of_inputs(job), timeout=limit, expected_failure=None)
        if job.id not in found and not matching(document.exclude, job.id):
            found[job.id] = _ruled(document, job, today)
    if not found:
        raise EmptySelectionError(
            "--inputs: `exclude` takes out every selected job on your own tensors; widen the filters"
        )
    return tuple(found.values())


def _ruled(document: Document, job: Job, today: date) -> Job:
    """The job with the time limit and the expected failure that rules give it."""
    if not (document.timeouts or document.expected_failures):
        return job
    limits = [rule.timeout for _, rule in matching(document.timeouts, job.id)]
    excuse = excusing_rule([rule for _, rule in matching(document.expected_failures, job.id)], today)
    if excuse:
        expected = ExpectedFailure(excuse.reason, excuse.link, excuse.cause, excuse.fingerprint)
        job = replace(job, expected_failure=expected)
    return replace(job, timeout=float(limits[-1])) if limits else job


def excusing_rule(rules: Sequence[ExpectedFailureRule], today: date) -> ExpectedFailureRule | None:
    """Return the expected failure that counts among the matching ones: the last that has not ended."""
    return next((rule for rule in reversed(rules) if rule.until is None or today <= rule.until), None)
