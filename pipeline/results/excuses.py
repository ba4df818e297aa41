"""Expected failures: what an entry of the matrix excuses, and the entry that would excuse a failure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

from pipeline.ground.jobs import EXCUSABLE, FINGERPRINT, ExpectedFailure, Result, State
from pipeline.results.fingerprint import wrong_stages

_LONGEST, _SHORTEST = 500, 60
"""Characters that reports show of a message, and that a failure's own message keeps of them."""

Earlier = tuple[str, str]
"""A run in which a job was excused, and the fingerprint of its failure there."""


def with_excuse(result: Result, earlier: Callable[[Result], Earlier | None]) -> Result:
    """Excuse an expected failure, and fail a job that passes although it is expected to fail.

    A failure that is not the one that the matrix excuses stays what it is; its message says what is excused.
    `earlier` finds the last run in which the same entry excused the job.
    """
    expected = result.job.expected_failure
    if expected is None:
        return result
    known = f"{expected.reason} ({expected.link})"
    if result.state is State.PASSED:
        return replace(result, state=State.UNEXPECTED_PASS, message=f"passed, but expected to fail: {known}")
    if result.state not in EXCUSABLE:
        return result
    this = kind(result)
    if unlike := _unlike(result, expected, earlier):
        told = f"; not excused by {known}: {unlike}; if this is known too, write `{this}`"
        room = max(_SHORTEST, _LONGEST - len(told))
        if len(result.message) <= room:
            return replace(result, message=result.message + told)
        details = "\n".join(filter(None, (result.message, result.details)))
        return replace(result, message=f"{result.message[: room - 3]}...{told}", details=details)
    if expected.cause is None and expected.fingerprint is None:
        known += f", which names no cause: add `{this}` to it"
    message = f"expected: {known}; {result.state.value}: {result.message}"
    return replace(result, state=State.EXPECTED_FAILURE, message=message)


def _unlike(result: Result, expected: ExpectedFailure, earlier: Callable[[Result], Earlier | None]) -> str:
    """Why a failure is not the one that is expected; empty if it is."""
    found = result.facts[FINGERPRINT]
    if expected.cause is not None and not _is_of(result, expected.cause):
        return f"that has cause {expected.cause}"
    if expected.fingerprint not in (None, found):
        return f"that has fingerprint {expected.fingerprint}"
    if expected.cause is not None or expected.fingerprint is not None:
        return ""
    wrong = wrong_stages(result)
    diffs = [diff for stage in wrong for diff in stage.diffs]
    degenerate = {
        "nothing but a mismatch": {result.state, *(stage.state for stage in wrong)} != {State.MISMATCH},
        "no output of another shape or dtype": any(diff.problem for diff in diffs),
        "no output that was never written": any(diff.unwritten for diff in diffs),
        "no output with one value in all wrong elements": any(diff.single is not None for diff in diffs),
    }
    if what := next((what for what, applies in degenerate.items() if applies), ""):
        return f"without a cause the entry excuses {what}"
    before = earlier(result)
    if before is not None and before[1] != found:
        return f"it fails otherwise than in run {before[0]}, which had fingerprint {before[1]}"
    return ""


def _is_of(result: Result, cause: str) -> bool:
    """Whether a fault explains all that is wrong."""
    wrong = wrong_stages(result)
    return bool(wrong) and all(cause in stage.causes for stage in wrong)


def kind(result: Result) -> str:
    """The line of an entry that excuses this failure and no other: its cause, else its fingerprint."""
    cause = next((cause for cause in result.causes if _is_of(result, cause)), None)
    if cause is not None:
        return f"cause: {cause}"
    # JSON's strings are YAML's.
    return f"fingerprint: {json.dumps(result.facts[FINGERPRINT], ensure_ascii=False)}"


def entry(result: Result) -> Iterator[str]:
    """The entry of `expected_failures` that excuses a failure, as lines of YAML without reason and link.

    What no entry can excuse is a comment.
    """
    job = result.job
    if result.state not in EXCUSABLE or job.other is not None:
        why = "a job of --engines has that of its device jobs" if job.other else "no entry excuses that"
        yield f"  # {job.id}: {result.state.value}: {why}"
        return
    yield f"  - jobs: {job.id}"
    yield f"    {kind(result)}"
    yield "    reason:  # why, in one sentence"
    yield "    link:  # the web address where the fault is tracked"
