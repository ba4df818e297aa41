"""Geometries that reach the mutants, and words that the catalogue is written in."""

from __future__ import annotations

from benchmarks.mutants.mutant import Case, Edit, Mutant
from golden.geometry import Conv, ConvGeometry, GemmGeometry, Geometry

S2, S1 = Conv(3, 2, 1), Conv(3, 1, 1)
INTERIOR = Case("conv-pair", Geometry(64, 32, 64, 64, 64, S2, S1), {"band_rows": 8})
"""Four bands, and as many channels everywhere: all filters and tables have one shape."""
RAGGED = Case("conv-pair", Geometry(45, 32, 32, 64, 32, S2, S1), {"band_rows": 5})
"""Bands of 5 output rows and a last one of 3."""
TWO_BANDS = Case("conv-pair", Geometry(40, 32, 32, 32, 32, S2, S1), {"band_rows": 10})
"""A first and a last band, and none between them."""
STRIDE_1_2 = Case("conv-pair", Geometry(35, 32, 64, 32, 96, S1, S2), {"band_rows": 7})
STRIDE_2_2 = Case("conv-pair", Geometry(66, 64, 32, 64, 32, S2, S2), {"band_rows": 5})
PLANES = Case("conv-pair", Geometry(22, 16, 128, 32, 64, S1, S1), {"band_rows": 8})
"""Four C1 planes of x, as many as pass1 keeps."""
NARROW = Case("conv-pair", Geometry(10, 8, 32, 64, 32, S1, S1), {"band_rows": 5})
SHORT_TILE = Case("conv-pair", Geometry(9, 7, 32, 64, 32, S1, S1), {"band_rows": 4})
"""Bands of 28 positions: the last ACC tile has some that are not wanted."""
UNITS = Case("conv-pair", Geometry(24, 24, 32, 32, 32, S1, S2), {"band_rows": 4})
"""Rows of 24 columns: two of them are whole fractals, one is not."""
CONV = Case("conv", ConvGeometry(32, 32, 64, 32, Conv(5, 1, 2)), {"band_rows": 4})
CONV_SQUARE = Case("conv", ConvGeometry(18, 16, 32, 32, S1))
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
