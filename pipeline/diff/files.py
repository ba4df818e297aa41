"""A difference in full, as files beside a stage's other artefacts."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from pipeline.diff.data import DiffData, Examined
from pipeline.diff.heatmap import Axes, draw_heatmap

DATA, ARRAYS = "diff.json", "diff.npz"


def write_files(folder: Path, examined: Examined) -> tuple[Path, ...]:
    """Write `diff.json`, `diff.npz` and pictures into a folder; gives their paths.

    Of an image there are two pictures, by row and column and by row and channel; of a matrix there is one.

    Raises:
        OSError: they cannot be written.
    """
    data = examined.data
    wrong = examined.arrays["difference"] != 0
    written = [folder / DATA, folder / ARRAYS, folder / "rows-columns.png"]
    written[0].write_bytes(msgspec.json.format(msgspec.json.encode(data), indent=1))
    np.savez_compressed(written[1], **examined.arrays)
    counted = f"{data.tensor}: {data.mismatches} of {data.count} elements differ from {_against(data)}"
    if data.width == 1:
        draw_heatmap(written[2], wrong.astype(np.int64), Axes(counted, "row", "column", "wrong elements"))
        return tuple(written)
    by_pixel = Axes(counted, "row", "column", f"wrong channels of {data.channels} at each pixel")
    draw_heatmap(written[2], _rows(wrong.sum(axis=1), data.width), by_pixel)
    by_channel = Axes(counted, "row", "channel", f"wrong pixels of {data.width} in each row and channel")
    written.append(folder / "channels.png")
    draw_heatmap(written[3], _rows(wrong, data.width).sum(axis=1), by_channel)
    return tuple(written)


def _against(data: DiffData) -> str:
    return "the golden" if data.against == "golden" else data.against


def _rows(of_positions: npt.NDArray[np.generic], width: int) -> npt.NDArray[np.int64]:
    """Values of positions as [row, column, ...], zeros behind an incomplete last row."""
    missing = -len(of_positions) % width
    filled = np.concatenate([of_positions, np.zeros((missing, *of_positions.shape[1:]), of_positions.dtype)])
    return filled.reshape(-1, width, *of_positions.shape[1:]).astype(np.int64)
