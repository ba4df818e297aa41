"""Casts of a compiled program that the verifier does not interpret as the vector unit does.

The package has both: `lib/include/tileop/arch32/vector.h` calls an instruction for each mode, and
`lib/calculator/src/calc_torch.cpp` computes it. They differ if values must be rounded and the mode is
`CAST_ROUND` (half away from zero; the verifier rounds half to even), `CAST_ODD`, or `CAST_NONE` to an integer
(towards zero; the verifier rounds half to even). They also differ in casts from float to float in any mode
other than nearest even. A kernel with such a cast would pass here and be wrong on a card.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.engines.base import CompileError

_MODES = ("CAST_NONE", "CAST_RINT", "CAST_ROUND", "CAST_FLOOR", "CAST_CEIL", "CAST_TRUNC", "CAST_ODD")
"""Rounding modes as `program.json` numbers them."""

_TYPES = {1: "int8", 3: "int32", 6: "fp16", 7: "fp32"}
_INTEGERS = frozenset({"int8", "int32"})

_TRUNCATING = ("CAST_FLOOR", "CAST_CEIL", "CAST_TRUNC")
_ALIKE = {
    ("fp16", "int8"): _TRUNCATING,
    ("fp32", "int8"): _TRUNCATING,
    ("fp16", "int32"): (*_TRUNCATING, "CAST_RINT"),
    ("fp32", "int32"): (*_TRUNCATING, "CAST_RINT"),
    ("fp32", "fp16"): ("CAST_NONE", "CAST_RINT"),
    ("fp16", "fp32"): ("CAST_NONE",),
}
"""By source and target, the modes of the casts that both do alike for every float."""


def check_casts(function: Mapping[str, Any]) -> None:
    """Refuse casts in a tile graph of `program.json` that the verifier does not do as the vector unit does.

    Raises:
        CompileError: there is such a cast; the message names the kernel's line.
    """
    raw = {tensor["rawmagic"]: _name(tensor["datatype"]) for tensor in function["rawtensors"]}
    types = {tensor["magic"]: raw[tensor["rawtensor"]] for tensor in function["tensors"]}
    casts = [operation for operation in function["operations"] if operation["opcode"] == "CAST"]
    origins = {cast["ooperands"][0]: cast["ioperands"][0] for cast in casts}
    for cast in casts:
        source, target = (types[cast[side][0]] for side in ("ioperands", "ooperands"))
        mode = _MODES[cast["op_attr"]["op_attr_mode"]]
        if mode in _ALIKE.get((source, target), ()):
            continue
        # A value that comes from an integer needs no rounding.
        origin = cast["ioperands"][0]
        while types[origin] not in _INTEGERS and origin in origins:
            origin = origins[origin]
        if mode == "CAST_NONE" and types[origin] in _INTEGERS:
            continue
        raise CompileError(
            f"{Path(cast['file']).name}:{cast['line']}: cast from {source} to {target} with {mode}: "
            "the verifier rounds differently from the vector unit, so nothing here can judge it; "
            "VREQ8 rounds half to even: CAST_RINT, from fp32 to int32"
        )


def _name(datatype: int) -> str:
    return _TYPES.get(datatype, f"data type {datatype}")
