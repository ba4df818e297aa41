from __future__ import annotations

import json
from collections.abc import Callable

from emulator.artefact import report_data
from emulator.engine import compile_program
from emulator.program import Program
from emulator.soc import SOCS

Read = Callable[..., Program]

BODY = """
m = pl.load(x, [0, 0], [64, 64], @Mat)
s1 = pl.load(s, [0, 0], [1, 64], @Mat)
scale = pl.move(s1, @LeftScale)
a = pl.move(m, @Left)
r = pl.move(m, @Right)
acc = pl.tile.matmul(a, r)
y = pl.tile.fixpipe_store(acc, scale, y, [0, 0])
"""


def test_a_report_survives_json(read: Read) -> None:
    program = read(BODY)
    data = report_data(compile_program(program, SOCS["a2a3"]))
    assert json.loads(json.dumps(data)) == data
    file, line = str(program.position).split(":")[0], program.functions["kernel"].body[0].position.line
    assert data["program"] == "Kernel"
    assert data["soc"] == "a2a3"
    assert data["memory"]["kernel"]["L1"] == {
        "capacity": 524288,
        "peak": 4096 + 512,
        "tiles": [
            {
                "name": "m",
                "address": 0,
                "bytes": 4096,
                "shape": [64, 64],
                "dtype": "int8",
                "created": f"{file}:{line}",
                "last_used": f"{file}:{line + 4}",
            },
            {
                "name": "s1",
                "address": 4096,
                "bytes": 512,
                "shape": [1, 64],
                "dtype": "uint64",
                "created": f"{file}:{line + 1}",
                "last_used": f"{file}:{line + 2}",
            },
        ],
    }
    assert set(data["memory"]["kernel"]) == {
        "L1",
        "L0A",
        "L0B",
        "L0C",
        "bias table",
        "fixpipe table",
        "UB",
    }
    assert data["gm_read_bytes"] == {"x": 4096, "s": 512}
    assert data["gm_written_bytes"] == {"y": 4096}
    assert data["moved_bytes"]["L0C -> GM"] == 4096
    assert data["operations"]["tile.matmul"] == 1
    assert data["macs"] == 64**3
    assert data["estimated_cycles"]["cube"] == 6 + 4 * 2 * 4
    assert data["estimated_cycles"]["overlap"] == 4096 / 41


def test_where_no_cost_model_is_public_the_report_says_so(read: Read) -> None:
    data = report_data(compile_program(read(BODY), SOCS["a5"]))
    assert data["estimated_cycles"].startswith("unavailable: no public cost model")
