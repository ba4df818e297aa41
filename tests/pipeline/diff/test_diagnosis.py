from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks.mutants.catalogue.cases import pair_tiling
from golden import layout, vreq8
from golden.chain import Computed, compute, sums_of
from golden.conv_pair import layers
from golden.geometry import C0, Conv, GemmGeometry, Geometry
from golden.specs import Tensors
from kernels.plan import Band, Plan
from pipeline.diff.diagnosis import diagnose
from pipeline.diff.evidence import Evidence
from pipeline.diff.hypotheses.model import model_of
from pipeline.diff.hypotheses.registry import hypotheses
from pipeline.ground.subject import Subject
from workloads import conv_pair, gemm
from workloads.form import Form

pytestmark = pytest.mark.usefixtures("torch_installed")

Array = npt.NDArray[np.generic]

SENTINEL = -86
GEOMETRY = Geometry(32, 32, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1))
FIRST, SECOND = layers(GEOMETRY)
SUBJECT = Subject(conv_pair.WORKLOAD, GEOMETRY, "a2a3", pair_tiling(4))
TWO_PASS = "pass1 and pass2"
"""Both passes, the second on what the first gives."""


def right_of(tensors: Tensors, variant: str = "vreq8") -> Right:
    return Right(compute((FIRST, SECOND), tensors, variant))


def changed(tensors: Tensors, **values: Array) -> Tensors:
    return Tensors(tensors.specs, {**tensors.values, **values})


def form_of(program: str, *, planned: bool = True) -> Form:
    """The form of a program, or of both passes; without a plan that of a geometry that has none."""
    if program == TWO_PASS:
        return form_of("pass1", planned=planned).then(form_of("pass2", planned=planned))
    described = SUBJECT.program(program).form
    assert described is not None
    return described(GEOMETRY, SUBJECT.plan if planned else None)


@dataclass(frozen=True, eq=False)
class Right:
    """What is right: accumulators with bias, and outputs."""

    computed: Computed

    @property
    def acc1(self) -> Array:
        return self.computed.sums["mid"]

    @property
    def acc2(self) -> Array:
        return self.computed.sums["y"]

    @property
    def mid(self) -> Array:
        return self.computed.outputs["mid"]

    @property
    def y(self) -> Array:
        return self.computed.outputs["y"]


@dataclass(frozen=True, eq=False)
class Pair:
    """A pair, and what y becomes where something of it is replaced: golden's own functions, no hypothesis."""

    tensors: Tensors
    plan: Plan
    right: Right

    def tables(self, variant: str = "vreq8") -> tuple[vreq8.Table, vreq8.Table]:
        return self.tensors.table("scale1", variant), self.tensors.table("scale2", variant)

    def y_of_mid(self, mid: Array) -> Array:
        acc2 = sums_of(SECOND, mid, self.tensors["filter2"]) + self.tensors["bias2"]
        return vreq8.requantise(acc2, self.tables()[1])

    def y_of_acc1(self, acc1: Array, table: Array | None = None, variant: str = "vreq8") -> Array:
        return self.y_of_mid(vreq8.requantise(acc1, self.tables()[0] if table is None else table, variant))

    def y_of_x(self, x: Array) -> Array:
        return self.y_of_acc1(sums_of_x(x, self.tensors["filter1"]) + self.tensors["bias1"])

    def y_of_filters(self, filter1: Array, filter2: Array) -> Array:
        return right_of(changed(self.tensors, filter1=filter1, filter2=filter2)).y

    def maps_of_x(self) -> list[Array]:
        """The x rows of each band [rows, W, C]."""
        rows = layout.nc1hwc0_to_nhwc(self.tensors["x"], GEOMETRY.height, GEOMETRY.width)
        image = rows.reshape(GEOMETRY.height, GEOMETRY.width, -1)
        return [image[band.x.row : band.x.row + band.x.rows].copy() for band in self.plan.bands]

    def maps_of_mid(self) -> list[Array]:
        """The mid rows of each band [rows, Wmid, C]."""
        image = self.right.mid.reshape(GEOMETRY.mid_height, GEOMETRY.mid_width, -1)
        return [image[band.mid.row : band.mid.row + band.mid.rows].copy() for band in self.plan.bands]

    def mid_of_map(self, band: Band, image: Array) -> Array:
        """The mid rows of a band from its x map."""
        columns = unfolded(np.pad(image, padding_of(band.x.padding)), GEOMETRY.conv1)
        start = band.x.skip * GEOMETRY.mid_width
        sums = columns[start : start + band.mid.rows * GEOMETRY.mid_width] @ wide(self.tensors["filter1"])
        acc1 = (sums + self.tensors["bias1"]).astype(np.int32)
        return vreq8.requantise(acc1, self.tables()[0]).reshape(band.mid.rows, GEOMETRY.mid_width, -1)

    def y_of_columns(self, columns: list[Array]) -> Array:
        """y from each band's unfolded mid."""
        sums = np.concatenate([band @ wide(self.tensors["filter2"]) for band in columns])
        acc2 = sums + self.tensors["bias2"]
        return vreq8.requantise(acc2.astype(np.int32), self.tables()[1])

    def y_of_maps(self, maps: list[Array]) -> Array:
        return self.y_of_columns(
            [
                wanted(band, unfolded(np.pad(image, padding_of(band.mid.padding)), GEOMETRY.conv2))
                for band, image in zip(self.plan.bands, maps, strict=True)
            ]
        )

    @cached_property
    def scale2(self) -> Array:
        return vreq8.unpack(self.tables()[1]).scale


def sums_of_x(x: Array, filter1: Array) -> Array:
    return sums_of(FIRST, layout.nc1hwc0_to_nhwc(x, GEOMETRY.height, GEOMETRY.width), filter1)


def wide(matrix: Array) -> Array:
    return matrix.astype(np.int64)


def padding_of(padding: tuple[int, int, int, int]) -> tuple[tuple[int, int], ...]:
    return padding[:2], padding[2:], (0, 0)


def unfolded(padded: Array, conv: Conv) -> Array:
    """Windows of an image [rows, columns, C] that is padded already."""
    height, width, _ = padded.shape
    planes = layout.nchw_to_nc1hwc0(padded.transpose(2, 0, 1)[np.newaxis])
    return wide(layout.img2col(planes, height, width, conv, (0, 0, 0, 0)))


def wanted(band: Band, columns: Array) -> Array:
    start = band.mid.skip * GEOMETRY.out_width
    return columns[start : start + band.rows * GEOMETRY.out_width]


@pytest.fixture(scope="module")
def pair() -> Pair:
    tensors = conv_pair.WORKLOAD.definition.make("full-range@3", GEOMETRY)
    assert len(SUBJECT.plan.bands) == 4
    return Pair(tensors, SUBJECT.plan, right_of(tensors))


def evidence_of(
    tensors: Tensors,
    outputs: Mapping[str, Array],
    form: Form | None,
    tensor: str,
    actual: Array,
    expected: Array,
    variant: str = "vreq8",
    sentinel: int | None = SENTINEL,
) -> Evidence:
    frame = SUBJECT.frame(tensor)
    return Evidence(form, frame, tensors, outputs, variant, tensor, actual, expected, sentinel)


@pytest.fixture
def evidence(pair: Pair) -> Callable[..., Evidence]:
    def make(actual: Array, program: str = "fused", tensor: str = "y") -> Evidence:
        outputs = pair.right.computed.outputs
        expected = outputs[tensor]
        if program.startswith("first-tile"):
            expected = expected[: pair.plan.conv1.positions]
        return evidence_of(pair.tensors, outputs, form_of(program), tensor, actual, expected)

    return make


# -- faults, each made by hand


def _variant_1(variant: str) -> Callable[[Pair], Array]:
    return lambda pair: pair.y_of_acc1(pair.right.acc1, pair.tables(variant)[0], variant)


def _variant_2(variant: str) -> Callable[[Pair], Array]:
    return lambda pair: vreq8.requantise(pair.right.acc2, pair.tables(variant)[1], variant)


def _variant_of_both(variant: str) -> Callable[[Pair], Array]:
    return lambda pair: right_of(pair.tensors, variant).y


def _offset_sign(pair: Pair) -> Array:
    tensors = pair.tensors
    return vreq8.requantise(pair.right.acc2, vreq8.pack(tensors["scales2"], -tensors["offsets2"]))


def _scale_ignored(pair: Pair) -> Array:
    table = vreq8.pack(np.ones(GEOMETRY.cmid), pair.tensors["offsets1"])
    return pair.y_of_acc1(pair.right.acc1, table)


def _no_saturation(pair: Pair) -> Array:
    value = pair.right.acc2.astype(np.float32) * pair.scale2 + pair.tensors["offsets2"].astype(np.float32)
    return (np.rint(value).astype(np.int64) & 0xFF).astype(np.uint8).view(np.int8)


def _unsigned(pair: Pair) -> Array:
    table = vreq8.pack(pair.tensors["scales2"], pair.tensors["offsets2"], signed=False)
    return vreq8.requantise(pair.right.acc2, table).view(np.int8)


def _per_row(pair: Pair) -> Array:
    table, size = pair.tables()[1], pair.plan.conv2.positions
    y = np.empty_like(pair.right.y)
    for m, acc in enumerate(pair.right.acc2):
        entry = m % size % GEOMETRY.cout
        y[m] = vreq8.requantise(acc[:, None], table[:, entry : entry + 1])[:, 0]
    return y


def _k_order(axes: tuple[int, ...]) -> Callable[[Pair], Array]:
    def build(pair: Pair) -> Array:
        taps = layout.matrix_to_filter(pair.tensors["filter2"], Conv(3))  # [Cout, C, kh, kw]
        filter2 = np.ascontiguousarray(taps.transpose(axes)).reshape(-1, GEOMETRY.cout)
        return pair.y_of_filters(pair.tensors["filter1"], filter2)

    return build


def _planes_of_x(pair: Pair) -> Array:
    first, second = np.split(pair.tensors["x"], 2)
    return pair.y_of_x(np.concatenate([second, first]))


def _planes_of_mid(pair: Pair) -> Array:
    return pair.y_of_mid(np.roll(pair.right.mid, -C0, axis=1))


def _x_nhwc(pair: Pair) -> Array:
    nhwc = layout.nc1hwc0_to_nhwc(pair.tensors["x"], GEOMETRY.height, GEOMETRY.width)
    return pair.y_of_x(nhwc.reshape(-1, C0))


def _maps_reordered(to: Callable[[Array], Array]) -> Callable[[Pair], Array]:
    return lambda pair: pair.y_of_maps([to(image) for image in pair.maps_of_mid()])


def _nz_bytes_as_nd(image: Array) -> Array:
    return layout.nd_to_nz(image.reshape(-1, image.shape[2])).reshape(image.shape)


def _nd_bytes_as_nz(image: Array) -> Array:
    rows, channels = image.shape[0] * image.shape[1], image.shape[2]
    return layout.nz_to_nd(image.reshape(channels // C0, rows // 16, 16, C0)).reshape(image.shape)


def _y_reordered(to: Callable[[Array], Array]) -> Callable[[Pair], Array]:
    def build(pair: Pair) -> Array:
        tiles = pair.right.y.reshape(-1, 1, pair.plan.conv2.positions, GEOMETRY.cout)
        return np.concatenate([to(tile) for tile in tiles]).reshape(pair.right.y.shape)

    return build


def _halo_of_first_band(pair: Pair) -> Array:
    first, *others = pair.maps_of_mid()
    for image in others:
        image[:2] = first[:2]
    return pair.y_of_maps([first, *others])


def _mid_of_zeros(pair: Pair) -> Array:
    return pair.y_of_x(np.zeros_like(pair.tensors["x"]))


def _no_padding(side: str, bands: range) -> Callable[[Pair], Array]:
    def build(pair: Pair) -> Array:
        columns = []
        for number, (band, image) in enumerate(zip(pair.plan.bands, pair.maps_of_mid(), strict=True)):
            padded = np.pad(image, padding_of(band.mid.padding))
            pixels = image.reshape(-1, image.shape[2])
            top = band.mid.padding[0]
            rows, width = image.shape[:2]
            if number in bands and side == "left":
                for row in range(rows):
                    padded[top + row, 0] = pixels[(row * width - 1) % len(pixels)]
            if number in bands and side == "right":
                for row in range(rows):
                    padded[top + row, -1] = pixels[(row * width + width) % len(pixels)]
            if number in bands and side == "top":
                padded[0, 1:-1] = image[-1]
            if number in bands and side == "bottom":
                padded[-1, 1:-1] = image[0]
            columns.append(wanted(band, unfolded(padded, GEOMETRY.conv2)))
        return pair.y_of_columns(columns)

    return build


def _band_shifted(shift: int) -> Callable[[Pair], Array]:
    def build(pair: Pair) -> Array:
        rows = layout.nc1hwc0_to_nhwc(pair.tensors["x"], GEOMETRY.height, GEOMETRY.width)
        image = rows.reshape(GEOMETRY.height, GEOMETRY.width, -1)
        maps, bands = pair.maps_of_x(), pair.plan.bands
        for group in (range(1, len(bands) - 1), [len(bands) - 1]):
            starts = [bands[number].x.row + shift for number in group]
            if min(starts) >= 0 and max(starts) + bands[0].x.rows <= GEOMETRY.height:
                for number, start in zip(group, starts, strict=True):
                    maps[number] = image[start : start + bands[number].x.rows]
        mids = [pair.mid_of_map(band, image) for band, image in zip(bands, maps, strict=True)]
        return pair.y_of_maps(mids)

    return build


def _wrong_stride(pair: Pair) -> Array:
    mids = []
    for band, image in zip(pair.plan.bands, pair.maps_of_x(), strict=True):
        columns = unfolded(np.pad(image, padding_of(band.x.padding)), Conv(3, 1, 1))
        start = band.x.skip * GEOMETRY.mid_width
        sums = columns[start : start + band.mid.rows * GEOMETRY.mid_width] @ wide(pair.tensors["filter1"])
        acc1 = (sums + pair.tensors["bias1"]).astype(np.int32)
        mids.append(vreq8.requantise(acc1, pair.tables()[0]).reshape(band.mid.rows, GEOMETRY.mid_width, -1))
    return pair.y_of_maps(mids)


def _step_repeated(times: int) -> Callable[[Pair], Array]:
    def build(pair: Pair) -> Array:
        step = pair.plan.conv1.step
        x, filter1 = pair.tensors["x"], pair.tensors["filter1"]
        last = filter1.copy()
        last[:-step] = 0
        sums = sums_of_x(x, filter1) + (times - 1) * sums_of_x(x, last)
        return pair.y_of_acc1(sums + pair.tensors["bias1"])

    return build


def _acc_not_reset(pair: Pair) -> Array:
    acc2, size = pair.right.acc2.copy(), pair.plan.conv2.positions
    for band in pair.plan.bands:
        first, end = band.row * GEOMETRY.out_width, (band.row + band.rows) * GEOMETRY.out_width
        for tile in range(first + size, end, size):
            acc2[tile : tile + size] += acc2[tile - size : tile] - pair.tensors["bias2"]
    return vreq8.requantise(acc2, pair.tables()[1])


def _map_corrupted(pair: Pair) -> Array:
    maps = pair.maps_of_x()
    for image in maps:
        image[0, :16, :C0] = pair.tensors["filter1"][:16, :C0]
    mids = [pair.mid_of_map(band, image) for band, image in zip(pair.plan.bands, maps, strict=True)]
    return pair.y_of_maps(mids)


def _unwritten(pair: Pair) -> Array:
    y = pair.right.y.copy()
    y[-pair.plan.conv2.positions :] = SENTINEL
    return y


def _without_bias(pair: Pair) -> Array:
    return pair.y_of_acc1(pair.right.acc1 - pair.tensors["bias1"])


def _other_bias(pair: Pair) -> Array:
    acc2 = pair.right.acc2 - pair.tensors["bias2"] + pair.tensors["bias1"]
    return vreq8.requantise(acc2, pair.tables()[1])


FAULTY: dict[str, Callable[[Pair], Array]] = {
    **{f"{variant}-1": _variant_1(variant) for variant in ("offset-unsigned", "scale32", "scale19-rne")},
    **{f"{variant}-2": _variant_2(variant) for variant in ("offset-unsigned", "scale32", "scale19-rne")},
    "offset-unsigned": _variant_of_both("offset-unsigned"),
    "offset-sign-2": _offset_sign,
    "scale-ignored-1": _scale_ignored,
    "other-table-1": lambda pair: pair.y_of_acc1(pair.right.acc1, pair.tables()[1]),
    "other-table-2": lambda pair: vreq8.requantise(pair.right.acc2, pair.tables()[0]),
    "bias-missing-1": _without_bias,
    "other-bias-2": _other_bias,
    "no-saturation-2": _no_saturation,
    "unsigned-saturation-2": _unsigned,
    "per-row-scale-2": _per_row,
    "k-order-khkwc-2": _k_order((2, 3, 1, 0)),
    "k-order-ckhkw-2": _k_order((1, 2, 3, 0)),
    "planes-swapped-1": _planes_of_x,
    "planes-swapped-2": _planes_of_mid,
    "x-nhwc": _x_nhwc,
    "nz-as-nd-mid": _maps_reordered(_nz_bytes_as_nd),
    "nd-as-nz-mid": _maps_reordered(_nd_bytes_as_nz),
    "nz-as-nd-y": _y_reordered(_nz_bytes_as_nd),
    "nd-as-nz-y": _y_reordered(_nd_bytes_as_nz),
    "halo-stale": _halo_of_first_band,
    "mid-of-other-run": _mid_of_zeros,
    "no-padding-top-2-first": _no_padding("top", range(1)),
    "no-padding-bottom-2-last": _no_padding("bottom", range(3, 4)),
    "no-padding-left-2": _no_padding("left", range(4)),
    "no-padding-left-2-first": _no_padding("left", range(1)),
    "no-padding-right-2-interior": _no_padding("right", range(1, 3)),
    "no-padding-right-2-last": _no_padding("right", range(3, 4)),
    "band-up": _band_shifted(-1),
    "band-down": _band_shifted(1),
    "wrong-stride-1": _wrong_stride,
    "k-step-skipped-1": _step_repeated(0),
    "k-step-twice-1": _step_repeated(2),
    "acc-not-reset-2": _acc_not_reset,
    "map-corrupted": _map_corrupted,
    "unwritten": _unwritten,
}
"""Every family, made in the way that is furthest from how its hypothesis predicts it."""


@pytest.mark.parametrize("fault", FAULTY)
def test_a_fault_is_named_first_and_explains_every_element(
    fault: str, pair: Pair, evidence: Callable[..., Evidence]
) -> None:
    faulty = FAULTY[fault](pair)
    assert not np.array_equal(faulty, pair.right.y)
    finding = diagnose(evidence(faulty)).findings[0]
    assert fault in finding.hypotheses
    assert finding.score == 1
    assert finding.explained == finding.mismatches == np.count_nonzero(faulty != pair.right.y)
    assert finding.false_alarms == 0


@pytest.mark.parametrize(
    ("variant", "profile"),
    [
        ("round-then-add", "ties"),
        ("half-away", "ties"),
        *((variant, "near-ties") for variant in ("round-then-add", "half-away", "fma", "exact")),
    ],
)
def test_roundings_are_told_apart_where_data_lies_on_ties(variant: str, profile: str) -> None:
    tensors = conv_pair.WORKLOAD.definition.make(profile, GEOMETRY)
    right, faulty = right_of(tensors), right_of(tensors, variant)
    given = evidence_of(tensors, right.computed.outputs, form_of("fused"), "y", faulty.y, right.y)
    assert diagnose(given).findings[0].hypotheses == (variant,)
    assert diagnose(replace(given, actual=right.y)).findings == ()


def nearly_tied(tensors: Tensors, below: int) -> Tensors:
    """Tensors whose y is 4.5 + 3 * 2**-24 before it is rounded, in the first channels so much below 4.5.

    As an fp32 number that is 4.5, and becomes 4. Above 4.5 it is 5 if the sum is exact, if ties go away from
    zero, and if the product, more than a half, is rounded before 4 is added.
    """
    channels = len(tensors["offsets2"])
    bias = np.full((1, channels), 2**23 + 3, np.int32)
    bias[0, :below] -= 6
    return changed(
        tensors,
        filter2=np.zeros_like(tensors["filter2"]),
        bias2=bias,
        scales2=np.full(channels, 2.0**-24, np.float32),
        offsets2=np.full(channels, 4, np.int64),
    )


def of_tied(pair: Pair, below: int) -> Evidence:
    """An exact y of such tensors: 5, and 4 below the tie."""
    tensors = nearly_tied(pair.tensors, below)
    right = right_of(tensors)
    assert (right.y == 4).all()
    y = np.full_like(right.y, 5)
    y[:, :below] = 4
    return evidence_of(tensors, right.computed.outputs, form_of("fused"), "y", y, right.y)


def test_readings_that_the_data_does_not_tell_apart_are_named_together(pair: Pair) -> None:
    named = diagnose(of_tied(pair, 0)).findings[0].hypotheses
    assert set(named) == {"round-then-add-2", "half-away-2", "exact-2"}


def test_a_reading_is_told_from_its_neighbours_or_they_are_named_too(pair: Pair) -> None:
    given = of_tied(pair, 1)
    certain = diagnose(given)
    assert certain.findings[0].hypotheses == ("round-then-add-2", "exact-2")
    assert certain.line.startswith("round-then-add-2 or exact-2: ")
    damaged = given.actual.copy()
    damaged[3, 7] = -4
    likely = diagnose(replace(given, actual=damaged)).line
    assert likely.startswith("most likely round-then-add-2 or exact-2: ")
    assert likely.endswith("; nearly as likely: half-away-2")


def test_a_cause_is_not_certain_while_others_were_not_tried(pair: Pair) -> None:
    """All and the right one are tried at a few positions, six at more (three, and in both), one on all."""
    given, ticks = of_tied(pair, 0), count()
    tried = 1 + len(hypotheses(model_of(given, form_of("fused")))) + 6 + 1
    assert diagnose(given, seconds=tried, clock=lambda: next(ticks)).line.startswith(
        "most likely round-then-add-2: "
    )


def test_a_platform_that_does_not_differ_as_declared_is_said_to_follow_the_default(pair: Pair) -> None:
    declared = right_of(pair.tensors, "offset-unsigned")
    given = evidence_of(
        pair.tensors,
        declared.computed.outputs,
        form_of("fused"),
        "y",
        pair.right.y,
        declared.y,
        variant="offset-unsigned",
        sentinel=None,
    )
    diagnosis = diagnose(given)
    assert diagnosis.findings[0].hypotheses[0] == "vreq8"
    assert "step requant1 and requant2" in diagnosis.line


@pytest.mark.parametrize("program", ["fused", TWO_PASS, "pass2"])
def test_a_right_output_has_no_diagnosis(program: str, pair: Pair, evidence: Callable[..., Evidence]) -> None:
    diagnosis = diagnose(evidence(pair.right.y, program))
    assert (diagnosis.findings, diagnosis.line, diagnosis.text) == ((), "", "")


def test_mid_is_diagnosed_by_the_faults_of_conv1(pair: Pair, evidence: Callable[..., Evidence]) -> None:
    tensors = pair.tensors
    mid = vreq8.requantise(pair.right.acc1, vreq8.pack(tensors["scales1"], -tensors["offsets1"]))
    assert diagnose(evidence(mid, "pass1", "mid")).findings[0].hypotheses == ("offset-sign-1",)
    tile = mid[: pair.plan.conv1.positions]
    assert diagnose(evidence(tile, "first-tile-packed", "mid")).findings[0].hypotheses == ("offset-sign-1",)
    through = diagnose(evidence(pair.y_of_mid(mid), TWO_PASS))
    assert through.findings[0].hypotheses == ("offset-sign-1",)


def test_pass2_on_the_golden_mid_is_never_blamed_on_conv1(
    pair: Pair, evidence: Callable[..., Evidence]
) -> None:
    assert diagnose(evidence(FAULTY["bias-missing-1"](pair), "pass2")).findings == ()


def test_noise_is_unexplained(pair: Pair, evidence: Callable[..., Evidence]) -> None:
    noise = np.random.default_rng(1).integers(-128, 128, pair.right.y.shape).astype(np.int8)
    diagnosis = diagnose(evidence(noise))
    assert diagnosis.findings == ()
    assert diagnosis.line.startswith("cause unknown: none of ")


def test_one_flipped_element_is_unexplained(pair: Pair, evidence: Callable[..., Evidence]) -> None:
    y = pair.right.y.copy()
    y[77, 5] ^= 64
    assert diagnose(evidence(y)).findings == ()


def test_a_fault_in_one_half_only_is_not_called_the_fault(
    pair: Pair, evidence: Callable[..., Evidence]
) -> None:
    y = FAULTY["offset-sign-2"](pair)
    y[: len(y) // 2] = pair.right.y[: len(y) // 2]
    assert diagnose(evidence(y)).findings == ()


def test_a_fault_beside_a_little_damage_is_most_likely_and_says_how_much_it_explains(
    pair: Pair, evidence: Callable[..., Evidence]
) -> None:
    y = FAULTY["offset-sign-2"](pair)
    y[10:20] = 0
    diagnosis = diagnose(evidence(y))
    finding = diagnosis.findings[0]
    assert finding.hypotheses == ("offset-sign-2",)
    assert 0.9 <= finding.score < 1
    assert diagnosis.line.startswith("most likely offset-sign-2: ")
    assert f"explains {finding.explained} of {finding.mismatches} mismatches" in diagnosis.text


def test_faults_that_predict_the_same_output_are_one_finding(pair: Pair) -> None:
    tensors = changed(
        pair.tensors,
        offsets2=pair.tensors["offsets1"],
        scales2=pair.tensors["scales1"],
        bias1=np.zeros_like(pair.tensors["bias1"]),
        bias2=np.full_like(pair.tensors["bias2"], 999),
    )
    right = right_of(tensors)
    faulty = vreq8.requantise(right.acc2 - 999, tensors.table("scale2", "vreq8"))
    given = evidence_of(
        tensors, right.computed.outputs, form_of("fused"), "y", faulty, right.y, sentinel=None
    )
    assert diagnose(given).findings[0].hypotheses == ("bias-missing-2", "other-bias-2")


RIGHT_PROGRAM = "the program is right: toolchain or device; "
"""What a proof leaves."""

WRONG_PLANS: dict[str, Callable[[Band], Band]] = {
    "x: a row early": lambda band: _with_x(band, row=max(0, band.x.row - 1)),
    "x: a row short": lambda band: _with_x(
        band, rows=band.x.rows - 1, padding=(band.x.padding[0], band.x.padding[1] + 1, 1, 1)
    ),
    "x: left padding one more, right one less": lambda band: _with_x(
        band, padding=(*band.x.padding[:2], 2, 0)
    ),
    "x: padding above in every band": lambda band: _with_x(band, padding=(1, *band.x.padding[1:])),
    "mid: first wanted row one early": lambda band: _with_mid(band, skip=max(0, band.mid.skip - 1)),
    "mid: left padding one more, right one less": lambda band: _with_mid(
        band, padding=(*band.mid.padding[:2], 2, 0)
    ),
    "mid: padding above in every band": lambda band: _with_mid(band, padding=(1, 0, 1, 1)),
}
"""Mistakes of a plan that nothing refuses: every layer that is made from it has them too."""


def _with_x(band: Band, **changes: Any) -> Band:
    return replace(band, x=replace(band.x, **changes))


def _with_mid(band: Band, **changes: Any) -> Band:
    return replace(band, mid=replace(band.mid, **changes))


@pytest.mark.parametrize("name", WRONG_PLANS)
def test_a_wrong_plan_is_not_taken_for_a_known_fault(name: str, pair: Pair) -> None:
    plan = replace(pair.plan, bands=tuple(map(WRONG_PLANS[name], pair.plan.bands)))
    wrong = replace(pair, plan=plan)
    maps = [wrong.mid_of_map(*item) for item in zip(plan.bands, wrong.maps_of_x(), strict=True)]
    y = wrong.y_of_maps(maps)
    assert (y != pair.right.y).any()
    described = SUBJECT.program("fused").form
    assert described is not None
    outputs = pair.right.computed.outputs
    given = evidence_of(pair.tensors, outputs, described(GEOMETRY, plan), "y", y, pair.right.y)
    diagnosis = diagnose(given)
    assert diagnosis.findings == ()
    assert diagnosis.line.startswith("cause unknown: the plan itself predicts this output, ")
    proved = diagnose(given, elsewhere=RIGHT_PROGRAM).line
    assert proved.startswith("the program is right: the plan itself predicts this output, ")


@pytest.mark.parametrize("fault", ["k-step-skipped-1", "no-padding-left-2", "planes-swapped-2"])
def test_a_program_that_is_proved_is_not_called_what_its_output_looks_like(
    fault: str, pair: Pair, evidence: Callable[..., Evidence]
) -> None:
    diagnosis = diagnose(evidence(FAULTY[fault](pair)), elsewhere=RIGHT_PROGRAM)
    assert diagnosis.findings == ()
    assert diagnosis.line.startswith(f"{RIGHT_PROGRAM}the output looks like {fault}: ")
    assert f"1. {fault}" in diagnosis.text


@pytest.mark.parametrize("fault", ["offset-sign-2", "x-nhwc", "unwritten", "bias-missing-1"])
def test_of_a_program_that_is_proved_arithmetic_and_what_the_host_does_are_named(
    fault: str, pair: Pair, evidence: Callable[..., Evidence]
) -> None:
    given = evidence(FAULTY[fault](pair))
    assert diagnose(given, elsewhere=RIGHT_PROGRAM) == diagnose(given)


def test_noise_is_not_the_programs_that_is_proved(pair: Pair, evidence: Callable[..., Evidence]) -> None:
    y = pair.right.y.copy()
    y[77, 5] ^= 64
    line = diagnose(evidence(y), elsewhere=RIGHT_PROGRAM).line
    assert line.startswith(f"{RIGHT_PROGRAM}none of ")
    assert diagnose(replace(evidence(y), form=None), elsewhere=RIGHT_PROGRAM).line.startswith(RIGHT_PROGRAM)


def test_a_fault_is_told_of_the_tensor_that_it_is_in(pair: Pair, evidence: Callable[..., Evidence]) -> None:
    mid = pair.right.mid.copy()
    mid[-pair.plan.conv1.positions :] = SENTINEL
    told = diagnose(evidence(mid, "pass1", "mid")).line
    assert told == "unwritten: the last ACC tile of mid never reaches GM; step store"
    known = hypotheses(model_of(evidence(pair.right.y, "pass2"), form_of("pass2")))
    (up,) = (one for one in known if one.name == "band-up")
    assert up.what.startswith("all bands except the first read their mid rows ")


def test_an_output_of_another_form_is_not_compared(pair: Pair, evidence: Callable[..., Evidence]) -> None:
    for actual in (pair.right.y[:-1], pair.right.y.astype(np.int16)):
        diagnosis = diagnose(evidence(actual))
        assert diagnosis.findings == ()
        assert diagnosis.line == "cause unknown: the output does not have the shape and dtype of the golden"


def test_without_a_plan_bands_are_not_doubted_and_the_rest_is_diagnosed(
    pair: Pair, evidence: Callable[..., Evidence]
) -> None:
    given = replace(evidence(FAULTY["offset-sign-2"](pair)), form=form_of("fused", planned=False))
    assert diagnose(given).findings[0].hypotheses == ("offset-sign-2",)


def test_a_program_whose_form_is_not_described_is_said_to_be_so(
    pair: Pair, evidence: Callable[..., Evidence]
) -> None:
    given = replace(evidence(FAULTY["offset-sign-2"](pair)), form=None)
    said = "cause unknown: this program has no form (docs/workloads.md), so that no known fault was tried"
    assert (diagnose(given).findings, diagnose(given).line, diagnose(given).text) == ((), said, said)
    right = diagnose(replace(given, actual=pair.right.y))
    assert (right.findings, right.line, right.text) == ((), "", "")


def test_an_int32_output_is_held_against_its_golden_and_said_to_have_no_form() -> None:
    geometry = GemmGeometry(32, 64, 32)
    definition = gemm.WORKLOAD.definition
    tensors = definition.make("extremes", geometry)
    outputs = definition.compute(geometry, tensors, "vreq8")
    subject = Subject(gemm.WORKLOAD, geometry, "a2a3")
    wrong = outputs["c"].copy()
    wrong[3, 5] += 2**20
    given = Evidence(
        subject.form("gemm"), subject.frame("c"), tensors, outputs, "vreq8", "c", wrong, outputs["c"]
    )
    assert np.argwhere(given.wrong).tolist() == [[3, 5]]
    assert diagnose(given).line.startswith("cause unknown: this program has no form (docs/workloads.md)")
    assert diagnose(replace(given, actual=outputs["c"])).line == ""


def test_when_time_is_up_it_says_so_instead_of_unexplained(
    pair: Pair, evidence: Callable[..., Evidence]
) -> None:
    ticks: Iterator[int] = count()
    diagnosis = diagnose(evidence(FAULTY["unwritten"](pair)), seconds=5, clock=lambda: next(ticks))
    assert diagnosis.findings == ()
    assert diagnosis.line.startswith("cause unknown: time ran out with ")
