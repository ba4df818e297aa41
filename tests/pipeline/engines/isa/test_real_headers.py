"""On the public headers that `PTO_ISA_ROOT` names: the lowering against the vendor's simulator."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import emulator.language
from emulator.engine import run_program
from emulator.program import Program
from emulator.soc import SOCS
from golden.geometry import Conv, Geometry
from golden.vreq8 import pack
from lowering.minimise import program_flags
from lowering.runner import runner
from lowering.text import lower
from pipeline.engines.base import CompileError
from pipeline.engines.isa.build import PROGRAM, RUNNER, SimulatorError, build, run
from pipeline.engines.isa.probe import measure
from pipeline.engines.isa.toolchain import SANITIZE, Toolchain, find
from pipeline.ground.subject import Subject
from tests.lowering.conftest import ragged_plan
from workloads.registry import workload_named

pytestmark = pytest.mark.skipif(
    not os.environ.get("PTO_ISA_ROOT"), reason="PTO_ISA_ROOT is not set: there are no headers to test with"
)

SUBJECT = Subject(
    workload_named("conv-pair"), Geometry(24, 16, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1)), "a2a3"
)
TILES = {"tile_positions1": 16, "k_step1": 64, "tile_positions2": 16, "k_step2": 32}
"""As the shipped matrix writes them: in a single tile or K step many mistakes change nothing."""

VARIANT = "offset-unsigned"
Arrays = Mapping[str, npt.NDArray[Any]]


@pytest.fixture(scope="module")
def toolchain() -> Toolchain:
    found = find(os.environ)
    assert isinstance(found, Toolchain), found
    return found


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def program_of(name: str, band_rows: int = 12) -> Program:
    """A program in bands of so many rows of y, which has 12."""
    subject = Subject(SUBJECT.workload, SUBJECT.geometry, SUBJECT.soc, {"band_rows": band_rows, **TILES})
    program: Program = subject.program(name).build(emulator.language, subject.plan)
    return program


def arrays_of(program: Program) -> dict[str, npt.NDArray[Any]]:
    """Random inputs of every parameter, and the sentinel for outputs."""
    random = np.random.default_rng(7)
    arrays: dict[str, npt.NDArray[Any]] = {}
    for param in program.main.params:
        dtype, shape = np.dtype(param.type.dtype.numpy), param.type.shape
        if param.type.out:
            arrays[param.name] = np.full(shape, -86, dtype)
        elif dtype == np.uint64:
            scales = random.uniform(0.0005, 0.004, shape[1]).astype(np.float32)
            arrays[param.name] = pack(scales, random.integers(0, 60, shape[1]))
        else:
            limit = 128 if dtype == np.int8 else 5000
            arrays[param.name] = random.integers(-limit, limit, shape).astype(dtype)
    return arrays


def simulated(
    toolchain: Toolchain, cache: Path, folder: Path, program: Program, arrays: Arrays, text: str
) -> npt.NDArray[Any]:
    """The output of a text, run on these arrays."""
    sources = {PROGRAM: text, RUNNER: runner(program, SOCS["a2a3"])}
    files = {name: folder / name for name in arrays}
    for name, array in arrays.items():
        array.tofile(files[name])
    run(build(toolchain, sources, cache), list(files.values()), folder / "log")
    (output,) = (param for param in program.main.params if param.type.out)
    written: npt.NDArray[Any] = np.fromfile(files[output.name], output.type.dtype.numpy)
    return written.reshape(output.type.shape)


def emulated(program: Program, arrays: Arrays) -> npt.NDArray[Any]:
    own = {name: array.copy() for name, array in arrays.items()}
    run_program(program, SOCS["a2a3"], own, VARIANT)
    (output,) = (param.name for param in program.main.params if param.type.out)
    return own[output]


def lowered(program: Program) -> str:
    return lower(program, SOCS["a2a3"], program_flags(program, SOCS["a2a3"]))


def test_the_headers_scale_by_channel(toolchain: Toolchain, cache: Path) -> None:
    assert str(measure(toolchain, cache).insert) == f"{VARIANT} by channel"


@pytest.mark.parametrize("name", ["fused", "pass1", "first-tile-packed"])
def test_the_simulator_gives_what_the_emulator_gives(
    name: str, toolchain: Toolchain, cache: Path, tmp_path: Path
) -> None:
    program = program_of(name)
    arrays = arrays_of(program)
    found = simulated(toolchain, cache, tmp_path, program, arrays, lowered(program))
    np.testing.assert_array_equal(found, emulated(program, arrays))
    assert len(np.unique(found)) > 200


def ragged_program(name: str, filters: str) -> Program:
    program: Program = SUBJECT.workload.program(name).build(emulator.language, ragged_plan(filters))
    return program


@pytest.mark.parametrize("filters", ["resident", "blocks", "slices", "planes"])
@pytest.mark.parametrize("name", ["fused", "pass1"])
def test_ragged_maps_and_streamed_filters_too(
    name: str, filters: str, toolchain: Toolchain, cache: Path, tmp_path: Path
) -> None:
    program = ragged_program(name, filters)
    arrays = arrays_of(program)
    found = simulated(toolchain, cache, tmp_path, program, arrays, lowered(program))
    np.testing.assert_array_equal(found, emulated(program, arrays))
    assert len(np.unique(found)) > 200


RAGGED_MUTANTS = {
    "positions that nobody wants lie under mid": ("t_acc1.SetValidRow(49);", ""),
    "no zeros under x": ("TFILLPAD(t_feature_map, t_feature_map);", ""),
    "what is left of a plane is loaded elsewhere": ("+ 0 * 32 + 48 * 32);", "+ 0 * 32 + 47 * 32);"),
    "another block of y": ("* 64 + (i_block2 * 32), {", "* 64 + ((1 - i_block2) * 32), {"),
}


@pytest.mark.parametrize("mutant", RAGGED_MUTANTS)
def test_a_mistake_in_what_is_ragged_is_seen_in_the_bytes(
    mutant: str, toolchain: Toolchain, cache: Path, tmp_path: Path
) -> None:
    program = ragged_program("fused", "blocks")
    text, (written, mistake) = lowered(program), RAGGED_MUTANTS[mutant]
    assert text.count(written) == 2  # in each band
    arrays = arrays_of(program)
    found = simulated(toolchain, cache, tmp_path, program, arrays, text.replace(written, mistake))
    assert (found != emulated(program, arrays)).any()


def test_the_rest_of_a_fractal_keeps_what_it_holds(toolchain: Toolchain, cache: Path, tmp_path: Path) -> None:
    """24 rows that are gathered over 32 leave the last 8: the simulator's TLOAD into fractals would not."""
    program = gathered_twice()
    x = np.arange(64 * 64, dtype=np.int32).astype(np.int8).reshape(64, 64)
    arrays = {"x": x, "y": np.full((32, 64), -86, np.int8)}
    found = simulated(toolchain, cache, tmp_path, program, arrays, lowered(program))
    np.testing.assert_array_equal(found, np.concatenate([x[32:56], x[24:32]]))


def gathered_twice() -> Program:
    pl, whole, some = emulator.language, [32, 64], [24, 64]

    @pl.program
    class Twice:
        @pl.function(type=pl.FunctionType.InCore)
        def twice(
            self, x: pl.Tensor[[64, 64], pl.INT8], y: pl.Out[pl.Tensor[[32, 64], pl.INT8]]
        ) -> pl.Tensor[[32, 64], pl.INT8]:
            tile = pl.tile.create(whole, pl.INT8, target_memory=pl.MemorySpace.Mat)
            tile = pl.tile.gather_row(tile, x, dst_offset=[0, 0], src_offset=[0, 0], shapes=whole)
            tile = pl.tile.gather_row(tile, x, dst_offset=[0, 0], src_offset=[32, 0], shapes=some)
            y = pl.store(tile, [0, 0], y)
            return y  # noqa: RET504 (the language returns outputs by name)

        @pl.function(type=pl.FunctionType.Orchestration)
        def main(
            self, x: pl.Tensor[[64, 64], pl.INT8], y: pl.Out[pl.Tensor[[32, 64], pl.INT8]]
        ) -> pl.Tensor[[32, 64], pl.INT8]:
            y = self.twice(x, y)
            return y  # noqa: RET504 (the language returns outputs by name)

    program: Program = Twice
    return program


MUTANTS = {
    "another tile type": (
        "BLayout::ColMajor, valid_rows, valid, SLayout::RowMajor, 512>",
        "BLayout::RowMajor, valid_rows, valid, SLayout::RowMajor, 512>",
    ),
    "swapped strides": ("stride, 1>, Layout::ND>", "1, rows>, Layout::ND>"),
    "the tables collide": ("SCALING = 1024", "SCALING = 0"),
    "a fractal is left out": ("* 12288 +", "* (12288 - 512) +"),
    "another order of the padding": (
        "{padding.left, padding.right, padding.top, padding.bottom}",
        "{padding.top, padding.bottom, padding.left, padding.right}",
    ),
    "the spare tile lies on the table": ("SPARE = 3072", "SPARE = 1024"),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mistake_in_the_lowering_is_seen_in_the_bytes(
    mutant: str, toolchain: Toolchain, cache: Path, tmp_path: Path
) -> None:
    # In a single band two orders of the padding read the same bytes.
    program = program_of("fused", 4 if "padding" in mutant else 12)
    text, (written, mistake) = lowered(program), MUTANTS[mutant]
    assert text.count(written) == 1
    arrays = arrays_of(program)
    found = simulated(toolchain, cache, tmp_path, program, arrays, text.replace(written, mistake))
    assert (found != emulated(program, arrays)).any()


def test_an_assertion_of_the_headers_ends_the_run(toolchain: Toolchain, cache: Path, tmp_path: Path) -> None:
    program = program_of("fused")
    text = lowered(program).replace("t_mid_at = 99840", "t_mid_at = 524288")
    with pytest.raises(SimulatorError, match="Assertion"):
        simulated(toolchain, cache, tmp_path, program, arrays_of(program), text)


def test_what_the_headers_refuse_is_a_refusal(toolchain: Toolchain, cache: Path, tmp_path: Path) -> None:
    program = program_of("fused")
    text = lowered(program).replace(
        "TileLeft<int8_t, 16, 64> t_conv1_a", "TileLeft<int8_t, 16, 32> t_conv1_a"
    )
    with pytest.raises(CompileError, match="Inconsistent number of m, k, n"):
        simulated(toolchain, cache, tmp_path, program, arrays_of(program), text)


def test_only_the_sanitizer_sees_a_read_outside_of_gm(cache: Path, tmp_path: Path) -> None:
    found = find({**os.environ, SANITIZE: "address"})
    assert isinstance(found, Toolchain)
    program = program_of("first-tile-packed")
    text = lowered(program)
    outside = text.replace("gm(gm_filter1 + 0 * 64 + 0)", "gm(gm_filter1 + 1 * 64 + 0)")
    assert outside != text
    with pytest.raises(SimulatorError, match="AddressSanitizer: heap-buffer-overflow"):
        simulated(found, cache, tmp_path, program, arrays_of(program), outside)
