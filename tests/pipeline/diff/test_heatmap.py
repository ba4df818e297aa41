from __future__ import annotations

import numpy as np
import pytest
from PIL.Image import Image

from pipeline.diff.heatmap import Axes, heatmap

AXES = Axes(
    "y: 3 of 9 elements differ from the golden", "row", "column", "wrong channels of 64 at each pixel"
)
NONE = (226, 232, 240)
MOST = (128, 0, 38)


def cells(picture: Image, colour: tuple[int, int, int]) -> np.ndarray:
    """Where a colour is, left of the legend."""
    found: np.ndarray = (np.asarray(picture) == colour).all(axis=-1)
    found[:, picture.width - 150 :] = False
    return found


def test_a_cell_is_where_its_count_is() -> None:
    counts = np.zeros((20, 30), np.int64)
    counts[5:7, 10:14] = 64
    counts[0, 0] = 1
    picture = heatmap(counts, AXES)
    dark = np.argwhere(cells(picture, MOST))
    (top, left), (bottom, right) = dark.min(axis=0), dark.max(axis=0)
    zoom = (bottom - top + 1) // 2
    assert right - left + 1 == 4 * zoom
    grey = np.argwhere(cells(picture, NONE))
    origin = grey.min(axis=0)
    assert ((top, left) - origin == (5 * zoom, 10 * zoom)).all()


@pytest.mark.parametrize("shape", [(1, 1), (1, 64), (144, 56), (4000, 30), (3, 5000)])
def test_pictures_stay_small_and_show_a_single_cell(shape: tuple[int, int]) -> None:
    counts = np.zeros(shape, np.int64)
    counts[-1, -1] = 2
    picture = heatmap(counts, AXES)
    assert max(picture.size) < 1000
    assert cells(picture, MOST).any()


def test_texts_fit() -> None:
    """A longer title makes a wider picture; nothing is drawn at its edge."""
    long = Axes(
        "y: 516096 of 516096 elements differ from that of " + "fused-on-emu-a2a3 " * 4, "row", "c", "n"
    )
    picture = np.asarray(heatmap(np.ones((4, 4), np.int64), long))
    assert (picture[:, -3:] == 255).all()
    assert (picture[:, :3] == 255).all()
