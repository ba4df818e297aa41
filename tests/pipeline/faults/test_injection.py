"""Every fault against the pair computed once more, band by band, with the fault written out by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks.mutants.catalogue.cases import pair_tiling
from golden import layout, vreq8
from golden.conv_pair import compute
from golden.geometry import Conv, Geometry
from golden.specs import Tensors
from kernels.plan import Plan, Tile
from kernels.windows import Window
from pipeline.engines.base import CompileError, Request
from pipeline.engines.emulator import EmulatorEngine
from pipeline.faults.host import spoiled_output
from pipeline.faults.injection import inputs_with
from pipeline.ground.jobs import Platform, WorkloadName
from pipeline.ground.subject import Subject
from workloads.conv_pair import WORKLOAD
from workloads.faults import FAULTS, can_show, fault_named
from workloads.form import Form

pytestmark = pytest.mark.usefixtures("torch_installed")

Array = npt.NDArray[Any]
Change = Callable[[Array], Array]

EMULATOR = Platform("emu-a2a3", "emulator", "a2a3")

RAGGED = (Geometry(45, 32, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1)), pair_tiling(5))
"""Mid and y 23 x 16, in bands of 5: a first, three interior ones and a last one of 3 rows."""

STRIDED = (Geometry(35, 32, 64, 96, 64, Conv(3, 1, 1), Conv(3, 2, 1)), pair_tiling(7, (32, 64)))
"""Mid 35 x 32, y 18 x 16, in bands of 7, the last of 4 rows."""

SINGLE = (Geometry(24, 16, 32, 32, 32, Conv(3, 2, 1), Conv(3, 1, 1)), pair_tiling(12, (16, 32)))
"""One band, and one C1 plane everywhere."""

RECTANGLES = (
    Geometry(40, 32, 64, 64, 64, Conv((5, 3), (2, 1), (1, 2, 2, 0)), Conv((3, 2), (1, 2), (2, 1, 0, 1))),
    pair_tiling(6, (32, 64)),
)
"""Mid 20 x 32, y 21 x 16, in bands of 6, the last of 3 rows."""

TILINGS = {"ragged": RAGGED, "strided": STRIDED, "single": SINGLE, "rectangles": RECTANGLES}

RECTANGULAR = ("no-padding", "wrong-stride", "k-order", "halo-stale", "planes-swapped")
"""Families for which rows and columns are not alike."""

SHOWN_BY = {"round-then-add": "ties", "half-away": "ties", "fma": "near-ties", "exact": "near-ties"}
"""Profiles that show a fault which full-range@7 does not."""


@dataclass(frozen=True, eq=False)
class Pair:
    """A tiled pair and its inputs."""

    subject: Subject
    tensors: Tensors

    @property
    def geometry(self) -> Geometry:
        geometry: Geometry = self.subject.geometry
        return geometry

    @property
    def plan(self) -> Plan:
        plan: Plan = self.subject.plan
        return plan

    def form(self, program: str) -> Form:
        form = self.subject.form(program)
        assert form is not None
        return form

    def golden(self, output: str) -> Array:
        return compute(self.geometry, self.tensors, "vreq8")[output]


@cache
def pair(tiling: str, profile: str) -> Pair:
    geometry, options = TILINGS[tiling]
    subject = Subject(WORKLOAD, geometry, "a2a3", options)
    return Pair(subject, WORKLOAD.definition.make(profile, geometry))


def profile_for(name: str) -> str:
    return SHOWN_BY.get(FAULTS[name].family, "full-range@7")


def emulated(pair: Pair, name: str, program: str, folder: Path, mid: Array | None = None) -> Array:
    """The output of a program on the emulator, with the fault."""
    fault, given = fault_named(name), {} if mid is None else {"mid": mid}
    request = Request(program, WorkloadName("conv-pair"), pair.subject, EMULATOR, folder, fault=fault.id)
    inputs = inputs_with(fault, pair.subject, program, pair.tensors, "vreq8", given)
    (output,) = EmulatorEngine().run(request, inputs).outputs.values()
    return spoiled_output(fault, pair.form(program), output.astype(np.int8))


# -- the pair by hand


def same(value: Array) -> Array:
    return value


def requantisation(tensors: Tensors, n: int) -> tuple[Array, Array]:
    """Scales and offsets of a convolution."""
    return tensors[f"scales{n}"], tensors[f"offsets{n}"]


def table(scales: Array, offsets: Array) -> Change:
    packed = vreq8.pack(scales, offsets)
    return lambda acc: vreq8.requantise(acc.astype(np.int32), packed)


@dataclass
class Model:
    """What each convolution does, number 1 and 2; a fault replaces one thing."""

    weights: dict[int, Array]
    bias: dict[int, Array]
    requantise: dict[int, Change]
    stride: dict[int, tuple[int, int]]
    x: Array
    x_map: Change = same
    mid_map: Change = same
    y_tile: Change = same
    open_edge: tuple[int, str, str] = (0, "", "")
    accumulates: int = 0
    shift: int = 0
    stale: int = 0
    first_map: list[Array] = field(default_factory=list)


def right(pair: Pair) -> Model:
    t, g = pair.tensors, pair.geometry
    return Model(
        weights={n: t[f"filter{n}"].astype(np.int64) for n in (1, 2)},
        bias={n: t[f"bias{n}"].astype(np.int64) for n in (1, 2)},
        requantise={n: table(*requantisation(t, n)) for n in (1, 2)},
        stride={n: (conv.stride_rows, conv.stride_columns) for n, conv in ((1, g.conv1), (2, g.conv2))},
        x=layout.nc1hwc0_to_nhwc(t["x"], g.height, g.width).reshape(g.height, g.width, g.cin),
    )


def convolved(
    model: Model,
    n: int,
    image: Array,
    window: Window,
    shape: tuple[int, int],
    conv: Conv,
    tile: Tile,
    bands: set[str],
) -> Array:
    """Accumulators [rows * width, C] of one band of this shape from its map [H, W, C], tap by tap."""
    rows, width = shape
    height, columns, channels = image.shape
    top, _, left, right_ = window.padding
    stride_rows, stride_columns = model.stride[n]
    kernel_rows, kernel_columns = conv.kernel_rows, conv.kernel_columns
    out_width = (columns + left + right_ - kernel_columns) // stride_columns + 1
    row, column = np.divmod(window.skip * width + np.arange(rows * width), out_width)
    taps = model.weights[n].reshape(channels // 32, kernel_rows, kernel_columns, 32, -1)
    faulty_conv, side, of_bands = model.open_edge
    edge = side if faulty_conv == n and of_bands in ("", *bands) else ""
    acc = np.zeros((rows * width, taps.shape[-1]), np.int64)
    for down in range(kernel_rows):
        for across in range(kernel_columns):
            r, c = row * stride_rows - top + down, column * stride_columns - left + across
            past = {"top": r < 0, "bottom": r >= height, "left": c < 0, "right": c >= columns}
            zero = np.any([mask for side, mask in past.items() if side != edge], axis=0)
            pixels = image.reshape(-1, channels)[(r * columns + c) % (height * columns)].astype(np.int64)
            pixels[zero] = 0
            acc += pixels @ taps[:, down, across].reshape(channels, -1)
    if model.accumulates == n:
        tiles = acc.reshape(-1, tile.positions, acc.shape[1])
        acc = np.cumsum(tiles, axis=0).reshape(acc.shape)
    return acc + model.bias[n]


def places(number: int, count: int) -> set[str]:
    """What a band is: a single one is the first and the last."""
    ends = {"first": number == 0, "last": number == count - 1}
    return {name for name, true in ends.items() if true} or {"interior"}


def mid_band(pair: Pair, model: Model, window: Window, rows: int, bands: set[str]) -> Array:
    """One band of mid, int8 rows."""
    g = pair.geometry
    start = window.row + (0 if "first" in bands else model.shift)
    if not 0 <= start <= g.height - window.rows:
        start = window.row
    image = model.x_map(model.x[start : start + window.rows].copy())
    shape = (rows, g.mid_width)
    return model.requantise[1](convolved(model, 1, image, window, shape, g.conv1, pair.plan.conv1, bands))


def mid_by_hand(pair: Pair, model: Model) -> Array:
    """The mid of pass1."""
    cut = pair.plan.pass1
    return np.concatenate(
        [mid_band(pair, model, x, rows, places(number, len(cut))) for number, (_, rows, x) in enumerate(cut)]
    )


def by_hand(pair: Pair, model: Model, golden_mid: Array | None = None) -> Array:
    """The y of the fused kernel, or of pass2 on a mid."""
    g, plan = pair.geometry, pair.plan
    outputs = []
    for number, band in enumerate(plan.bands):
        bands = places(number, len(plan.bands))
        if golden_mid is None:
            mid = mid_band(pair, model, band.x, band.mid.rows, bands)
        else:
            mid = golden_mid[band.mid.row * g.mid_width :][: band.mid.rows * g.mid_width]
        mid = model.mid_map(mid.copy())
        if model.stale:
            model.first_map.append(mid[: model.stale].copy())
            mid[: model.stale] = model.first_map[0]
        image, shape = mid.reshape(band.mid.rows, g.mid_width, g.cmid), (band.rows, g.out_width)
        acc2 = convolved(model, 2, image, band.mid, shape, g.conv2, plan.conv2, bands)
        outputs.append(model.requantise[2](acc2))
    tiles = np.concatenate(outputs).reshape(-1, plan.conv2.positions, g.cout)
    return np.stack([model.y_tile(tile) for tile in tiles]).reshape(-1, g.cout)


# -- the faults by hand


def whole_value(acc: Array, scales: Array, offsets: Array) -> Array:
    """rne(acc * scale19 + offset) in fp32, not saturated."""
    scale19 = vreq8.unpack(vreq8.pack(scales, np.zeros(scales.size, int))).scale
    return np.rint(acc.astype(np.float32) * scale19 + np.asarray(offsets, np.float32))


def as_variant(variant: str, scales: Array, offsets: Array) -> Change:
    packed = vreq8.pack(scales, offsets, variant=variant)
    return lambda acc: vreq8.requantise(acc.astype(np.int32), packed, variant)


def of_row(positions: int, scales: Array, offsets: Array) -> Change:
    """Row m of a tile takes entry m % C."""

    def change(acc: Array) -> Array:
        entry = np.arange(len(acc)) % positions % scales.size
        scale19 = vreq8.unpack(vreq8.pack(scales, offsets)).scale[entry, None]
        value = np.rint(acc.astype(np.float32) * scale19 + offsets[entry, None].astype(np.float32))
        return np.clip(value, -128, 127).astype(np.int8)

    return change


def requantised_wrongly(pair: Pair, family: str, n: int) -> Change:
    t = pair.tensors
    scales, offsets = requantisation(t, n)
    tile = (pair.plan.conv1, pair.plan.conv2)[n - 1]
    if family in vreq8.VARIANTS:
        return as_variant(family, scales, offsets)
    return {
        "offset-sign": lambda acc: np.clip(whole_value(acc, scales, -offsets), -128, 127).astype(np.int8),
        "scale-ignored": lambda acc: np.clip(acc + offsets, -128, 127).astype(np.int8),
        "other-table": table(*requantisation(t, 3 - n)),
        "no-saturation": lambda acc: whole_value(acc, scales, offsets).astype(np.int64).astype(np.int8),
        "unsigned-saturation": lambda acc: (
            np.clip(whole_value(acc, scales, offsets), 0, 255).astype(np.uint8).view(np.int8)
        ),
        "per-row-scale": of_row(tile.positions, scales, offsets),
    }[family]


def filter_of(matrix: Array, conv: Conv) -> Array:
    return layout.matrix_to_filter(matrix, conv)  # [Cout, C, kh, kw]


def as_nz(rows: Array) -> Array:
    """The bytes of a matrix in NZ order, in the matrix' shape."""
    return layout.nd_to_nz(rows).reshape(rows.shape)


def from_nz(rows: Array) -> Array:
    """A matrix whose bytes are taken for NZ fractals."""
    return layout.nz_to_nd(rows.reshape(rows.shape[1] // 32, -1, 16, 32))


def begun_with(image: Array, fractal: Array) -> Array:
    """A map [H, W, C] whose first 16 pixels have other bytes in C1 plane 0."""
    image.reshape(-1, image.shape[2])[:16, :32] = fractal
    return image


def faulty(pair: Pair, name: str, step: int = 0) -> Model:
    """The model with the one thing changed that the fault says; a K step is the plan's or `step` long."""
    fault, model = FAULTS[name], right(pair)
    family, n, t, g = fault.family, fault.conv, pair.tensors, pair.geometry
    conv, tile = ((g.conv1, pair.plan.conv1), (g.conv2, pair.plan.conv2))[n - 1]
    if fault.step == f"requant{n}":
        model.requantise[n] = requantised_wrongly(pair, family, n)
    elif family == "bias-missing":
        model.bias[n] = np.zeros_like(model.bias[n])
    elif family == "other-bias":
        model.bias[n] = model.bias[3 - n]
    elif family == "k-order-khkwc":
        model.weights[n] = filter_of(model.weights[n], conv).transpose(2, 3, 1, 0)
    elif family == "k-order-ckhkw":
        model.weights[n] = filter_of(model.weights[n], conv).transpose(1, 2, 3, 0)
    elif family == "planes-swapped" and n == 1:
        model.x = np.concatenate([model.x[..., 32:], model.x[..., :32]], axis=-1)
    elif family == "planes-swapped":
        model.mid_map = lambda mid: np.concatenate([mid[:, 32:], mid[:, :32]], axis=1)
    elif family.startswith("no-padding"):
        bands = name.rpartition("-")[2]
        side = family.removeprefix("no-padding-")
        model.open_edge = (n, side, bands if bands in ("first", "interior", "last") else "")
    elif family == "wrong-stride":
        rows, columns = model.stride[n]
        model.stride[n] = (rows - 1 or 2, columns - 1 or 2)
    elif family in ("k-step-skipped", "k-step-twice"):
        model.weights[n][-(step or tile.step) :] *= 0 if family == "k-step-skipped" else 2
    elif family == "acc-not-reset":
        model.accumulates = n
    elif family == "x-nhwc":
        model.x = layout.nc1hwc0_to_nhwc(model.x.reshape(-1, 32), g.height, g.width).reshape(model.x.shape)
    elif name in ("nz-as-nd-mid", "nd-as-nz-mid"):
        model.mid_map = as_nz if name == "nz-as-nd-mid" else from_nz
    elif name in ("nz-as-nd-y", "nd-as-nz-y"):
        model.y_tile = as_nz if name == "nz-as-nd-y" else from_nz
    elif name in ("band-up", "band-down"):
        model.shift = -1 if name == "band-up" else 1
    elif name == "halo-stale":
        model.stale = (g.conv2.kernel_rows - g.conv2.stride_rows) * g.mid_width
    elif name == "map-corrupted":
        model.x_map = lambda image: begun_with(image, t["filter1"][:16, :32])
    elif name == "mid-of-other-run":
        model.x = np.zeros_like(model.x)
    return model


ALL = [
    (tiling, name)
    for tiling in TILINGS
    for name, fault in FAULTS.items()
    if tiling not in ("strided", "rectangles") or not fault.step.startswith("requant")  # it knows no tiling
    if tiling != "rectangles" or fault.family.startswith(RECTANGULAR)
]
SHOWING = [
    (tiling, name) for tiling, name in ALL if not can_show(FAULTS[name], pair(tiling, "small").form("fused"))
]
HIDDEN = [case for case in ALL if case not in SHOWING and not case[1].endswith(("-first", "-last"))]
REFUSED = {
    ("ragged", "wrong-stride-2"),
    ("strided", "wrong-stride-1"),
    ("single", "wrong-stride-2"),
    ("rectangles", "wrong-stride-1"),
}

IN_CONV1 = [
    name
    for name, fault in FAULTS.items()
    if ("ragged", name) in SHOWING
    and (fault.conv == 1 or fault.step in ("load", "layout"))
    and name[-1] != "2"
]
HANDED_OVER = [name for name, fault in FAULTS.items() if fault.step == "hand-over"]


def test_the_pair_by_hand_is_the_golden() -> None:
    for tiling in TILINGS:
        known = pair(tiling, "full-range@7")
        mid, y = known.golden("mid"), known.golden("y")
        assert np.array_equal(mid_by_hand(known, right(known)), mid)
        assert np.array_equal(by_hand(known, right(known)), y)
        assert np.array_equal(by_hand(known, right(known), mid), y)


@pytest.mark.parametrize(("tiling", "name"), [case for case in SHOWING if case not in REFUSED])
def test_a_fault_does_what_it_says_and_shows(tiling: str, name: str, tmp_path: Path) -> None:
    known = pair(tiling, profile_for(name))
    golden = known.golden("y")
    if name == "unwritten":
        expected = golden.copy()
        expected[-known.plan.conv2.positions :] = -86
    else:
        expected = by_hand(known, faulty(known, name))
    actual = emulated(known, name, "fused", tmp_path)
    assert np.array_equal(actual, expected)
    assert not np.array_equal(actual, golden)


@pytest.mark.parametrize("name", IN_CONV1)
def test_pass1_has_the_faults_of_conv1(name: str, tmp_path: Path) -> None:
    known = pair("ragged", profile_for(name))
    expected = mid_by_hand(known, faulty(known, name, step=32))
    assert np.array_equal(emulated(known, name, "pass1", tmp_path), expected)
    assert not np.array_equal(expected, known.golden("mid"))


@pytest.mark.parametrize("name", HANDED_OVER)
def test_pass2_has_the_faults_of_the_hand_over(name: str, tmp_path: Path) -> None:
    known = pair("ragged", "full-range@7")
    mid = known.golden("mid")
    model = faulty(known, name)
    given = mid_by_hand(known, model) if name == "mid-of-other-run" else mid
    assert np.array_equal(emulated(known, name, "pass2", tmp_path, mid), by_hand(known, model, given))


@pytest.mark.parametrize(("tiling", "name"), HIDDEN)
def test_what_cannot_show_does_not(tiling: str, name: str, tmp_path: Path) -> None:
    known = pair(tiling, "full-range@7")
    golden = known.golden("y")
    assert np.array_equal(emulated(known, name, "fused", tmp_path), golden)


@pytest.mark.parametrize(("tiling", "name"), sorted(REFUSED))
def test_a_stride_too_long_is_refused_by_the_emulator(tiling: str, name: str, tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"img2col.* is outside the unfolded image"):
        emulated(pair(tiling, "small"), name, "fused", tmp_path)


@pytest.mark.parametrize(
    ("name", "rows", "columns"),
    [
        ("no-padding-top-2-first", [0], range(16)),
        ("no-padding-bottom-2-last", [22], range(16)),
        ("no-padding-left-2", range(23), [0]),
        ("no-padding-right-2-interior", range(5, 20), [15]),
        ("no-padding-left-1-first", range(5), [0, 1]),
        ("no-padding-left-1-last", range(20, 23), [0, 1]),
        ("band-up", range(5, 23), range(16)),
        ("band-down", range(5, 20), range(16)),  # the last band ends with the image
        ("halo-stale", [5, 6, 10, 11, 15, 16], range(16)),  # the last band reads none of its halo
        ("acc-not-reset-2", [row for row in range(23) if row % 5], range(16)),
        ("map-corrupted", [0, 1, 5, 10, 15], range(10)),  # half of one x row, where a band reads it
        ("unwritten", [22], range(16)),
    ],
)
def test_a_fault_is_in_its_rows_and_columns_only(
    name: str, rows: Sequence[int], columns: Sequence[int], tmp_path: Path
) -> None:
    known = pair("ragged", "full-range@7")
    golden = known.golden("y")
    wrong = (emulated(known, name, "fused", tmp_path) != golden).any(axis=1).reshape(23, 16)
    assert np.flatnonzero(wrong.any(axis=1)).tolist() == list(rows)
    assert np.flatnonzero(wrong.any(axis=0)).tolist() == list(columns)
