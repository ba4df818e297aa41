"""Geometries that reach the mutants, and words that the catalogue is written in."""

from __future__ import annotations

from typing import Any

from benchmarks.mutants.mutant import Case, Edit, Mutant
from golden.geometry import Conv, ConvGeometry, GemmGeometry, Geometry

S2, S1 = Conv(3, 2, 1), Conv(3, 1, 1)


def pair_tiling(
    band_rows: int, conv1: tuple[int, int] = (16, 64), conv2: tuple[int, int] = (16, 32)
) -> dict[str, int]:
    """The tiling of a pair, written so that it has several tiles and K steps whatever the planner prefers.

    Args:
        band_rows: rows of y in a band.
        conv1: positions of an ACC tile of the first convolution, and its K step.
        conv2: the same of the second one.
    """
    return {
        "band_rows": band_rows,
        "tile_positions1": conv1[0],
        "k_step1": conv1[1],
        "tile_positions2": conv2[0],
        "k_step2": conv2[1],
    }


def conv_tiling(band_rows: int, conv: tuple[int, int] = (16, 64)) -> dict[str, int]:
    """The same of a single convolution."""
    return {"band_rows": band_rows, "tile_positions": conv[0], "k_step": conv[1]}


def pair_case(geometry: Geometry, *tiling: Any) -> Case:
    """A pair, tiled as `pair_tiling` says."""
    return Case("conv-pair", geometry, pair_tiling(*tiling))


def conv_case(geometry: ConvGeometry, *tiling: Any) -> Case:
    """A convolution, tiled as `conv_tiling` says."""
    return Case("conv", geometry, conv_tiling(*tiling))


INTERIOR = pair_case(Geometry(64, 32, 64, 64, 64, S2, S1), 8, (16, 64), (16, 32))
"""Four bands, and as many channels everywhere: all filters and tables have one shape."""
RAGGED = pair_case(Geometry(45, 32, 32, 64, 32, S2, S1), 5, (16, 32), (16, 32))
"""Bands of 5 output rows and a last one of 3."""
TWO_BANDS = pair_case(Geometry(40, 32, 32, 32, 32, S2, S1), 10, (16, 32), (16, 32))
"""A first and a last band, and none between them."""
STRIDE_1_2 = pair_case(Geometry(35, 32, 64, 32, 96, S1, S2), 7, (32, 64), (16, 32))
PLANES = pair_case(Geometry(22, 16, 128, 32, 64, S1, S1), 8, (16, 64), (16, 32))
"""Four C1 planes of x, as many as pass1 keeps."""
NARROW = pair_case(Geometry(10, 8, 32, 64, 32, S1, S1), 5, (16, 32), (16, 32))
SHORT_TILE = pair_case(Geometry(9, 7, 32, 64, 32, S1, S1), 4, (48, 32), (32, 32))
"""Bands of 28 positions: the last ACC tile has some that are not wanted."""
UNITS = pair_case(Geometry(24, 24, 32, 32, 32, S1, S2), 4, (48, 32), (48, 32))
"""Rows of 24 columns: two of them are whole fractals, one is not."""
CONV = conv_case(ConvGeometry(32, 32, 64, 32, Conv(5, 1, 2)), 4, (32, 64))
CONV_SQUARE = conv_case(ConvGeometry(18, 16, 32, 32, S1), 18, (16, 32))
"""x and filter have one shape."""
GEMM = Case("gemm", GemmGeometry(512, 1152, 32))
GEMM_ROWS = Case("gemm", GemmGeometry(384, 1024, 384))
"""Several tiles in a band of a, and several blocks of b."""
GEMM_COLUMNS = Case("gemm", GemmGeometry(320, 1024, 320))
"""Several tiles in a block of b, and several bands of a."""
GEMM_SQUARE = Case("gemm", GemmGeometry(128, 128, 128))
"""a, b and c have one shape."""
GEMM_BLOCKS = Case("gemm", GemmGeometry(64, 4096, 256))
"""Several blocks of b."""

FUSED, PASS1, PASS2, GEMM_ONLY, CONV_ONLY = ("fused",), ("pass1",), ("pass2",), ("gemm",), ("conv",)
FIRST_TILES = ("first-tile-load", "first-tile-packed", "first-tile-fused-alloc")
WHOLE_K = ("fused", "first-tile-packed", "first-tile-fused-alloc")
"""Programs whose conv1 goes over the whole of K in one loop."""
WITH_CONV1 = ("fused", "pass1", *FIRST_TILES)
WITH_CONV2 = ("fused", "pass2")


def swapped(text: str, one: str, other: str) -> str:
    """A text in which two words have changed places."""
    return text.replace(one, "\0").replace(other, one).replace("\0", other)


def fault(
    name: str, programs: tuple[str, ...], file: str, old: str, new: str, case: Case = INTERIOR, count: int = 1
) -> Mutant:
    """A fault of one edit."""
    return Mutant(name, ((Edit(file, old, new, count),),), programs, case)


def faults(name: str, programs: tuple[str, ...], *edits: Edit, case: Case = INTERIOR) -> Mutant:
    """One fault of several edits."""
    return Mutant(name, (edits,), programs, case)


def several(name: str, programs: tuple[str, ...], *edits: Edit, case: Case = INTERIOR) -> Mutant:
    """Several faults of one edit each."""
    return Mutant(name, tuple((edit,) for edit in edits), programs, case)


def equivalent(name: str, programs: tuple[str, ...], *edits: Edit, case: Case = INTERIOR) -> Mutant:
    """A change of programs that changes no result."""
    return Mutant(name, (edits,), programs, case, equivalent=True)
