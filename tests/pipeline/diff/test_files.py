from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from pipeline.diff.data import DiffData, Division, Examined
from pipeline.diff.files import write_files
from pipeline.diff.heatmap import Axes
from pipeline.ground.results import Diff, Region


@pytest.fixture
def examined() -> Examined:
    difference = np.zeros((10, 32), np.int16)
    difference[9, 5] = -255
    data = DiffData(
        tensor="tile",
        against="golden",
        width=4,
        channels=32,
        count=320,
        mismatches=1,
        max_abs=255,
        unwritten=0,
        facts=(),
        histogram=((-255, 1),),
        divisions={"row": Division(3, (Region("row 2", 64, 1, 255),))},
    )
    diff = Diff("tile", difference.shape, 320, 1, 255, "", "")
    return Examined(data, {"difference": difference, "tie": difference == 0}, diff)


def test_the_difference_is_there_as_json_arrays_and_pictures(tmp_path: Path, examined: Examined) -> None:
    """The last image row is incomplete, as a tile's may be."""
    written = write_files(tmp_path, examined)
    assert [path.name for path in written] == ["diff.json", "diff.npz", "rows-columns.png", "channels.png"]
    data = json.loads(written[0].read_bytes())
    assert data["histogram"] == [[-255, 1]]
    assert data["divisions"]["row"] == {
        "regions": 3,
        "wrong": [{"name": "row 2", "count": 64, "mismatches": 1, "max_abs": 255}],
    }
    with np.load(written[1]) as arrays:
        assert set(arrays) == {"difference", "tie"}
        assert np.array_equal(arrays["difference"], examined.arrays["difference"])
    for path in written[2:]:
        assert imread(path, format="png").size


def test_a_matrix_has_one_picture_of_its_rows_and_columns(
    tmp_path: Path, examined: Examined, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[tuple[str, tuple[int, ...], Axes]] = []
    monkeypatch.setattr(
        "pipeline.diff.files.draw_heatmap",
        lambda path, counts, axes: drawn.append((path.name, counts.shape, axes)),
    )
    matrix = Examined(replace(examined.data, width=1), examined.arrays, examined.diff)
    written = write_files(tmp_path, matrix)
    assert [path.name for path in written] == ["diff.json", "diff.npz", "rows-columns.png"]
    ((name, shape, axes),) = drawn
    assert (name, shape) == ("rows-columns.png", (10, 32))
    assert (axes.down, axes.across, axes.cell) == ("row", "column", "wrong elements")
