"""The search for tilings: what it tries, what it keeps, and the mistakes that it refuses in a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from golden.geometry import Conv, Geometry
from kernels.tensor.plan import PROGRAMS, read_plan, tiling_by_rule, tiling_for
from pipeline.commands.tilings import main
from pipeline.engines.base import CompileError
from pipeline.engines.cann import search
from pipeline.engines.cann.child import Order
from pipeline.engines.cann.engine import CAPACITIES

PAIR = Geometry(24, 16, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1))


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Order]:
    """Orders are kept, not run: the fewer the rows of a vector tile of conv2, the fewer cycles it costs."""
    orders: list[Order] = []

    def run(order: Order, scratch: Path) -> Path:
        orders.append(order)
        return scratch

    def cycles(folder: Path) -> int:
        return 1000 + int(orders[-1].tiling.conv2.vec_rows)

    monkeypatch.setattr("pipeline.engines.cann.child.run", run)
    monkeypatch.setattr(search, "read_cycles", cycles)
    monkeypatch.setattr("kernels.tensor.plan.PLANS", tmp_path)
    return orders


def test_the_cheapest_tiling_of_each_program_becomes_the_plan(
    compiled: list[Order], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pair-24x16", "--budget", "9"]) == 0
    (plan,) = tmp_path.glob("*.json")
    found, start = read_plan(plan), tiling_by_rule(PAIR, CAPACITIES)
    assert set(found) == set(PROGRAMS)
    assert found["pass1"] == start  # it has no conv2: nothing is cheaper
    assert found["pass2"].conv2.vec_rows < start.conv2.vec_rows
    assert {order.program for order in compiled} == set(PROGRAMS)
    assert max([order.program for order in compiled].count(program) for program in PROGRAMS) <= 9
    assert {order.workload.name for order in compiled} == {"conv-pair"}
    cycles = {program: 1000 + tiling.conv2.vec_rows for program, tiling in found.items()}
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == (
        f"{plan}: fused {cycles['fused']}, two-pass {cycles['pass1'] + cycles['pass2']} estimated cycles"
    )


def test_the_plan_of_a_packed_layer_is_where_the_engine_looks(compiled: list[Order], tmp_path: Path) -> None:
    overlay = tmp_path / "packed.yaml"
    overlay.write_text(
        "geometries: {packed: {height: 9, width: 9, cin: 3, cmid: 24, cout: 40, "
        "conv1: {kernel: 3, stride: 1, padding: 2, dilation: 2}, "
        "conv2: {kernel: 1, stride: 1, padding: 0}}}\n"
        "lanes: {compile: {include: [{platforms: [cann-a2a3], geometries: [packed], kernels: [fused]}]}}\n"
    )
    assert main(["packed", "--budget", "9", "--matrix", str(overlay)]) == 0
    (plan,) = tmp_path.glob("*.json")
    geometry = Geometry(9, 9, 3, 24, 40, Conv(3, 1, 2, 2), Conv(1, 1, 0))
    found = {program: tiling_for(program, geometry.device, CAPACITIES) for program in PROGRAMS}
    assert found == read_plan(plan)
    assert found["fused"] != tiling_by_rule(geometry.device, CAPACITIES)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["mc63"],
            "geometry `mc63` is not in the matrix; the closest known name is `mc62`; "
            "--matrix FILE adds others",
        ),
        (["mc62", "--budget", "0"], "--budget 0: a search needs one compilation at least; write 1 or more"),
        (
            ["gemm-128"],
            "workload gemm has no search for tilings: its tensor-level programs are cut by rule",
        ),
    ],
)
def test_a_mistake_is_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 4
    assert capsys.readouterr().err == f"{said}\n"


def test_a_start_that_does_not_compile_ends_the_search(
    compiled: list[Order],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse(order: Order, scratch: Path) -> Any:
        raise CompileError("tile too large\nand more")

    monkeypatch.setattr("pipeline.engines.cann.child.run", refuse)
    assert main(["pair-24x16"]) == 1
    assert capsys.readouterr().err == "tile too large\n"
    assert not list(tmp_path.iterdir())
