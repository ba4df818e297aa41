"""Counts of wrong elements as a picture with axes and a legend."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

Colours = npt.NDArray[np.uint8]

_LARGEST = 640
"""Pixels of a picture's longer side, without its margins; more cells than that are drawn together."""

_LARGEST_CELL = 16
_LEFT, _TOP, _RIGHT, _BOTTOM, _BLANK = 84, 70, 150, 56, 8
_FONT_SIZE = 14
_TICK_DISTANCE = 44
_BAR_WIDTH, _BAR_HEIGHT = 18, 160
_NONE = (226, 232, 240)
_STOPS = ((255, 224, 130), (244, 109, 67), (128, 0, 38))
"""From few to many."""


@dataclass(frozen=True)
class Axes:
    """What a picture shows: a title, what runs down and across, and what one cell counts."""

    title: str
    down: str
    across: str
    cell: str


def heatmap(counts: npt.NDArray[np.integer], axes: Axes) -> Image:
    """Draw counts [down, across]: one cell each, none grey, the others from light to dark.

    Where there are too many cells for the picture, several are drawn as one that shows the largest.
    """
    # Imported here: nothing but a mismatch needs a picture.
    from PIL import Image, ImageDraw, ImageFont

    step = -(-max(counts.shape) // _LARGEST)
    largest = int(counts.max(initial=1))
    cells = _pooled(counts, step)
    zoom = min(_LARGEST_CELL, max(1, _LARGEST // max(cells.shape)))
    drawn = Image.fromarray(np.kron(_colours(cells, largest), np.ones((zoom, zoom, 1), np.uint8)))
    font = ImageFont.load_default(_FONT_SIZE)
    title = max(font.getlength(line) for line in (axes.title, axes.cell))
    width = _LEFT + max(drawn.width + _RIGHT, int(title) + _BLANK)
    height = _TOP + max(drawn.height, _BAR_HEIGHT) + _BOTTOM
    picture = Image.new("RGB", (width, height), "white")
    picture.paste(drawn, (_LEFT, _TOP))
    right, bottom = _LEFT + drawn.width, _TOP + drawn.height
    draw = ImageDraw.Draw(picture)
    draw.font = font
    draw.rectangle((_LEFT - 1, _TOP - 1, right, bottom), outline="black")
    draw.text((_LEFT, 10), axes.title, fill="black")
    draw.text((_LEFT, 28), axes.cell, fill="black")
    draw.text((_BLANK, _TOP - 10), axes.down, fill="black", anchor="ls")
    draw.text((_LEFT, bottom + 28), axes.across, fill="black")
    pixels = zoom / step
    for number in _ticks(counts.shape[1], pixels):
        x = _LEFT + int((number + 0.5) * pixels)
        draw.line((x, bottom, x, bottom + 5), fill="black")
        draw.text((x, bottom + 8), str(number), fill="black", anchor="mt")
    for number in _ticks(counts.shape[0], pixels):
        y = _TOP + int((number + 0.5) * pixels)
        draw.line((_LEFT - 6, y, _LEFT - 1, y), fill="black")
        draw.text((_LEFT - 9, y), str(number), fill="black", anchor="rm")
    _legend(draw, right + 24, largest)
    return picture


def _pooled(counts: npt.NDArray[np.integer], step: int) -> npt.NDArray[np.integer]:
    """The largest of each `step` x `step` cells."""
    rows = np.maximum.reduceat(counts, np.arange(0, counts.shape[0], step), axis=0)
    pooled: npt.NDArray[np.integer] = np.maximum.reduceat(rows, np.arange(0, counts.shape[1], step), axis=1)
    return pooled


def _colours(counts: npt.NDArray[np.integer | np.floating], largest: int) -> Colours:
    """RGB of every count, uint8 [..., 3]."""
    place = (counts - 1) / max(largest - 1, 1)
    stops = np.linspace(0, 1, len(_STOPS))
    shades = [np.interp(place, stops, [stop[channel] for stop in _STOPS]) for channel in range(3)]
    return np.where((counts > 0)[..., None], np.stack(shades, axis=-1), _NONE).astype(np.uint8)


def _ticks(cells: int, pixels: float) -> range:
    """Round numbers, far enough apart to be read."""
    sizes: Iterator[int] = (factor * 10**power for power in count() for factor in (1, 2, 5))
    return range(0, cells, next(size for size in sizes if size * pixels >= _TICK_DISTANCE))


def _legend(draw: ImageDraw, left: int, largest: int) -> None:
    """The scale: none, and a bar from 1 to the largest count."""
    bar = _colours(np.linspace(largest, 1, _BAR_HEIGHT - 40), largest)
    for offset, colour in enumerate(bar.tolist()):
        y = _TOP + offset
        draw.line((left, y, left + _BAR_WIDTH, y), fill=tuple(colour))
    end = _TOP + len(bar)
    draw.rectangle((left, end + 14, left + _BAR_WIDTH, end + 32), fill=_NONE)
    beside = left + _BAR_WIDTH + 6
    draw.text((beside, _TOP - 2), f"{largest} wrong", fill="black")
    if largest > 1:
        draw.text((beside, end), "1 wrong", fill="black", anchor="ls")
    draw.text((beside, end + 23), "0 wrong", fill="black", anchor="lm")
