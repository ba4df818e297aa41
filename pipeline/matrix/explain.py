"""Says which lines of which files made a job, or took it out of the plan."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from pipeline.ground.jobs import Job, Lane
from pipeline.ground.words import closest, shown
from pipeline.matrix.expand import excusing_rule, matching, with_compared
from pipeline.matrix.schema import Document, Matrix
from pipeline.matrix.select import NAMES, FilterError
from pipeline.matrix.strict_yaml import KeyPath, Node, dotted

Origins = Iterator[tuple[KeyPath, str]]
"""Places in a matrix that a job comes from, each with its effect on the job."""


def explain(matrix: Matrix, job_id: str, today: date) -> list[str]:
    """Return the lines that a job comes from, in the order in which they take effect.

    Each is told by its file, its number, the key that stands there, and its effect on the job. The job is one
    of the plan, or one that an exclusion took out of it; `today` is the run's day.

    Raises:
        FilterError: no line makes such a job.
    """
    made = {job.id: (job, block) for job, block in with_compared(matrix)}
    if job_id not in made:
        raise FilterError(f"no line makes job `{shown(job_id)}`; {closest(job_id, made)}")
    job, block = made[job_id]
    origins = [
        *_of_block(matrix.source, job, block),
        (("platforms", job.platform.name), "where it runs"),
        (("geometries", job.geometry_name), "its shapes"),
        *_of_rules(matrix.document, matrix.source, job, today),
    ]
    places = [(matrix.source.at(path), path, effect) for path, effect in origins]
    return [f"{node.file}:{node.line}: {dotted(path)}: {effect}" for node, path, effect in places]


def _of_block(source: Node, job: Job, block: KeyPath) -> Origins:
    compared = job.lane is Lane.COMPARE
    yield block, "the first block with device jobs it compares" if compared else "its block"
    for section in ("platforms", "geometries", "kernels", "profiles"):
        _, name_of = NAMES[section]
        name = name_of(job)
        written = source.at((*block, section)).plain()
        if isinstance(written, list) and name in written:
            yield (*block, section, written.index(name)), str(name)
    if job.lane is Lane.COMPILE and job.profile is not None:
        yield (*block, "verify"), f"verified on {job.profile}"


def _of_rules(document: Document, source: Node, job: Job, today: date) -> Origins:
    for place, exclusion in matching(document.exclude, job.id):
        yield ("exclude", place), f"takes it out of the plan: {exclusion.reason}"
    if limits := matching(document.timeouts, job.id):
        place, limit = limits[-1]
        yield ("timeouts", place), f"its time limit, {limit.timeout:g} s"
    else:
        path = ("lanes", job.lane.value, "timeout")
        written = source.at(path) is not source.at(path[:-1])
        yield path, f"its time limit, {job.timeout:g} s{'' if written else ' (default)'}"
    expected = matching(document.expected_failures, job.id)
    excusing = excusing_rule([rule for _, rule in expected], today)
    for place, rule in expected:
        if rule is excusing:
            effect = f"its failure is expected: {rule.reason}"
        elif rule.until is not None and rule.until < today:
            effect = f"no longer excuses it: ended on {rule.until}"
        else:
            effect = "does not count: a later rule does"
        yield ("expected_failures", place), effect
