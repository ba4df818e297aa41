"""Counts of wrong elements as a picture with axes and a colour bar."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

_CELLS = 256
"""Cells of a picture's side; more than that are drawn together. Each covers two pixels or more."""

_INCHES, _DOTS_PER_INCH = (9.0, 7.0), 100
_PLACE_OF_CELLS = (0.11, 0.1, 0.7, 0.76)
"""Left, bottom, width and height, as shares of the picture. Fixed: matplotlib's own layout draws twice."""

_PLACE_OF_BAR = (0.84, 0.1, 0.025, 0.76)
_GREY = "#e2e8f0"
_LIGHT_TO_DARK = ("#ffe082", "#f46d43", "#800026")
"""From few to many. matplotlib's own scales begin so light that one wrong element looks like the grey."""


@dataclass(frozen=True)
class Axes:
    """What a picture shows: a title, what runs down and across, and what one cell counts."""

    title: str
    down: str
    across: str
    cell: str


@contextmanager
def plain_matplotlib() -> Iterator[None]:
    """Draw here with matplotlib's defaults and without its warnings; text is shown as it is written."""
    # matplotlib warns if it cannot keep a list of fonts; a job should not print that.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # a user's matplotlibrc must not change the picture
        matplotlib.rcParams["text.parse_math"] = False
        yield


def draw_heatmap(path: Path, counts: npt.NDArray[np.integer], axes: Axes) -> None:
    """Draw counts [down, across] as a PNG: one cell each, zeros grey, the others from light to dark.

    Where there are too many cells for the picture, several are drawn as one that shows the largest count.
    The same counts always give the same bytes.

    Raises:
        OSError: the file cannot be written.
    """
    down, across = (-(-cells // _CELLS) for cells in counts.shape)
    cells = _pooled(counts, down, across)
    largest = int(cells.max())
    with plain_matplotlib():
        # Imported here: only a mismatch needs a picture, and the import takes half a second.
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.colors import LinearSegmentedColormap, Normalize
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator

        round_numbers = partial(MaxNLocator, integer=True, min_n_ticks=1, steps=(1, 2, 5, 10))
        figure = Figure(_INCHES, _DOTS_PER_INCH)
        chart = figure.add_axes(_PLACE_OF_CELLS)
        image = chart.imshow(
            cells,
            cmap=LinearSegmentedColormap.from_list("counts", _LIGHT_TO_DARK).with_extremes(under=_GREY),
            norm=Normalize(1, max(2, largest)),
            aspect="auto",
            interpolation="nearest",
            extent=(-0.5, cells.shape[1] * across - 0.5, cells.shape[0] * down - 0.5, -0.5),
        )
        chart.set_frame_on(False)  # its lines would cover half of the cells at the edges
        chart.set_title(axes.title, fontsize="small", wrap=True)
        chart.set_xlabel(_label(axes.across, across))
        chart.set_ylabel(_label(axes.down, down))
        for axis in (chart.xaxis, chart.yaxis):
            axis.set_major_locator(round_numbers())
        figure.colorbar(
            image,
            cax=figure.add_axes(_PLACE_OF_BAR),
            label=f"{axes.cell} (grey: none; largest: {largest})",
            extend="min",
            ticks=round_numbers(),
        )
        # The only metadata matplotlib writes by itself is its version.
        FigureCanvasAgg(figure)
        figure.savefig(path, format="png", metadata={"Software": None})


def _pooled(counts: npt.NDArray[np.integer], down: int, across: int) -> npt.NDArray[np.integer]:
    """The largest count of each `down` x `across` cells."""
    rows = np.maximum.reduceat(counts, np.arange(0, counts.shape[0], down), axis=0)
    pooled: npt.NDArray[np.integer] = np.maximum.reduceat(rows, np.arange(0, counts.shape[1], across), axis=1)
    return pooled


def _label(name: str, step: int) -> str:
    return name if step == 1 else f"{name} ({step} are drawn as one, which shows the largest count)"
