"""Mistakes of every kind in copies of the kernels and the plan are refuted, reorderings are proved.

Nothing here is timed or compared with a list: numbers say whether an edit changes results.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernels
from emulator.engine import run_program
from emulator.errors import KernelError
from emulator.soc import SOCS
from golden.geometry import Conv, ConvGeometry, GemmGeometry, Geometry
from pipeline.ground.memory import untouched_output
from pipeline.ground.programs import typed_program
from pipeline.ground.subject import Subject
from pipeline.work.proof import proof_of
from workloads.registry import workload_named


@dataclass(frozen=True)
class Edit:
    """A text of one file of `kernels/` and what stands there instead, `times` times."""

    file: str
    old: str
    new: str
    times: int = 1


@dataclass(frozen=True)
class Case:
    """Programs of a workload in a geometry."""

    workload: str
    geometry: Any
    options: Mapping[str, int]


S2, S1 = Conv(3, 2, 1), Conv(3, 1, 1)
INTERIOR = Case("conv-pair", Geometry(64, 32, 64, 64, 64, S2, S1), {"band_rows": 8})
"""Four bands, and as many channels everywhere."""
RAGGED = Case("conv-pair", Geometry(45, 32, 32, 64, 32, S2, S1), {"band_rows": 5})
STRIDE_2_2 = Case("conv-pair", Geometry(66, 64, 32, 64, 32, S2, S2), {"band_rows": 5})
CONV = Case("conv", ConvGeometry(32, 32, 64, 32, Conv(5, 1, 2)), {"band_rows": 4})
GEMM = Case("gemm", GemmGeometry(512, 1152, 32), {})


@dataclass(frozen=True)
class Mutant:
    """Edits, the case that reaches them, and the programs that they make wrong (or leave right)."""

    edits: tuple[Edit, ...]
    programs: tuple[str, ...]
    case: Case = INTERIOR


def _of(file: str, old: str, new: str, *programs: str, times: int = 1, case: Case = INTERIOR) -> Mutant:
    return Mutant((Edit(file, old, new, times),), programs, case)


_FUSED, _TWO, _BLOCKS, _PLAN = "fused_conv2d.py", "unfused_conv2d.py", "blocks.py", "plan.py"
_CONV1 = ("fused", "pass1", "first-tile-load", "first-tile-packed", "first-tile-fused-alloc")
_MID_PLACE = "[mid_tile * band_mid_tile, 0]"
_Y_PLACE = "band_out_width + out_tile * band_out_tile"
_CONV2_TAP = "conv2_taps,\n                conv2_k * conv2_step,"
_CONV1_TAP = "conv1_taps,\n                conv1_k * conv1_step,"
_CONV2_START = "conv2_taps, 0, 0,"
_CONV2_POSITION = "conv2_position,\n                conv2_k * conv2_step,"
_CONV2_WINDOW = "conv2_image, conv2_padding = (window.rows, shape.width), window.padding"
_BAND_X = "inner_x + (band - 1) * inner_step,"
_LAST = "y = last_of_y(x, f1, b1, s1, f2, b2, s2, y, last_x, last_y)"

MUTANTS: Mapping[str, Mutant] = {
    "gather: plane stride one row short": _of(
        _FUSED, "= geometry.height * geometry.width,", "= (geometry.height - 1) * geometry.width,", "fused"
    ),
    "conv1 start: skip ignored": _of(
        _FUSED,
        "band_mid_start = band.x.skip * geometry.mid_width",
        "band_mid_start = 0",
        "fused",
        case=RAGGED,
    ),
    "mid: tiles in reverse order": _of(
        _FUSED, _MID_PLACE, "[(band_mid_tiles - 1 - mid_tile) * band_mid_tile, 0]", "fused"
    ),
    "y: each tile where the next belongs": _of(
        _FUSED, _Y_PLACE, "band_out_width + (out_tile + 1) % band_out_tiles * band_out_tile", "fused"
    ),
    "interior bands: all read the first one's x": _of(_FUSED, _BAND_X, "inner_x,", "fused"),
    "last band: two x rows too high": _of(
        _FUSED, "last_x, last_y = bands[-1].x.row,", "last_x, last_y = bands[-1].x.row - 2,", "fused"
    ),
    "filter2 loaded from filter1": _of(_FUSED, "f2 = pl.load(filter2,", "f2 = pl.load(filter1,", "fused"),
    "last band: tables swapped": _of(
        _FUSED, _LAST, _LAST.replace("s1", "s0").replace("s2", "s1").replace("s0", "s2"), "fused"
    ),
    "conv2: filter one step behind": _of(
        _BLOCKS, _CONV2_TAP, _CONV2_TAP.replace("conv2_k *", "(conv2_k - 1) *"), "fused", "pass2"
    ),
    "conv2: taps transposed": _of(
        _BLOCKS,
        _CONV2_TAP,
        _CONV2_TAP.replace("conv2_k *", "(conv2_k // 9 * 9 + conv2_k % 3 * 3 + conv2_k % 9 // 3) *"),
        "fused",
        "pass2",
    ),
    "conv2: taps rotated": Mutant(
        (
            Edit(
                _BLOCKS, _CONV2_TAP, _CONV2_TAP.replace("conv2_k *", "(conv2_k // 9 * 9 + 8 - conv2_k % 9) *")
            ),
            Edit(_BLOCKS, _CONV2_START, "conv2_taps, 256, 0,"),
        ),
        ("fused", "pass2"),
    ),
    "conv1: last step with the first one's filter": _of(
        _BLOCKS,
        _CONV1_TAP,
        _CONV1_TAP.replace("conv1_k *", "conv1_k % (conv1_steps - 1) *"),
        *_CONV1,
    ),
    "conv1: filter in units of 32": _of(
        _BLOCKS,
        _CONV1_TAP,
        _CONV1_TAP.replace("conv1_step", "32"),
        "fused",
        "first-tile-packed",
        "first-tile-fused-alloc",
    ),
    "conv2: windows one column to the left": _of(
        _BLOCKS,
        _CONV2_WINDOW,
        _CONV2_WINDOW.replace("window.padding", "(*window.padding[:2], 2, 0)"),
        "fused",
        "pass2",
    ),
    "conv2: all paddings in every band": _of(
        _BLOCKS, _CONV2_WINDOW, _CONV2_WINDOW.replace("window.padding", "(1, 1, 1, 1)"), "fused", "pass2"
    ),
    "conv1: rows not strided": _of(
        _BLOCKS,
        "conv1_kernel, conv1_stride = shape.kernel, shape.stride",
        "conv1_kernel, conv1_stride = shape.kernel, (1, 2)",
        "fused",
        "pass1",
    ),
    "conv2: last plane of mid is the one before": _of(
        _BLOCKS, _CONV2_POSITION, _CONV2_POSITION.replace("conv2_k *", "conv2_k % 9 *"), "fused", "pass2"
    ),
    "pass1, interior: band in place of band - 1": _of(
        _TWO, "inner_x + (band - 1) * inner_step", "inner_x + band * inner_step", "pass1"
    ),
    "pass2: mid one row higher": Mutant(
        (
            Edit(_TWO, "inner_mid + (band - 1) * inner_step", "inner_mid - 1 + (band - 1) * inner_step"),
            Edit(_TWO, "last_mid, last_y = bands[-1].mid.row,", "last_mid, last_y = bands[-1].mid.row - 1,"),
        ),
        ("pass2",),
    ),
    "window: shift not in step with the stride": _of(
        _PLAN,
        "top = -shift if shift < 0 else -shift % conv.stride",
        "top = max(-shift, 0)",
        "fused",
        "pass1",
        case=RAGGED,
    ),
    "window: start one row early": _of(
        _PLAN, "max(first, 0), size - held)", "max(first, 0), size - held - 1)", "fused", "pass1", "pass2"
    ),
    "x window: one row short": _of(
        _PLAN,
        "held = min(rows_read(geometry.conv1, longest), geometry.height)",
        "held = min(rows_read(geometry.conv1, longest) - 1, geometry.height)",
        "fused",
        "pass1",
    ),
    "window: left padding one more, right one less": _of(
        _PLAN,
        "(top, bottom, conv.padding, conv.padding)",
        "(top, bottom, conv.padding + 1, conv.padding - 1)",
        *_CONV1,
        "pass2",
    ),
    "bias of the other convolution": _of(_FUSED, "b2 = pl.load(bias2,", "b2 = pl.load(bias1,", "fused"),
    "conv1 without bias": _of(
        _BLOCKS,
        "conv1_acc = pl.tile.matmul_bias(conv1_a, conv1_b, conv1_bias)",
        "conv1_acc = pl.tile.matmul(conv1_a, conv1_b)",
        *_CONV1,
    ),
    "conv2: one step short": _of(
        _BLOCKS,
        "for conv2_k in pl.range(1, conv2_steps):",
        "for conv2_k in pl.range(1, conv2_steps - 1):",
        "fused",
        "pass2",
    ),
    "conv2: the first step twice": _of(
        _BLOCKS,
        "for conv2_k in pl.range(1, conv2_steps):",
        "for conv2_k in pl.range(conv2_steps):",
        "fused",
        "pass2",
    ),
    "conv: plane stride": _of(
        "conv2d.py",
        "= geometry.height * geometry.width,",
        "= (geometry.height - 1) * geometry.width,",
        "conv",
        case=CONV,
    ),
    "conv: interior bands all read the same x": _of("conv2d.py", _BAND_X, "inner_x,", "conv", case=CONV),
    "gemm: b one step behind": _of(
        "gemm.py",
        "b_block,\n                                    k * step,",
        "b_block,\n                                    (k - 1) * step,",
        "gemm",
        case=GEMM,
    ),
    "gemm: bands of c turned": _of(
        "gemm.py",
        "[band * rows + row * tile_m,",
        "[(bands - 1 - band) * rows + row * tile_m,",
        "gemm",
        case=GEMM,
    ),
}
"""Those of the issue's list, in its order, but the one that the emulator computes rightly; then others."""


_WHOLE_LOOP = "for conv2_k in pl.range(1, conv2_steps):"
EQUIVALENT: Mapping[str, Mutant] = {
    "conv2: K loop from the end": Mutant(
        (
            Edit(_BLOCKS, _CONV2_TAP, _CONV2_TAP.replace("conv2_k *", "(conv2_steps - conv2_k) *")),
            Edit(_BLOCKS, _CONV2_POSITION, _CONV2_POSITION.replace("conv2_k *", "(conv2_steps - conv2_k) *")),
        ),
        ("fused", "pass2"),
    ),
    "mid and y: tiles from the end": Mutant(
        (
            Edit(_FUSED, "band_mid_start + mid_tile *", "band_mid_start + (band_mid_tiles - 1 - mid_tile) *"),
            Edit(_FUSED, _MID_PLACE, _MID_PLACE.replace("mid_tile *", "(band_mid_tiles - 1 - mid_tile) *")),
            Edit(_FUSED, "band_out_start + out_tile *", "band_out_start + (band_out_tiles - 1 - out_tile) *"),
            Edit(_FUSED, _Y_PLACE, _Y_PLACE.replace("out_tile *", "(band_out_tiles - 1 - out_tile) *")),
        ),
        ("fused",),
    ),
    "interior bands from the bottom": Mutant(
        (
            Edit(_FUSED, _BAND_X, "inner_x + (last_band - 1 - band) * inner_step,"),
            Edit(_FUSED, "band * rows_of_band,", "(last_band - band) * rows_of_band,"),
        ),
        ("fused",),
    ),
    "the last band twice": _of(_FUSED, _LAST, f"{_LAST}\n                {_LAST}", "fused"),
    "the last band in place of the first, which then mends it": _of(
        _FUSED,
        "y = first_of_y(x, f1, b1, s1, f2, b2, s2, y, 0, 0)",
        "y = last_of_y(x, f1, b1, s1, f2, b2, s2, y, last_x, 0)\n"
        "            y = first_of_y(x, f1, b1, s1, f2, b2, s2, y, 0, 0)",
        "fused",
    ),
}


def copied(folder: Path, edits: tuple[Edit, ...]) -> str:
    """A copy of the kernels as a package in a folder, with the edits made; its name."""
    package = f"kernels_{folder.name}".replace("-", "_")
    (folder / package).mkdir()
    for path in Path(kernels.__file__).parent.glob("*.py"):
        text = path.read_text()
        for edit in edits:
            if edit.file == path.name:
                assert text.count(edit.old) == edit.times, f"{edit.old} in {path.name}"
                text = text.replace(edit.old, edit.new)
        text = re.sub(r"^from kernels\b", f"from {package}", text, flags=re.MULTILINE)
        (folder / package / path.name).write_text(text)
    return package


@pytest.fixture
def edited(tmp_path: Path) -> Iterator[Callable[[Mutant], Subject]]:
    """`edited(mutant)`: its case, with plan and programs of an edited copy of the kernels."""
    before = set(sys.modules)
    sys.path.insert(0, str(tmp_path))

    def edit(mutant: Mutant) -> Subject:
        package, case = copied(tmp_path, mutant.edits), mutant.case
        plans = importlib.import_module(f"{package}.plan")
        convs = importlib.import_module(f"{package}.conv_plan")
        gemms = importlib.import_module(f"{package}.gemm_plan")
        plan = {
            "conv-pair": lambda geometry, limits, options: plans.tile_bands(geometry, limits, **options),
            "conv": lambda geometry, limits, options: convs.tile_conv_bands(geometry, limits, **options),
            "gemm": lambda geometry, limits, options: gemms.make_gemm_plan(geometry, limits),
        }[case.workload]
        workload = workload_named(case.workload)
        programs = tuple(
            replace(program, factory=re.sub(r"^kernels", package, str(program.factory)))
            for program in workload.programs
        )
        return Subject(replace(workload, plan=plan, programs=programs), case.geometry, "a2a3", case.options)

    yield edit
    sys.path.remove(str(tmp_path))
    for name in set(sys.modules) - before:
        if name.startswith("kernels_"):
            del sys.modules[name]


def wrong_numbers(subject: Subject, name: str) -> int:
    """How many elements of a program's output are wrong on data that fill the range of int8."""
    entry, definition = subject.program(name), subject.definition
    tensors = definition.make("full-range@7", subject.geometry)
    arrays = tensors.arrays("vreq8") | dict(definition.computed(subject.geometry, tensors, "vreq8"))
    made = {key: make(subject.geometry, subject.plan, arrays) for key, make in entry.host.items()}
    output = untouched_output(*subject.workload.output_of(name, subject.geometry, subject.plan))
    given = {key: np.ascontiguousarray((arrays | made)[key]) for key in entry.inputs}
    run_program(typed_program(subject, name), SOCS["a2a3"], {**given, entry.output: output})
    return int((output != arrays[entry.tensor][: output.shape[0]]).sum())


def outcome(subject: Subject, name: str) -> str:
    """Whether a program is proved or refuted; the numbers must say the same."""
    try:
        proof = proof_of(subject, name, typed_program(subject, name))
    except KernelError:
        return "refused"
    numbers = wrong_numbers(subject, name)
    assert proof.wrong >= numbers
    assert (proof.wrong > 0) == (numbers > 0)
    assert bool(proof.words) == (proof.wrong > 0)
    return "refuted" if proof.wrong else "proved"


@pytest.mark.usefixtures("torch_installed")
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mistake_is_refuted(name: str, edited: Callable[[Mutant], Subject]) -> None:
    mutant = MUTANTS[name]
    subject = edited(mutant)
    outcomes = {program.name: outcome(subject, program.name) for program in subject.workload.programs}
    assert {key for key, found in outcomes.items() if found == "refuted"} == set(mutant.programs)


@pytest.mark.usefixtures("torch_installed")
@pytest.mark.parametrize("name", EQUIVALENT)
def test_a_reordering_is_proved(name: str, edited: Callable[[Mutant], Subject]) -> None:
    subject = edited(EQUIVALENT[name])
    assert {outcome(subject, program.name) for program in subject.workload.programs} == {"proved"}
