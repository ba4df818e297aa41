"""How a program cuts the images that it computes, as its report tells it: bands, what they read, tiles."""

from __future__ import annotations

import msgspec

from pipeline.ground.subject import Subject
from workloads.base import WorkloadError
from workloads.form import Convolution


class Band(msgspec.Struct, frozen=True):
    """A band of `rows` output rows from `row`, and the rows of the input that it holds; 0 if not declared."""

    row: int
    rows: int
    read_row: int = 0
    read_rows: int = 0


class Cut(msgspec.Struct, frozen=True):
    """How a program computes an image: its bands in the order of their rows, and the tile they are cut into.

    `output` has `height` rows of `width` positions. `source`, the image of `source_height` rows that is read,
    is empty if the declaration does not say what is; then there is no tile either. A tile has `positions` in
    `tile_rows` rows; its K is summed in `steps` of `step`. `turns` are the places of the bands in the order
    in which they are computed, from 1.
    """

    output: str
    height: int
    width: int
    bands: tuple[Band, ...]
    turns: tuple[int, ...]
    source: str = ""
    source_height: int = 0
    tile_rows: int = 0
    positions: int = 0
    step: int = 0
    steps: int = 0


def cuts_of(subject: Subject, program: str) -> tuple[Cut, ...]:
    """How a program cuts each image that it computes, by its form, or by the frame of its output.

    It is empty if the declaration is wrong there: the comparison, which needs it, says so.
    """
    entry = subject.program(program)
    try:
        form = subject.form(program)
        if form is not None:
            return tuple(map(_of, form.convolutions))
        (positions, *_), _ = subject.output_of(program)
        frame = subject.frame(entry.tensor)
    except WorkloadError:
        return ()
    columns, rows = max(1, frame.columns), max(1, frame.band_rows)
    height = positions // columns
    bands = tuple(Band(row, min(rows, height - row)) for row in range(0, height, rows))
    return (Cut(entry.tensor, height, columns, bands, tuple(range(1, len(bands) + 1))),)


def _of(one: Convolution) -> Cut:
    layer, tile = one.layer, one.tile
    turns = {place: turn for turn, place in enumerate(one.order, 1)}
    return Cut(
        layer.output,
        layer.out_height,
        layer.out_width,
        tuple(Band(part.row, part.rows, part.window.row, part.window.rows) for part in one.parts),
        tuple(turns[place] for place in range(len(one.parts))),
        one.source,
        layer.height,
        tile.rows,
        tile.positions,
        tile.step,
        tile.steps,
    )
