from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.image import imread

from pipeline.diff.heatmap import Axes, draw_heatmap

AXES = Axes(
    "y: 3 of 9 elements differ from the golden", "row", "column", "wrong channels of 64 at each pixel"
)
NONE, FEWEST, MOST = (226, 232, 240), (255, 224, 130), (128, 0, 38)

Picture = npt.NDArray[np.uint8]


def drawn(folder: Path, counts: npt.NDArray[np.int64], axes: Axes = AXES) -> Picture:
    """The picture as RGB, uint8 [height, width, 3]."""
    path = folder / "picture.png"
    draw_heatmap(path, counts, axes)
    picture: Picture = (imread(path)[..., :3] * 255).round().astype(np.uint8)
    return picture


def cells(picture: Picture, colour: tuple[int, int, int]) -> npt.NDArray[np.bool_]:
    """Where a colour is, left of the colour bar."""
    found: npt.NDArray[np.bool_] = (picture == colour).all(axis=-1)
    found[:, picture.shape[1] * 82 // 100 :] = False
    return found


def box(found: npt.NDArray[np.bool_]) -> tuple[float, float, float, float]:
    """Top, left, bottom and right of what was found."""
    places = np.argwhere(found)
    return (*places.min(axis=0), *(places.max(axis=0) + 1))


def test_a_cell_is_where_its_count_is(tmp_path: Path) -> None:
    counts = np.zeros((20, 30), np.int64)
    counts[5:7, 10:14] = 64
    counts[19, 29] = 1
    picture = drawn(tmp_path, counts)
    top, left, *_ = box(cells(picture, NONE))
    *_, bottom, right = box(cells(picture, FEWEST))
    down, across = (bottom - top) / 20, (right - left) / 30
    expected = (top + 5 * down, left + 10 * across, top + 7 * down, left + 14 * across)
    assert box(cells(picture, MOST)) == pytest.approx(expected, abs=2)


@settings(deadline=None, max_examples=12)
@given(shape=st.tuples(st.integers(1, 3000), st.integers(1, 3000)), data=st.data())
def test_pictures_stay_small_and_lose_no_cell(
    shape: tuple[int, int], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    counts = np.zeros(shape, np.int64)
    where = tuple(data.draw(st.sampled_from([0, cells // 2, cells - 1])) for cells in shape)
    counts[where] = 2
    picture = drawn(tmp_path_factory.mktemp("drawn"), counts)
    assert max(picture.shape) < 1000
    assert cells(picture, MOST).any()


def test_fewest_and_none_are_told_apart(tmp_path: Path) -> None:
    """Where no cell counts more than one wrong element, too."""
    picture = drawn(tmp_path, np.eye(4, dtype=np.int64))
    assert cells(picture, FEWEST).sum() == pytest.approx(cells(picture, NONE).sum() / 3, rel=0.02)


def test_texts_fit(tmp_path: Path) -> None:
    """With the longest names and numbers, nothing is drawn at the edge, and a `$` is a `$`."""
    title = f"y: 516096 of 516096 elements differ from that of fused-on-{'a-platform-' * 6} $"
    long = Axes(title, "row", "channel", "wrong pixels of 10000 in each row and channel")
    picture = drawn(tmp_path, np.full((99999, 4), 10000), long)
    for edge in (picture[:3], picture[-3:], picture[:, :3], picture[:, -3:]):
        assert (edge == 255).all()


def test_every_text_of_the_axes_is_drawn(tmp_path: Path) -> None:
    counts = np.eye(4, dtype=np.int64)
    usual = drawn(tmp_path, counts)
    for field in ("title", "down", "across", "cell"):
        assert (drawn(tmp_path, counts, replace(AXES, **{field: "else"})) != usual).any(), field


def test_the_same_counts_give_the_same_bytes_whatever_the_user_has_set(tmp_path: Path) -> None:
    one, other = tmp_path / "one.png", tmp_path / "other.png"
    counts = np.arange(12).reshape(3, 4)
    draw_heatmap(one, counts, AXES)
    with mpl.rc_context({"font.size": 20, "savefig.bbox": "tight", "savefig.dpi": 30}):
        draw_heatmap(other, counts, AXES)
    assert one.read_bytes() == other.read_bytes()


def test_drawing_without_a_home_prints_nothing(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path; import numpy; from pipeline.diff.heatmap import *;"
        f"draw_heatmap(Path({str(tmp_path / 'a.png')!r}), numpy.eye(3, dtype=int), Axes('t', 'd', 'a', 'c'))"
    )
    kept = {name: value for name, value in os.environ.items() if name != "MPLCONFIGDIR"}
    nowhere = dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"), "/dev/null/none")
    ended = subprocess.run(
        [sys.executable, "-c", code], env={**kept, **nowhere}, capture_output=True, text=True, check=True
    )
    assert (ended.stdout, ended.stderr) == ("", "")
    assert (tmp_path / "a.png").exists()
