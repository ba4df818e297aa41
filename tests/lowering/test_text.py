from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import emulator.language as pl
from emulator.memory import place
from emulator.program import Call, Program, TileType, flat
from emulator.soc import SOCS, Soc, Space
from golden.geometry import Conv, Geometry
from kernels.plan import PlanError
from kernels.planner import tile_bands, ways
from lowering.instructions import LoweringError
from lowering.minimise import program_flags
from lowering.runner import runner
from lowering.text import lower
from pipeline.ground.memory import limits_of
from workloads.conv_pair import WORKLOAD

ROOT = Path(__file__).resolve().parents[2]
EXPECTED = ROOT / "tests" / "data" / "lowering"
PROGRAMS = [program.name for program in WORKLOAD.programs]


def lowered(program: Program, soc: Soc = SOCS["a2a3"]) -> str:
    return lower(program, soc, program_flags(program, soc))


@pytest.mark.parametrize("geometry", ["small", "mc62"])
def test_the_fused_kernel_is_what_was_reviewed(geometry: str, program_of: Callable[..., Program]) -> None:
    """The files were read line by line against the listing, the memory map and the headers' documentation."""
    expected = EXPECTED / f"fused-{geometry}.cpp"
    assert lowered(program_of("fused", geometry)) == expected.read_text()


def calls_of(program: Program) -> Iterator[Call]:
    for function in program.functions.values():
        yield from (each for each in flat(function.body) if isinstance(each, Call))


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """A program of the pair in a random geometry, in bands of a random height.

    In less L1 than there is, filters come in by blocks of columns or by slices of K.
    """
    conv = st.builds(Conv, st.sampled_from([1, 3, 5]), st.sampled_from([1, 2]), st.integers(0, 1))
    channels = st.sampled_from([32, 64, 96])
    try:
        geometry = Geometry(
            draw(st.sampled_from([3, 16, 21, 40])),
            draw(st.sampled_from([7, 15, 16, 32, 48])),
            *(draw(channels) for _ in range(3)),
            draw(conv),
            draw(conv),
        )
        limits = limits_of("a2a3")
        streams = draw(st.sampled_from(list(ways(geometry))))
        room = draw(st.sampled_from([limits.l1, 100_000, 50_000])) if streams.filters else limits.l1
        rows = draw(st.integers(1, geometry.out_height))
        plan = tile_bands(geometry, replace(limits, l1=room), rows, streams)
    except (ValueError, PlanError):
        assume(False)
    program: Program = WORKLOAD.program(draw(st.sampled_from(PROGRAMS))).build(pl, plan)
    return program


@settings(max_examples=12, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(program=programs())
def test_every_operator_is_named_once_and_every_tile_lies_where_it_is_placed(program: Program) -> None:
    soc, text = SOCS["a2a3"], lowered(program)
    named = re.findall(r"\{  // (\S+): (\S+) = pl\.(\S+)", text)
    assert named == [(str(call.position), call.target, call.operator) for call in calls_of(program)]
    bases = dict(re.findall(r"(BIAS|SCALING) = (\d+)", text.partition("#else")[0]))
    placed = []
    for function in program.functions.values():
        if not function.orchestration:
            memory = place(function, soc.capacity)
            made = [each for each in flat(function.body) if isinstance(each, Call)]
            placed += [
                (call.target, memory.at(call).address)
                for call in made
                if isinstance(call.result, TileType) and call.operator not in IN_PLACE
            ]
    found = re.findall(r"TASSIGN\(t_(\w+), (?:t_\w+_at = |BIAS \+ |SCALING \+ )?(\d+)\)", text)
    assert [(name, int(address)) for name, address in found] == placed
    assert int(bases["SCALING"]) >= int(bases["BIAS"]) + soc.capacity[Space.Bias]
    assert text.count("{") == text.count("}")
    # A tile that may have fewer valid rows is declared so, and no other; the text says how many are valid.
    valid = [call for call in calls_of(program) if call.operator == "tile.set_validshape"]
    for call in valid:
        declared = re.findall(rf"(\w+<[^;]*>) t_{call.target};", text)
        assert declared
        assert all("DYNAMIC" in each for each in declared)
        assert f"t_{call.target}.SetValidRow({call.operands['valid_rows']});" in text
    if not valid:
        assert "SetValidRow" not in text


IN_PLACE = (
    "tile.gather_row",
    "tile.set_validshape",
    "tile.fillpad_inplace",
    "tile.matmul_acc",
    "tile.fixpipe_requant",
)


def test_an_accumulator_says_how_many_of_its_rows_leave(program_of: Callable[..., Program]) -> None:
    """Of 49 positions of mid a tile of 64 computes 15 more, of 35 of y one of 48 computes 13 more."""
    text = lowered(program_of("fused", "resident"))
    for lines in (
        (
            "TileAcc<int32_t, 64, 64, DYNAMIC, 64> t_conv1_acc;",
            "TileAcc<int32_t, 64, 64, DYNAMIC, 64> t_acc1;",
        ),
        ("TASSIGN(t_conv1_acc, 0);", "t_conv1_acc.SetValidRow(64);", "TMATMUL_BIAS(t_conv1_acc, "),
        (
            "t_acc1 = t_conv1_acc;",
            "if ((i_mid_tile == 0)) {",
            "t_acc1.SetValidRow(49);",
            "TINSERT_FP(t_mid, t_acc1",
        ),
        (
            "t_acc2.SetValidRow(35);",
            "SomeRows<int8_t, 64, 64> gm(gm_y + (0 + (i_out_tile * 48)) * 64 + 0, {t_acc2.GetValidRow()});",
            "Rows<TileType::Vec, int8_t, 48, 64, 64, DYNAMIC> spare(t_acc2.GetValidRow());",
            "TSTORE_FP(gm, t_acc2, t_scale_table2);",
        ),
    ):
        assert follow(lines, text), lines


def test_zeros_lie_under_a_map_before_its_rows_are_gathered(program_of: Callable[..., Program]) -> None:
    """63 pixels of x in 112 rows: three whole fractals and 15 rows."""
    lines = (
        "Fractals<112, 32, 32, DYNAMIC> t_feature_map;",
        "t_feature_map.SetValidRow(112);",
        "t_feature_map.SetValidRow(63);",
        "TFILLPAD(t_feature_map, t_feature_map);",
        "t_feature_map.SetValidRow(112);",
        "Fractals<48, 32> part;",
        "Rows<TileType::Mat, int8_t, 15, 32> part;",
        "TIMG2COL(",
    )
    assert follow(lines, lowered(program_of("fused", "resident")))


def follow(lines: Sequence[str], text: str) -> bool:
    """Whether the lines stand in the text one after another, with others between them."""
    return re.search(".*?".join(map(re.escape, lines)), text, re.DOTALL) is not None


def test_the_text_does_not_depend_on_the_process() -> None:
    code = (
        "from tests.lowering.test_text import *; from tests.lowering.conftest import SMALL\n"
        "plan = tile_bands(SMALL, limits_of('a2a3'), 4)\n"
        "sys.stdout.write(lowered(WORKLOAD.program('fused').build(pl, plan)))"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1
    assert "set_flag" in texts.pop()


def odd(rows: int = 32, turns: int = 2) -> Program:
    """What no shipped kernel does: two planes at once, tiles in UB, a branch, a name of two types."""
    part, last = [rows, 64], turns - 1

    @pl.program
    class Odd:
        @pl.function(type=pl.FunctionType.InCore)
        def odd(
            self, x: pl.Tensor[[64, 64], pl.INT8], y: pl.Out[pl.Tensor[[64, 64], pl.INT8]]
        ) -> pl.Tensor[[64, 64], pl.INT8]:
            whole = pl.tile.create([64, 64], pl.INT8, target_memory=pl.MemorySpace.Mat)
            for half in pl.range(2):
                whole = pl.tile.gather_row(
                    whole, x, dst_offset=[half * 32, 0], src_offset=[32 - half * 32, 0], shapes=part
                )
            for turn in pl.range(turns):
                if turn < last:
                    row = pl.load(x, [0, 0], [1, 64], target_memory=pl.MemorySpace.Vec)
                    y = pl.store(row, [(turn - 1) % 4, 0], y)
                else:
                    row = pl.load(x, [1, 0], [2, 64], target_memory=pl.MemorySpace.Vec)
                    y = pl.store(row, [(turn - 3) // 2 + 5, 0], y)
            y = pl.store(whole, [0, 0], y)
            return y  # noqa: RET504 (the language returns outputs by name)

        @pl.function(type=pl.FunctionType.Orchestration)
        def main(
            self, x: pl.Tensor[[64, 64], pl.INT8], y: pl.Out[pl.Tensor[[64, 64], pl.INT8]]
        ) -> pl.Tensor[[64, 64], pl.INT8]:
            y = self.odd(x, y)
            return y  # noqa: RET504 (the language returns outputs by name)

    program: Program = Odd
    return program


def test_planes_branches_and_names_of_two_types_have_their_words() -> None:
    text = lowered(odd())
    for line in (
        "for (int plane = 0; plane < 2; ++plane) {",
        "Matrix<int8_t, 32, 32, 64> gm(gm_x + (32 - (i_half * 32)) * 64 + 0 + plane * 32);",
        "TASSIGN(part, t_whole_at + (0 / 32 + plane) * 2048 + (i_half * 32) * 32);",
        "if ((i_turn < 1)) {",
        "} else {",
        "Rows<TileType::Vec, int8_t, 1, 64> t_row;",
        "Rows<TileType::Vec, int8_t, 2, 64> t_row_2;",
        "Matrix<int8_t, 1, 64, 64> gm(gm_y + floor_remainder((i_turn - 1), 4) * 64 + 0);",
        "Matrix<int8_t, 2, 64, 64> gm(gm_y + (floor_quotient((i_turn - 3), 2) + 5) * 64 + 0);",
    ):
        assert f"{line}" in text, line
    assert "BIAS = 128, SCALING = 1152" in text  # after the tile of two rows in UB


def test_a_branch_of_a_late_round_has_its_flags() -> None:
    program = odd(turns=6)
    late = [call for call in calls_of(program) if call.operator == "store"][1]
    assert program_flags(program, SOCS["a2a3"])["odd"][id(late)]


def test_rows_that_end_inside_a_fractal_leave_the_rest_of_it_alone() -> None:
    """16 of 24 rows fill a fractal of each plane; the other 8 are loaded as rows."""
    lines = (
        "Matrix<int8_t, 16, 32, 64> gm(gm_x + (32 - (i_half * 32)) * 64 + 0 + plane * 32);",
        "Fractals<16, 32> part;",
        "TASSIGN(part, t_whole_at + (0 / 32 + plane) * 2048 + (i_half * 32) * 32);",
        "Matrix<int8_t, 8, 32, 64> gm(gm_x + (32 - (i_half * 32)) * 64 + 0 + plane * 32 + 16 * 64);",
        "Rows<TileType::Mat, int8_t, 8, 32> part;",
        "TASSIGN(part, t_whole_at + (0 / 32 + plane) * 2048 + (i_half * 32) * 32 + 16 * 32);",
    )
    assert follow(lines, lowered(odd(24)))


@pytest.mark.parametrize(
    ("room", "said"),
    [
        (3071, r"fused_conv2d\.py:124: .* no room for the tables"),
        (3072, r"fused_conv2d\.py:92: the simulator stores \[16, 64\] through 1024 spare bytes of UB"),
        (4095, r"fused_conv2d\.py:92: .* of which tiles and tables use 3072 of 4095: no room"),
    ],
)
def test_what_the_simulator_needs_beside_the_tiles_must_fit(
    room: int, said: str, soc: Soc, program_of: Callable[..., Program]
) -> None:
    """No tile is in UB. The tables have 1 and 2 KiB; through the spare tile go 16 x 64 bytes."""
    program = program_of("fused")

    def with_ub(size: int) -> Soc:
        return replace(soc, capacity={**soc.capacity, Space.Vec: size})

    assert "SPARE = 3072;" in lowered(program, with_ub(4096))
    with pytest.raises(LoweringError, match=said):
        lowered(program, with_ub(room))


def test_the_runner_hands_over_every_tensor_in_order_and_keeps_the_outputs(
    soc: Soc, program_of: Callable[..., Program]
) -> None:
    text = runner(program_of("fused"), soc)
    assert "pto::NPU_MEMORY_INIT(pto::NPUArch::A2A3);" in text
    sizes = [24576, 36864, 256, 512, 36864, 256, 512, 6144]  # y is 12 x 8 x 64
    for number, size in enumerate(sizes):
        assert f"auto tensor{number} = bytes_of(files[{number + 1}], {size});" in text
    assert text.count("keep(files[") == 1
    assert "keep(files[8], tensor7.get(), 6144);" in text
