"""Expected failures: what an entry of the matrix excuses, and the entry that would excuse a failure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from pipeline.ground.jobs import EXCUSABLE, ExpectedFailure, State
from pipeline.ground.results import BLAMED, FINGERPRINT, Result, StageResult
from pipeline.results.fingerprint import fits, wrong_stages

_LONGEST, _SHORTEST = 500, 60
"""Characters that reports show of a message, and that a failure's own message keeps of them."""

UNEXPLAINED = (
    "  # No known fault explains this: the entry excuses any mismatch of this form until its output changes."
)
"""What stands before an entry for a mismatch that names no cause."""

Outputs = Mapping[tuple[str, str, str], str]
"""By stage, tensor and hash of the golden the hash of the output."""


@dataclass(frozen=True)
class Earlier:
    """How a job failed in a run that says what its entry is about: the run, fingerprint and outputs."""

    run: str
    fingerprint: str
    outputs: Outputs = field(default_factory=dict)


def outputs_of(stages: Iterable[StageResult]) -> Outputs:
    """What stages gave where it was compared with a golden."""
    return {
        (stage.name, diff.tensor, diff.golden_sha): diff.actual_sha
        for stage in stages
        for diff in stage.diffs
        if diff.against == "golden"
    }


def with_excuse(result: Result, earlier: Callable[[Result], Iterable[Earlier]]) -> Result:
    """Excuse an expected failure, and fail a job that passes although it is expected to fail.

    A failure that is not the one that the matrix excuses stays what it is; its message says what is excused.
    `earlier` finds the runs that say what the entry is about, see `History.excused`.
    """
    expected = result.job.expected_failure
    if expected is None:
        return result
    known = f"{expected.reason} ({expected.link})"
    if result.state is State.PASSED:
        return replace(result, state=State.UNEXPECTED_PASS, message=f"passed, but expected to fail: {known}")
    if result.state not in EXCUSABLE:
        return result
    if unlike := _unlike(result, expected, earlier):
        told = f'; not excused: the entry "{expected.reason}" ({expected.link}) {unlike}'
        room = max(_SHORTEST, _LONGEST - len(told))
        if len(result.message) <= room:
            return replace(result, message=result.message + told)
        details = "\n".join(filter(None, (result.message, result.details)))
        return replace(result, message=f"{result.message[: room - 3]}...{told}", details=details)
    if expected.cause is None and expected.fingerprint is None:
        known += f", which names no cause: add `{kind(result)}` to it"
    message = f"expected: {known}; {result.state.value}: {result.message}"
    return replace(result, state=State.EXPECTED_FAILURE, message=message)


def _unlike(result: Result, expected: ExpectedFailure, earlier: Callable[[Result], Iterable[Earlier]]) -> str:
    """Why a failure is not the one that is expected, and what helps; empty if it is."""
    this, found = kind(result), result.facts[FINGERPRINT]
    remedy = f"if it is known too, add an entry with `{this}`"
    if expected.cause is not None and not _is_of(result, expected.cause):
        cause = explained(result)
        other = f"this failure has cause {cause}" if cause else "this failure has another"
        return f"is for cause {expected.cause}; {other}; {remedy}"
    if expected.fingerprint is not None and not fits(found, expected.fingerprint):
        return f"is for fingerprint {expected.fingerprint}; this failure has another; {remedy}"
    if expected.cause is not None:
        return ""
    if expected.fingerprint is None and (what := _beyond_unnamed(result, earlier)):
        return f"names no cause; {what}; {remedy}"
    if run := changed_since(result, earlier):
        what = f"this failure is otherwise than in run {run}: on the same inputs the output is another"
        return f"names no cause; {what}; if it is known too, give the entry another reason"
    return ""


def _beyond_unnamed(result: Result, earlier: Callable[[Result], Iterable[Earlier]]) -> str:
    """Why an entry that names neither cause nor fingerprint does not excuse a failure; empty if it does."""
    wrong = wrong_stages(result)
    diffs = [diff for stage in wrong for diff in stage.diffs]
    degenerate = {
        "nothing but a mismatch": {result.state, *(stage.state for stage in wrong)} != {State.MISMATCH},
        "no output of another shape or dtype": any(diff.problem for diff in diffs),
        "no output that was never written": any(diff.unwritten for diff in diffs),
        "no output with one value in all wrong elements": any(diff.single is not None for diff in diffs),
    }
    if what := next((what for what, applies in degenerate.items() if applies), ""):
        return f"it excuses {what}"
    before = next(iter(earlier(result)), None)
    if before is not None and before.fingerprint != result.facts[FINGERPRINT]:
        return f"it fails otherwise than in run {before.run}, which had fingerprint {before.fingerprint}"
    return ""


def changed_since(result: Result, earlier: Callable[[Result], Iterable[Earlier]]) -> str:
    """The last run in which a stage that is wrong gave another output on the same golden; empty if none did.

    Of each output only the last run with this golden counts.
    """
    left = dict(outputs_of(wrong_stages(result)))
    for before in earlier(result) if left else ():
        if any(before.outputs.get(key, sha) != sha for key, sha in left.items()):
            return before.run
        left = {key: sha for key, sha in left.items() if key not in before.outputs}
        if not left:
            break
    return ""


def _is_of(result: Result, cause: str) -> bool:
    """Whether a fault explains all that is wrong."""
    wrong = wrong_stages(result)
    return bool(wrong) and all(cause in stage.causes for stage in wrong)


def explained(result: Result) -> str:
    """The likeliest fault that explains all that is wrong; empty if none does."""
    return next((cause for cause in result.causes if _is_of(result, cause)), "")


def unexplained(result: Result) -> bool:
    """Whether nothing says why an output is wrong: no fault, and no line of its program."""
    return result.state is State.MISMATCH and not explained(result) and BLAMED not in result.facts


def kind(result: Result) -> str:
    """The line of an entry that excuses this failure and no other: its cause, else its fingerprint."""
    if cause := explained(result):
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
    if unexplained(result):
        yield UNEXPLAINED
    yield f"  - jobs: {job.id}"
    yield f"    {kind(result)}"
    yield "    reason:  # why, in one sentence"
    yield "    link:  # the web address where the fault is tracked"
