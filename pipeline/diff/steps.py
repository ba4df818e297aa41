"""Which side is wrong: the step of the pair at fault, from the stages that are wrong and those that are not.

A stage goes through some parts of the pair. Suspect is what every wrong stage goes through, and no right one.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from pipeline.diff.causes import step_of
from pipeline.faults.catalogue import STEPS

_CONV1 = frozenset({"conv1", "requant1"})
_CONV2 = frozenset({"conv2", "requant2", "store of y"})
_PASS1 = _CONV1 | {"plain load", "layout", "store of mid"}
_GATHERED = _CONV1 | {"gather", "layout", "address"}

_TWO_PASS = _PASS1 | _CONV2 | {"mid", "mid in GM"}

PARTS: Mapping[str, frozenset[str]] = {
    "fused": _GATHERED | _CONV2 | {"mid", "mid in L1"},
    "first-tile-load": _CONV1 | {"plain load", "layout"},
    "first-tile-packed": _CONV1,
    "first-tile-fused-alloc": _GATHERED,
    "pass1": _PASS1,
    "pass2-on-golden-mid": _CONV2,
    "pass2-on-own-mid": _TWO_PASS,
    "pass2": _TWO_PASS,
}
"""Parts of the pair that each stage goes through. The host packs the feature map of first-tile-packed;
in the lane `device` pass2 runs on pass1's mid."""

_STEP = {
    "plain load": "load",
    "gather": "load",
    "mid": "hand-over",
    "mid in L1": "hand-over",
    "mid in GM": "hand-over",
    "store of mid": "store",
    "store of y": "store",
}
"""Steps of the parts that are not named like their step."""


def wrong_side(clean: Mapping[str, bool], cause: str) -> str:
    """The step at fault, in a line; empty where no stage is wrong, or nothing tells.

    Args:
        clean: by stage, whether its output is right; stages that gave none are left out.
        cause: the hypothesis that explains the first wrong stage, or empty: then the stages must tell.
    """
    wrong = [stage for stage in PARTS if clean.get(stage) is False]
    right = [stage for stage in PARTS if clean.get(stage) is True]
    if not wrong:
        return ""
    if cause:
        return f"{step_of(cause)} (as the diagnosis says)"
    if len(wrong + right) == 1:
        return ""  # one stage alone goes through all its parts: that tells nothing
    told = f"wrong: {', '.join(wrong)}; right: {', '.join(right) or 'none'}"
    return f"{' or '.join(_suspects(wrong, right))} ({told})"


def _suspects(wrong: list[str], right: list[str]) -> list[str]:
    common = reduce(frozenset.intersection, (PARTS[stage] for stage in wrong))
    # A right first tile clears its parts in this tile only: if nothing is left, they are in doubt again.
    whole = [stage for stage in right if not stage.startswith("first-tile")]
    for clearing in (right, whole, []):
        if parts := common.difference(*(PARTS[stage] for stage in clearing)):
            break
    steps = {_STEP.get(part, part) for part in parts}
    return [step for step in STEPS if step in steps]
