"""What is said of wrong outputs that no known fault explains: each fact where it holds, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pipeline.diff.facts import Output, facts_of, single_value

ROWS, COLUMNS, CHANNELS, TILE = 12, 8, 64, 16
SHAPE = (ROWS, COLUMNS, CHANNELS)
SENTINEL = -86
BORDER = np.ones((ROWS, COLUMNS), bool)
BORDER[1:-1, 1:-1] = False

Array = npt.NDArray[Any]


@pytest.fixture(scope="module")
def golden() -> Array:
    return np.random.default_rng(7).integers(-80, 80, SHAPE).astype(np.int8)


def facts(actual: Array, expected: Array, **known: Any) -> tuple[str, ...]:
    rows = [array.reshape(-1, CHANNELS) for array in (actual, expected)]
    tiles = np.arange(ROWS * COLUMNS) // TILE
    unwritten = rows[0] == SENTINEL
    return facts_of(replace(Output(*rows, COLUMNS, unwritten, tiles), **known))


def changed(golden: Array, change: Callable[[Array], object]) -> Array:
    actual = golden.copy()
    change(actual)
    return actual


def put(*place: Any, value: int = 0) -> Callable[[Array], object]:
    return lambda array: array.__setitem__(place, value)


def tiles_put(value: int) -> Callable[[Array], object]:
    return lambda array: array.reshape(-1, TILE, CHANNELS).__setitem__(slice(1, None, 2), value)


ALL = slice(None)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (put(...), ("every wrong element is 0",)),
        (put(..., value=3), ("every wrong element is 3",)),
        (put(..., slice(32)), ("every wrong element is 0",)),
        (tiles_put(0), ("every wrong element is 0", "only in ACC tiles 1, 3, 5 of 6")),
        (put(BORDER), ("every wrong element is 0", "only the image's border is wrong")),
        (put(..., slice(32), value=SENTINEL), ("unwritten: channels 0..31",)),
        (tiles_put(SENTINEL), ("unwritten: ACC tiles 1, 3, 5 of 6",)),
        (put(slice(10, None), value=SENTINEL), ("unwritten: ACC tile 5 of 6",)),
        (
            put(slice(10, None), ALL, slice(32), value=SENTINEL),
            ("unwritten: channels 0..31 of ACC tile 5 of 6",),
        ),
        (put(..., value=SENTINEL), ("unwritten: all of it",)),
        (put(3, 3, 7), ()),
    ],
)
def test_a_part_that_is_wrong_in_one_way(
    change: Callable[[Array], object], told: tuple[str, ...], golden: Array
) -> None:
    assert facts(changed(golden, change), golden) == told


@pytest.mark.parametrize(
    ("axis", "distance", "told"),
    [
        (0, 1, "it is the golden moved by +1 row"),
        (0, -2, "it is the golden moved by -2 rows"),
        (1, 1, "it is the golden moved by +1 column"),
        (2, -16, "it is the golden moved by -16 channels"),
    ],
)
@pytest.mark.parametrize("zeros", [False, True])
def test_the_golden_moved_by_some_places(
    axis: int, distance: int, zeros: bool, told: str, golden: Array
) -> None:
    actual = np.roll(golden, distance, axis)
    if zeros:
        new = slice(distance) if distance > 0 else slice(distance, None)
        actual[(ALL,) * axis + (new,)] = 0
    assert facts(actual, golden) == (told,)


def test_an_output_that_is_shifted_in_memory(golden: Array) -> None:
    assert facts(np.roll(golden.reshape(-1), 1), golden) == ("it is the golden moved by +1 channel",)
    shifted = np.roll(golden.reshape(-1, CHANNELS), 1, axis=0)
    assert facts(shifted, golden) == ("it is the golden moved by +1 column",)


def test_a_few_elements_that_fit_a_shift_are_none(golden: Array) -> None:
    actual = golden.copy()
    actual[5:7] = golden[4:6]
    assert not any("moved" in fact for fact in facts(actual, golden))


def test_another_order_of_the_bytes(golden: Array) -> None:
    for axes, order in [((2, 0, 1), "channel, row, column"), ((1, 0, 2), "column, row, channel")]:
        actual = golden.transpose(axes)
        assert facts(actual.copy(), golden) == (f"it is the golden in the order {order}",)
    planes = golden.reshape(ROWS, COLUMNS, 2, 32).transpose(2, 0, 1, 3)
    assert facts(planes.copy(), golden) == ("it is the golden in the order C1 plane, row, column, C0",)


def test_a_matrix_is_told_by_rows_and_columns() -> None:
    golden = np.random.default_rng(1).integers(-999, 999, (64, 64)).astype(np.int32)

    def of(actual: Array, unwritten: Array | None = None) -> tuple[str, ...]:
        nothing = np.zeros(golden.shape, bool)
        return facts_of(Output(actual, golden, 1, nothing if unwritten is None else unwritten))

    assert of(golden.T.copy()) == ("it is the golden, transposed",)
    assert of(np.roll(golden, 1, axis=1)) == ("it is the golden moved by +1 column",)
    assert of(np.zeros_like(golden)) == ("every wrong element is 0",)
    last = np.zeros(golden.shape, bool)
    last[63] = True
    assert of(np.where(last, -1, golden), last) == ("unwritten: rows 63",)


def test_ties_that_are_wrong_by_one(golden: Array) -> None:
    ties = np.random.default_rng(3).random((ROWS * COLUMNS, CHANNELS)) < 0.7
    wrong = ties & (np.random.default_rng(4).random(ties.shape) < 0.5)
    rows = golden.reshape(ties.shape)
    told = f"only ties are wrong: {wrong.sum()} of {ties.sum()}"
    assert facts(rows + wrong, golden, ties=ties) == (told,)
    assert facts(rows + wrong, golden, ties=np.ones_like(ties)) == (), "trivial"
    one_more = wrong.copy()
    one_more[tuple(np.argwhere(~ties)[0])] = True
    assert facts(rows + one_more, golden, ties=ties) == ()
    assert facts(rows + 3 * wrong, golden, ties=ties) == (), "no rounding is off by 3"


def test_what_could_not_be_elsewhere_is_no_surprise() -> None:
    """The golden is 0 but on the border: zeros can be wrong there alone."""
    golden = np.zeros(SHAPE, np.int8)
    golden[BORDER] = np.random.default_rng(5).integers(1, 9, golden[BORDER].shape)
    assert facts(np.zeros_like(golden), golden) == ("every wrong element is 0",)


def test_the_output_of_another_profile_is_named(golden: Array) -> None:
    other = np.random.default_rng(8).integers(-80, 80, SHAPE).astype(np.int8)
    assert facts(other, golden) == ()
    assert facts(other, golden, profile="y of small (vreq8)") == ("it is the golden: y of small (vreq8)",)


def test_the_single_value_of_wrong_elements() -> None:
    golden = np.array([[1, 2, 3, 0]], np.int8)
    assert single_value(np.array([[0, 0, 3, 0]], np.int8), golden) == 0
    assert single_value(np.array([[0, 5, 3, 0]], np.int8), golden) is None
    assert single_value(np.array([[0, 2, 3, 0]], np.int8), golden) is None, "one element has one value"
    assert single_value(golden, golden) is None
