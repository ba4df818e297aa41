"""The kind of a failure, in words that do not depend on the run, the shape or the seed."""

from __future__ import annotations

import re
from hashlib import sha256

from pipeline.diff import render
from pipeline.ground.jobs import State
from pipeline.ground.results import BLAMED, OUTCOMES, Outcome, Result, StageResult

_VARYING = re.compile(r"(?<!\w)[^\W\d](?:\w|-(?=\w))*|0x[0-9a-fA-F]+|[0-9a-f]{8,}|\d+")
"""A name, which begins with a letter and may have numbers in it; an address; a hash; a number."""
_LONG = re.compile(r"[0-9a-f]{8,}|\d{5,}")
"""What is no part of a name: hashes, times, process ids."""
_NUMBERED = re.compile(r"(?i)((?:card|core|davinci|device|emulated|npu|process|rank|thread)[-_]?)\d+")
"""Parts of a host, in whose names the number is which of them it was."""
_NUMBERS = re.compile(r"#(\.\.#|, (\.\.\., )?#| and # more)*")
_LONGEST = 120
_HEAD, _TAIL, _DIGEST = 72, 34, 8
"""What is kept of one that is too long; the digest tells it from others that are alike there."""

RED = (Outcome.FAILURE, Outcome.ERROR)
"""The outcomes of what is not as it should be."""


def without_numbers(text: str) -> str:
    """A message without what differs between occurrences: numbers, hashes, addresses, the device.

    A number in a name stays, since it tells one thing from another: `int8`, `filter2`, `gemm-128`.
    """
    return _VARYING.sub(_without_number, text)


def _without_number(found: re.Match[str]) -> str:
    word = found[0]
    if word[0].isdigit():
        return "#x#" if word.startswith("0x") else "#"
    if part := _NUMBERED.fullmatch(word):
        return f"{part[1]}#"
    return _LONG.sub("#", word)


def wrong_stages(result: Result) -> list[StageResult]:
    """The stages that failed by themselves.

    Where two outputs are compared with each other, one of them is wrong, and its own stage says why.
    """
    failed = (stage for stage in result.stages if OUTCOMES[stage.state].outcome in RED)
    return [
        stage
        for stage in failed
        if stage.state is not State.MISMATCH or all(diff.against == "golden" for diff in stage.diffs)
    ]


def fingerprint(result: Result) -> str:
    """The state, the first wrong stage and the cause, as in `mismatch fused offset-unsigned`.

    The cause is the likeliest hypothesis, else what of the program is to blame, else the form of the first
    difference, else the message; the last three without numbers that are no part of a name. Stages that are
    wrong in another way than the first follow, as in `; compile-error pass1 ...`.
    Empty where nothing failed; always printable.
    """
    if OUTCOMES[result.state].outcome not in RED:
        return ""
    kinds: dict[tuple[State, str], str] = {}
    for stage in wrong_stages(result):
        state = stage.state if kinds else result.state
        known = (cause for cause in stage.causes if (stage.state, cause) in kinds)
        cause = next(known, "") or _cause(stage)
        kinds.setdefault((stage.state, cause), " ".join(filter(None, [state.value, stage.name, cause])))
    told = "; ".join(kinds.values()) or f"{result.state.value} {without_numbers(result.message)}"
    return _shortened(told)


def fits(found: str, wanted: str) -> bool:
    """Whether a fingerprint is the wanted one, in which `#` stands for any number, also one in a name."""
    return re.fullmatch(r"(?:#|\d+)".join(map(re.escape, wanted.split("#"))), found) is not None


def _shortened(told: str) -> str:
    """A text of at most `_LONGEST` printable characters, which differs where the text differs.

    The text counts up to the end of the line in which it becomes too long.
    """
    told = told[:_LONGEST] + told[_LONGEST:].partition("\n")[0]
    text = " ".join("".join(each if each.isprintable() else " " for each in told).split())
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_HEAD].strip()} ... {text[-_TAIL:].strip()} {sha256(text.encode()).hexdigest()[:_DIGEST]}"


def _cause(stage: StageResult) -> str:
    diffs = [diff for diff in stage.diffs if not diff.clean]
    said = map(render.hint, diffs) if diffs else [stage.message]
    if BLAMED in stage.facts:
        said = [stage.facts[BLAMED]]
    return next(iter(stage.causes), "") or _NUMBERS.sub("#", without_numbers(next(iter(said), "")))
