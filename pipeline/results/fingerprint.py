"""The kind of a failure, in words that do not depend on the run, the geometry or the seed."""

from __future__ import annotations

import re

from pipeline.diff import render
from pipeline.ground.jobs import OUTCOMES, Outcome, Result

_VARYING = re.compile(r"[0-9a-f]{8,}|\d+")
_NUMBERS = re.compile(r"#(\.\.#|, (\.\.\., )?#| and # more)*")
_LONGEST = 200


def without_numbers(text: str) -> str:
    """A message without what differs between occurrences: numbers, hashes, addresses."""
    return _VARYING.sub("#", text)


def fingerprint(result: Result) -> str:
    """The state, the first wrong stage and the cause, as in `mismatch fused offset-unsigned`.

    The cause is the likeliest hypothesis, else the form of the first difference, else the message without its
    numbers. Empty where nothing failed.
    """
    red = (Outcome.FAILURE, Outcome.ERROR)
    if OUTCOMES[result.state].outcome not in red:
        return ""
    wrong = [stage for stage in result.stages if OUTCOMES[stage.state].outcome in red]
    diffs = [diff for stage in wrong for diff in stage.diffs if not diff.clean]
    cause = next(iter(result.causes), "") or _NUMBERS.sub(
        "#", without_numbers(next(map(render.hint, diffs), ""))
    )
    words = [result.state.value, *(stage.name for stage in wrong[:1])]
    if cause or not wrong:
        words.append(cause or without_numbers(result.message))
    elif not diffs:
        words.append(without_numbers(wrong[0].message))
    return " ".join(" ".join(words)[:_LONGEST].split())
