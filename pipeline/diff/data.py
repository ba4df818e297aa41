"""The difference as data: where mismatches lie, by every division of an output that a cause could follow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from golden import vreq8
from golden.geometry import C0
from golden.layout import FRACTAL_ROWS
from pipeline.diff.compare import crcs, regions, untouched
from pipeline.diff.evidence import Evidence
from pipeline.diff.facts import Output, facts_of
from pipeline.diff.hypotheses.layers import Ints, Layer
from pipeline.diff.hypotheses.model import model_of
from pipeline.ground.results import Diff, Region

_EDGES = ("interior", "top edge", "bottom edge", "left edge", "right edge", "corners")
_TILES = (
    "first ACC tiles of bands",
    "ACC tiles between",
    "last ACC tiles of bands",
    "only ACC tiles of bands",
)
_ROUNDING = ("not halfway between integers", "ties")
_SATURATION = ("what does not saturate", "what saturates at -128", "what saturates at 127")
_OFFSETS = ("offsets of at least 0", "negative offsets")

_TELLING = ("C1 plane", "column block", "edge", "ACC tile", "saturation", "offset")
"""Divisions whose wrong region is reported if there is only one."""

_Labels = tuple[str, Sequence[str], Ints]
"""A division: its name, its regions' names, and the region of every element (or broadcast to that)."""


@dataclass(frozen=True)
class Division:
    """An output cut into regions: the number of regions with elements, and the regions with mismatches."""

    regions: int
    wrong: tuple[Region, ...]


@dataclass(frozen=True)
class DiffData:
    """All that `diff.json` says of an output [positions, channels] that differs.

    Attributes:
        tensor, against, count, mismatches, max_abs, unwritten, facts: as in `pipeline.ground.results.Diff`.
        width: pixels in an image row: a position is row * width + column; 1 where the output is a matrix.
        channels: of a position; of a matrix its columns.
        histogram: every value of actual - expected that is not 0, with its count.
        divisions: by band, row, column, channel, C1 plane, fractal (16 positions x 32 channels) and edge; of
            a matrix by band, row, column, column block (32 columns) and fractal (16 rows x 32 columns);
            where the form of the program is known also by ACC tile, and by what the golden's requantisation
            does there: rounding, saturation, offset.
    """

    tensor: str
    against: str
    width: int
    channels: int
    count: int
    mismatches: int
    max_abs: int
    unwritten: int
    facts: tuple[str, ...]
    histogram: tuple[tuple[int, int], ...]
    divisions: Mapping[str, Division]


@dataclass(frozen=True, eq=False)
class Examined:
    """A difference in full: facts, and matrices [positions, channels] for `diff.npz`.

    `arrays` holds `difference` (actual - expected: int16 of an int8 output, else int64), `expected`, and bool
    masks of the elements: `unwritten`; where the form of the program is known also `tie` (the golden's value
    is halfway before rounding) and `saturated`. `diff` is what was examined, with its tiles and facts.
    """

    data: DiffData
    arrays: Mapping[str, Any]
    diff: Diff


def examine(evidence: Evidence, diff: Diff, profile: str = "") -> Examined:
    """Examine a difference.

    Args:
        evidence: the output and what it was made from.
        diff: the result of comparing it; the two can be compared, and differ.
        profile: whose golden the output is, if it is that of another profile.
    """
    actual, expected = evidence.actual, evidence.expected
    difference = actual.astype(np.int64) - expected
    wrong, values = evidence.wrong, difference[evidence.wrong]
    width = evidence.frame.columns
    labels_of = [*_by_place(width, wrong)]
    arrays: dict[str, Any] = {}
    output = Output(actual, expected, width, untouched(actual, evidence.sentinel), profile=profile)
    tiles: tuple[Region, ...] = ()
    tile_crcs: tuple[int, ...] = ()
    if evidence.form is not None:
        layer, positions = model_of(evidence, evidence.form).last, np.arange(len(wrong))
        sums = layer.sums(layer.held, layer.windows(positions))
        unrounded = vreq8.unrounded(sums + layer.bias, layer.scale, layer.offsets, layer.variant)
        channels = slice(wrong.shape[1])  # a layer may have more than the workload
        tie, rounded = _halfway(unrounded)[:, channels], layer.rounded(sums)[:, channels]
        saturation = np.select([rounded < -128, rounded > 127], [1, 2])
        labels_of += [
            ("ACC tile", _TILES, _places_of_tiles(layer, positions)[:, None]),
            ("rounding", _ROUNDING, tie.astype(np.int64)),
            ("saturation", _SATURATION, saturation),
            ("offset", _OFFSETS, (layer.offsets[channels] < 0).astype(np.int64)),
        ]
        arrays = {"tie": tie, "saturated": saturation > 0}
        output = replace(output, ties=tie, tiles=layer.tiles(positions))
        tiles, tile_crcs = _each_tile(output, values)
    across = "column" if diff.matrix else "channel"
    found = {"band": _known(diff.bands), across: _known(diff.channels)}
    for name, names, labels in labels_of:
        found[name] = _division(names, np.broadcast_to(labels, wrong.shape), wrong, values)
    numbers, counts = np.unique(values, return_counts=True)
    data = DiffData(
        tensor=diff.tensor,
        against=diff.against,
        width=width,
        channels=wrong.shape[1],
        count=diff.count,
        mismatches=diff.mismatches,
        max_abs=diff.max_abs,
        unwritten=diff.unwritten,
        facts=facts_of(output),
        histogram=tuple(zip(numbers.tolist(), counts.tolist(), strict=True)),
        divisions=found,
    )
    narrow = difference.astype(np.int16 if expected.dtype == np.int8 else np.int64)
    arrays = {"difference": narrow, "expected": expected, **arrays, "unwritten": wrong & output.unwritten}
    seen = replace(diff, tiles=tiles, crcs=diff.crcs + tile_crcs, facts=data.facts)
    return Examined(data, arrays, seen)


def _each_tile(output: Output, values: Ints) -> tuple[tuple[Region, ...], tuple[int, ...]]:
    """Every ACC tile of an output whose wrong elements differ by `values`, and their checksums."""
    assert output.tiles is not None
    positions = np.bincount(output.tiles)
    found = regions(
        (f"ACC tile {number}" for number in range(len(positions))),
        positions * output.actual.shape[1],
        np.broadcast_to(output.tiles[:, None], output.wrong.shape)[output.wrong],
        values,
    )
    return found, crcs(np.split(output.actual, np.cumsum(positions)[:-1]))


def gathering(data: DiffData) -> str:
    """The regions, besides band and channel, that hold every mismatch but at most half of the elements."""
    alone = [data.divisions[name] for name in _TELLING if name in data.divisions]
    shared = [division.wrong[0] for division in alone if len(division.wrong) == 1]
    telling = [region.name for region in shared if 2 * region.count <= data.count]
    return f"all mismatches lie in: {'; '.join(telling)}" if telling else ""


def _halfway(values: vreq8.Floats) -> npt.NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):  # infinities are not halfway
        halfway: npt.NDArray[np.bool_] = np.abs(values - np.trunc(values)) == 0.5
    return halfway


def _by_place(width: int, wrong: npt.NDArray[np.bool_]) -> Iterator[_Labels]:
    positions, channels = wrong.shape
    matrix = width == 1
    down, across = ("rows", "columns") if matrix else ("positions", "channels")
    position, channel = np.arange(positions)[:, None], np.arange(channels)[None, :]
    row, column = position // width, position % width
    rows, planes = -(-positions // width), -(-channels // C0)
    plane_names = [f"{across} {C0 * plane}..{C0 * plane + C0 - 1}" for plane in range(planes)]
    fractal_rows = range(0, positions, FRACTAL_ROWS)
    yield "row", [f"row {number}" for number in range(rows)], row
    yield "column block" if matrix else "C1 plane", plane_names, channel // C0
    yield (
        "fractal",
        [
            f"{down} {first}..{min(first + FRACTAL_ROWS, positions) - 1}, {plane}"
            for first in fractal_rows
            for plane in plane_names
        ],
        position // FRACTAL_ROWS * planes + channel // C0,
    )
    if matrix:
        return
    yield "column", [f"column {number}" for number in range(width)], column
    sides = [row == 0, row == rows - 1, column == 0, column == width - 1]
    corner = (sides[0] | sides[1]) & (sides[2] | sides[3])
    yield "edge", _EDGES, np.select([corner, *sides], [5, 1, 2, 3, 4])


def _places_of_tiles(layer: Layer, position: Ints) -> Ints:
    """Which of `_TILES` each position is in."""
    part, within = layer.split(position)
    tile = within // layer.form.tile.positions
    last = ((np.diff(layer.start) - 1) // layer.form.tile.positions)[part]
    return np.select([last == 0, tile == 0, tile == last], [3, 0, 2], default=1)


def _known(found: Sequence[Region]) -> Division:
    return Division(len(found), tuple(region for region in found if region.mismatches))


def _division(names: Sequence[str], labels: Ints, wrong: npt.NDArray[np.bool_], values: Ints) -> Division:
    counts = np.bincount(labels.ravel(), minlength=len(names))
    found = regions(iter(names), counts, labels[wrong], values)
    return _known([region for region in found if region.count])
