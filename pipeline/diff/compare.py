"""Compares an output with its golden: every element, exactly; gives the difference as data."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from golden.geometry import C0
from pipeline.diff.facts import single_value
from pipeline.ground.results import Diff, Mismatch, Region
from pipeline.ground.words import counted

Array = npt.NDArray[np.generic]
Counts = npt.NDArray[np.int64]

FIRST_LIMIT = 20
"""How many mismatches are kept one by one."""

DIFFERENCES_LIMIT = 8
"""How many values of actual - expected are kept with their counts, the most frequent first."""


_WIDE_BLOCK = 16
"""Columns of the fractals that an int32 accumulator is made of."""


def digest(array: Array) -> str:
    """SHA-256 (hex) over dtype, shape and the elements' bytes in row-major order."""
    sha = hashlib.sha256(f"{array.dtype.str} {array.shape} ".encode())
    sha.update(np.ascontiguousarray(array).data)
    return sha.hexdigest()


def compare(
    tensor: str,
    actual: Array,
    golden: Array,
    *,
    width: int,
    band_rows: int,
    sentinel: int | None,
    against: str = "golden",
) -> Diff:
    """Compare two matrices of NHWC rows element by element, with no tolerance.

    Args:
        tensor: name of the tensor, for the report.
        actual: what the engine gave, `[rows * width, channels]`.
        golden: what it must be, `[rows * width, channels]`, integers of at most 32 bits; the last image row
            may be incomplete (a tile).
        width: pixels in an image row; with 1 the output is told as a matrix, by rows and columns.
        band_rows: image rows in a band.
        sentinel: the value every element of the output held before the program ran; None if it is not known.
        against: what `golden` is: the stage, if it is another stage's output.

    Returns:
        The difference; it has regions and checksums only where something is wrong, since most outputs are
        right and have hundreds of channels. Where the two cannot be compared, `problem` says why and every
        element counts as wrong.
    """
    diff = Diff(
        tensor=tensor,
        shape=golden.shape,
        count=golden.size,
        mismatches=golden.size,
        max_abs=0,
        actual_sha=digest(actual),
        golden_sha=digest(golden),
        problem=_problem(actual, golden),
        against=against,
        matrix=width == 1,
    )
    if diff.problem:
        return diff
    wrong = actual != golden
    if not wrong.any():
        return replace(diff, mismatches=0)
    pixel, channel = np.nonzero(wrong)
    # Widened before subtracting: 127 - -128 is 255, not the -1 that int8 makes of it.
    difference = actual[wrong].astype(np.int64) - golden[wrong].astype(np.int64)
    pixels, channels = golden.shape
    band = np.arange(pixels) // (width * band_rows)
    return replace(
        diff,
        mismatches=len(difference),
        max_abs=int(np.abs(difference).max(initial=0)),
        unwritten=int(np.count_nonzero(untouched(actual, sentinel) & wrong)),
        bands=regions(
            _band_names(-(-pixels // width), band_rows), np.bincount(band) * channels, band[pixel], difference
        ),
        channels=regions(
            (f"{'column' if diff.matrix else 'channel'} {index}" for index in range(channels)),
            np.full(channels, pixels),
            channel,
            difference,
        ),
        first=tuple(
            Mismatch(
                (int(m), int(c)) if diff.matrix else (int(m) // width, int(m) % width, int(c)),
                int(actual[m, c]),
                int(golden[m, c]),
            )
            for m, c in zip(pixel[:FIRST_LIMIT], channel[:FIRST_LIMIT], strict=True)
        ),
        differences=_most_frequent(difference),
        single=single_value(actual, golden),
        crcs=crcs(actual.T),
    )


def untouched(actual: Array, sentinel: int | None) -> npt.NDArray[np.bool_]:
    """Where an output [positions, channels] was never written: a whole block of a position is the sentinel.

    A block is 32 channels of an int8 output and 16 of a wider one. A store writes at least that, and a single
    int8 can have its value by chance. If the last block of such an output has fewer channels, as others were
    cut off, it counts together with those of the next positions, as many as make a block.
    """
    if sentinel is None:
        return np.zeros(actual.shape, np.bool_)
    channels = actual.shape[1]
    block = C0 if actual.dtype.itemsize == 1 else _WIDE_BLOCK
    blocks = np.logical_and.reduceat(actual == sentinel, np.arange(0, channels, block), axis=1)
    if (rest := channels % block) and block == C0:
        positions, run = len(actual), -(-block // rest)
        together = np.logical_and.reduceat(blocks[:, -1], np.arange(0, positions, run))
        blocks[:, -1] = np.repeat(together, run)[:positions]
    whole: npt.NDArray[np.bool_] = np.repeat(blocks, block, axis=1)[:, :channels]
    return whole


def _problem(actual: Array, golden: Array) -> str:
    """Why the two cannot be compared; empty where they can."""
    if golden.dtype.kind not in "iu" or golden.dtype.itemsize > 4:
        return f"the golden is {golden.dtype}: only integers of at most 32 bits are compared"
    if actual.dtype != golden.dtype:
        return f"dtype is {actual.dtype}, must be {golden.dtype}"
    if golden.ndim != 2:
        return f"the golden has shape {list(golden.shape)}: must be [rows * width, channels]"
    if actual.shape != golden.shape:
        held = counted(actual.size, "element")
        return f"shape is {list(actual.shape)} ({held}), must be {list(golden.shape)} ({golden.size})"
    if golden.size == 0:
        return "nothing to compare: the golden has no elements"
    return ""


def _band_names(rows: int, band_rows: int) -> Iterator[str]:
    """Bands by number, place (the programs of first, interior and last bands differ) and image rows."""
    last = (rows - 1) // band_rows
    for band in range(last + 1):
        place = "only" if last == 0 else {0: "first", last: "last"}.get(band, "interior")
        yield f"band {band} ({place}) rows {band * band_rows}..{min((band + 1) * band_rows, rows) - 1}"


def regions(
    names: Iterator[str], counts: Counts, region_of: Counts, difference: Counts
) -> tuple[Region, ...]:
    """One `Region` for each name: its `counts` elements, and the mismatches that `region_of` puts there."""
    mismatches = np.bincount(region_of, minlength=len(counts))
    largest = np.zeros(len(counts), np.int64)
    np.maximum.at(largest, region_of, np.abs(difference))
    return tuple(
        Region(name, int(count), int(wrong), int(size))
        for name, count, wrong, size in zip(names, counts, mismatches, largest, strict=True)
    )


def crcs(parts: Iterable[Array]) -> tuple[int, ...]:
    """Checksums of parts of an output."""
    return tuple(zlib.crc32(np.ascontiguousarray(part).data) for part in parts)


def _most_frequent(difference: Counts) -> tuple[tuple[int, int], ...]:
    """The most frequent values of actual - expected with their counts; ties go to the smaller value."""
    values, counts = np.unique(difference, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:DIFFERENCES_LIMIT]
    return tuple((int(values[i]), int(counts[i])) for i in order)
