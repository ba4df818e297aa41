from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks.mutants.catalogue.cases import pair_tiling
from golden.chain import Computed, compute
from golden.conv_pair import layers
from golden.geometry import Conv, GemmGeometry, Geometry
from golden.specs import Tensors
from pipeline.diff.compare import compare
from pipeline.diff.data import Examined, examine, gathering
from pipeline.diff.evidence import Evidence
from pipeline.ground.subject import Subject
from workloads import conv_pair, gemm

pytestmark = pytest.mark.usefixtures("torch_installed")

SENTINEL = -86
GEOMETRY = Geometry(24, 32, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1))
BAND_ROWS, WIDTH, ROWS = 4, 16, 12

Int8 = npt.NDArray[np.int8]
Look = Callable[..., Examined]


@pytest.fixture(scope="module", params=["ties", "full-range"])
def tensors(request: pytest.FixtureRequest) -> Tensors:
    return conv_pair.WORKLOAD.definition.make(request.param, GEOMETRY)


@pytest.fixture(scope="module")
def golden(tensors: Tensors) -> Computed:
    return compute(layers(GEOMETRY), tensors)


@pytest.fixture(scope="module")
def look(tensors: Tensors, golden: Computed) -> Look:
    """Examine a wrong y, or another output of another program."""

    subject = Subject(conv_pair.WORKLOAD, GEOMETRY, "a2a3", pair_tiling(BAND_ROWS))

    def examined(
        actual: Int8, program: str = "fused", tensor: str = "y", *, described: bool = True
    ) -> Examined:
        form = subject.form(program) if described else None
        frame, outputs = subject.frame(tensor), golden.outputs
        assert (frame.columns, frame.band_rows) == (WIDTH, BAND_ROWS)
        expected = outputs[tensor][: len(actual)]
        evidence = Evidence(form, frame, tensors, outputs, "vreq8", tensor, actual, expected, SENTINEL)
        diff = compare(tensor, actual, expected, width=WIDTH, band_rows=BAND_ROWS, sentinel=SENTINEL)
        return examine(evidence, diff)

    return examined


def wrong_at(y: Int8, *places: tuple[int, int, int]) -> Int8:
    """y with one wrong bit at each (row, column, channel)."""
    actual = y.copy()
    for row, column, channel in places:
        actual[row * WIDTH + column, channel] ^= 1
    return actual


def names(examined: Examined, division: str) -> list[tuple[str, int, int]]:
    return [(each.name, each.count, each.mismatches) for each in examined.data.divisions[division].wrong]


def test_a_mismatch_is_found_in_every_division(look: Look, golden: Computed) -> None:
    examined = look(wrong_at(golden.outputs["y"], (5, 3, 40)))
    assert names(examined, "band") == [("band 1 (interior) rows 4..7", BAND_ROWS * WIDTH * 64, 1)]
    assert names(examined, "row") == [("row 5", WIDTH * 64, 1)]
    assert names(examined, "column") == [("column 3", ROWS * 64, 1)]
    assert names(examined, "channel") == [("channel 40", ROWS * WIDTH, 1)]
    assert names(examined, "C1 plane") == [("channels 32..63", ROWS * WIDTH * 32, 1)]
    assert names(examined, "fractal") == [("positions 80..95, channels 32..63", 16 * 32, 1)]
    assert names(examined, "edge") == [("interior", (ROWS - 2) * (WIDTH - 2) * 64, 1)]
    # A band has 4 rows of 16 positions; each row is an ACC tile.
    assert names(examined, "ACC tile") == [("ACC tiles between", 3 * 2 * WIDTH * 64, 1)]


@pytest.mark.parametrize(
    ("place", "edge"),
    [
        ((0, 1, 0), "top edge"),
        ((11, 1, 0), "bottom edge"),
        ((1, 0, 0), "left edge"),
        ((1, 15, 0), "right edge"),
        ((11, 15, 0), "corners"),
    ],
)
def test_each_edge_has_its_name(place: tuple[int, int, int], edge: str, look: Look, golden: Computed) -> None:
    ((name, _, mismatches),) = names(look(wrong_at(golden.outputs["y"], place)), "edge")
    assert (name, mismatches) == (edge, 1)


def test_tiles_are_counted_within_their_band(look: Look, golden: Computed) -> None:
    examined = look(wrong_at(golden.outputs["y"], (4, 0, 0), (8, 0, 0), (7, 0, 0)))
    assert names(examined, "ACC tile") == [
        ("first ACC tiles of bands", 3 * WIDTH * 64, 2),
        ("last ACC tiles of bands", 3 * WIDTH * 64, 1),
    ]


def test_a_first_tile_is_the_only_one(look: Look, golden: Computed) -> None:
    tile = golden.outputs["mid"][:WIDTH].copy()
    tile[3, 3] ^= 1
    examined = look(tile, "first-tile-load", "mid")
    assert names(examined, "ACC tile") == [("only ACC tiles of bands", WIDTH * 64, 1)]
    assert examined.data.divisions["row"].regions == 1


def test_ties_and_saturation_are_those_of_the_golden(look: Look, golden: Computed, tensors: Tensors) -> None:
    """Computed here in double, which holds every product of a 24-bit sum and a scale of 11 bits."""
    for actual, acc, scales, offsets, how in (
        (golden.outputs["y"] ^ 1, golden.sums["y"], tensors["scales2"], tensors["offsets2"], ("fused", "y")),
        (
            golden.outputs["mid"] ^ 1,
            golden.sums["mid"],
            tensors["scales1"],
            tensors["offsets1"],
            ("pass1", "mid"),
        ),
    ):
        assert np.abs(acc).max() < 2**24
        float19 = (scales.view(np.uint32) & 0xFFFFE000).view(np.float32)
        exact = (acc * float19.astype(np.float64) + offsets).astype(np.float32)
        examined = look(actual, *how)
        assert np.array_equal(examined.arrays["tie"], exact % 1 == 0.5)
        # rne takes 127.5 up to 128 and -128.5 to -128.
        saturated = (exact >= 127.5) | (exact < -128.5)
        assert np.array_equal(examined.arrays["saturated"], saturated)
        found = {name: count for name, count, _ in names(examined, "rounding")}
        assert found.get("ties", 0) == np.count_nonzero(exact % 1 == 0.5)
        negative = [count for name, count, _ in names(examined, "offset") if name == "negative offsets"]
        assert sum(negative) == np.count_nonzero(offsets < 0) * len(acc)


def test_the_histogram_holds_every_difference(look: Look, golden: Computed) -> None:
    random = np.random.default_rng(1).integers(-128, 128, golden.outputs["y"].shape).astype(np.int8)
    examined = look(random)
    difference = random.astype(int) - golden.outputs["y"]
    for value, count in examined.data.histogram:
        assert np.count_nonzero(difference == value) == count
    assert sum(count for _, count in examined.data.histogram) == examined.data.mismatches
    assert np.array_equal(examined.arrays["difference"], difference)
    for division in examined.data.divisions.values():
        assert sum(region.mismatches for region in division.wrong) == examined.data.mismatches


def test_what_was_never_written_is_a_mask(look: Look, golden: Computed) -> None:
    actual = golden.outputs["y"].copy()
    actual[40:50] = SENTINEL
    actual[60, :32] = SENTINEL
    actual[70, :31] = SENTINEL
    examined = look(actual)
    mask = np.zeros(golden.outputs["y"].shape, bool)
    mask[40:50] = golden.outputs["y"][40:50] != SENTINEL
    mask[60, :32] = golden.outputs["y"][60, :32] != SENTINEL
    assert np.array_equal(examined.arrays["unwritten"], mask)
    assert examined.data.unwritten == np.count_nonzero(mask)


def test_what_all_mismatches_share_is_said_where_most_elements_do_not(look: Look, golden: Computed) -> None:
    said = gathering(look(wrong_at(golden.outputs["y"], (0, 3, 40), (0, 5, 33))).data)
    assert said.startswith("all mismatches lie in: channels 32..63; top edge; first ACC tiles of bands")
    everywhere = gathering(look(golden.outputs["y"] ^ 1).data)
    assert everywhere == ""


def test_without_a_form_the_difference_is_divided_by_place_alone(look: Look, golden: Computed) -> None:
    actual = wrong_at(golden.outputs["y"], (5, 3, 40))
    actual[40:50] = SENTINEL
    known, unknown = look(actual), look(actual, described=False)
    of_the_form = {"ACC tile", "rounding", "saturation", "offset"}
    assert set(known.data.divisions) - set(unknown.data.divisions) == of_the_form
    by_place = {name: each for name, each in known.data.divisions.items() if name not in of_the_form}
    assert unknown.data == replace(known.data, divisions=by_place, facts=unknown.data.facts)
    assert set(unknown.arrays) == {"difference", "expected", "unwritten"}
    for name, array in unknown.arrays.items():
        assert np.array_equal(array, known.arrays[name])


def examined_product(*places: tuple[int, int], sentinel: int | None = None) -> Examined:
    """An int32 output with the largest difference at each (row, column)."""
    geometry = GemmGeometry(32, 64, 96)
    definition, subject = gemm.WORKLOAD.definition, Subject(gemm.WORKLOAD, geometry, "a2a3")
    tensors = definition.make("full-range@7", geometry)
    outputs = definition.compute(geometry, tensors, "vreq8")
    actual, frame = outputs["c"].copy(), subject.frame("c")
    for row, column in places:
        outputs["c"][row, column], actual[row, column] = -(2**31), 2**31 - 1
    evidence = Evidence(subject.form("gemm"), frame, tensors, outputs, "vreq8", "c", actual, outputs["c"])
    diff = compare(
        "c",
        actual,
        outputs["c"],
        width=frame.columns,
        band_rows=frame.band_rows,
        sentinel=sentinel,
    )
    return examine(evidence, diff)


def test_a_matrix_has_rows_and_columns_and_no_channels_nor_edges() -> None:
    examined = examined_product((5, 40))
    assert examined.data.width == 1
    assert names(examined, "row") == [("row 5", 96, 1)]
    assert names(examined, "column") == [("column 40", 32, 1)]
    assert names(examined, "column block") == [("columns 32..63", 32 * 32, 1)]
    assert names(examined, "fractal") == [("rows 0..15, columns 32..63", 16 * 32, 1)]
    assert not {"channel", "C1 plane", "edge", "ACC tile", "rounding"} & set(examined.data.divisions)
    assert gathering(examined.data) == "all mismatches lie in: columns 32..63"


def test_differences_of_int32_are_kept_whole() -> None:
    examined = examined_product((5, 40), (6, 1))
    assert examined.data.histogram == ((2**32 - 1, 2),)
    assert examined.data.max_abs == 2**32 - 1
    assert examined.arrays["difference"].dtype == np.int64
    assert examined.arrays["difference"][6, 1] == 2**32 - 1
