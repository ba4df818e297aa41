from __future__ import annotations

from typing import Any

import pytest

from pipeline.engines.base import CompileError
from pipeline.engines.cann.casts import check_casts

INT8, INT32, FP16, FP32, INT16 = 1, 3, 6, 7, 2
NONE, RINT, ROUND, FLOOR, CEIL, TRUNC, ODD = range(7)


def chain(*steps: int) -> dict[str, Any]:
    """A tile graph of casts one after another: type, mode, type, mode, type..."""
    types, modes = steps[::2], steps[1::2]
    return {
        "rawtensors": [{"rawmagic": 100 + n, "datatype": each} for n, each in enumerate(types)],
        "tensors": [{"magic": n, "rawtensor": 100 + n} for n in range(len(types))],
        "operations": [
            {
                "opcode": "CAST",
                "ioperands": [n],
                "ooperands": [n + 1],
                "op_attr": {"op_attr_mode": mode},
                "file": "/somewhere/programs.py",
                "line": 40 + n,
            }
            for n, mode in enumerate(modes)
        ],
    }


@pytest.mark.parametrize(
    "steps",
    [
        (FP32, RINT, INT32),
        (FP32, FLOOR, INT32),
        (FP16, TRUNC, INT8),
        (FP32, NONE, FP16),
        (FP16, NONE, FP32),
        (INT32, NONE, FP32, NONE, FP16, NONE, INT8),
        (FP32, RINT, INT32, NONE, FP32, NONE, FP16, NONE, INT8),
    ],
)
def test_casts_that_both_do_alike_are_taken(steps: tuple[int, ...]) -> None:
    check_casts(chain(*steps))


@pytest.mark.parametrize(
    ("steps", "named"),
    [
        ((FP32, ROUND, INT32), "programs.py:40: cast from fp32 to int32 with CAST_ROUND"),
        ((FP32, ODD, INT32), "programs.py:40: cast from fp32 to int32 with CAST_ODD"),
        ((FP32, NONE, INT32), "programs.py:40: cast from fp32 to int32 with CAST_NONE"),
        # The unit has no rounding for this one, whatever is asked for.
        ((FP16, RINT, INT8), "programs.py:40: cast from fp16 to int8 with CAST_RINT"),
        ((FP32, NONE, FP16, NONE, INT8), "programs.py:41: cast from fp16 to int8 with CAST_NONE"),
        ((FP32, FLOOR, FP16), "programs.py:40: cast from fp32 to fp16 with CAST_FLOOR"),
        ((FP32, RINT, INT16), "programs.py:40: cast from fp32 to data type 2 with CAST_RINT"),
    ],
)
def test_casts_that_the_verifier_mistakes_are_refused_with_their_line(
    steps: tuple[int, ...], named: str
) -> None:
    with pytest.raises(CompileError) as refused:
        check_casts(chain(*steps))
    assert str(refused.value).startswith(f"{named}: the verifier rounds differently")
