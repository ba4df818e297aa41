"""Mistakes where filters come in by blocks or slices and maps by planes: loops, places, and runs of bands."""

from __future__ import annotations

from benchmarks.mutants.catalogue.cases import (
    CONV_ONLY,
    FIRST_TILES,
    FUSED,
    PASS1,
    PASS2,
    S1,
    S2,
    WITH_CONV1,
    equivalent,
    fault,
)
from benchmarks.mutants.mutant import Case, Edit, Mutant
from golden.geometry import Conv, ConvGeometry, Geometry

_TILES = {"band_rows": 5, "tile_positions1": 16, "tile_positions2": 16}
BLOCKS = Case(
    "conv-pair",
    Geometry(22, 8, 64, 64, 96, S1, S1),
    {**_TILES, "k_step1": 192, "block_columns1": 32, "k_step2": 192, "block_columns2": 32},
)
"""Five bands, the last of 2 rows; two blocks of filter1, three of filter2, and a ragged last tile."""
SLICES = Case(
    "conv-pair", Geometry(22, 8, 64, 64, 64, S1, S1), {**_TILES, "k_step1": 32, "k_step2": 32}, 18_000
)
"""The same bands; both filters come in by slices of K."""
PLANES = Case("conv-pair", Geometry(45, 16, 64, 64, 64, S2, S1), _TILES, 12_000)
"""x and mid come in one C1 plane at a time."""
_CONV = {"band_rows": 5, "tile_positions": 16}
CONV_SLICES = Case("conv", ConvGeometry(22, 8, 64, 64, Conv(5, 1, 2)), _CONV, 24_000)
CONV_PLANES = Case("conv", ConvGeometry(22, 8, 96, 64, Conv(5, 1, 2)), _CONV, 15_000)
"""Three C1 planes of x, each with several slices of the filter."""

_STREAMS, _MAPS, _RUNS, _STREAMED = "streams.py", "maps.py", "runs.py", "streamed.py"
_ALL = (*WITH_CONV1, "pass2")


def _of(
    name: str,
    programs: tuple[str, ...],
    old: str,
    new: str,
    case: Case,
    count: int = 1,
    file: str = _STREAMS,
) -> Mutant:
    return fault(f"streamed, {name}", programs, file, old, new, case, count)


MUTANTS = (
    _of(
        "blocks to L1: each has the filter of the first",
        FUSED,
        """            f1 = pl.load(
                near_filter,
                [0, near_first + block1 * near_columns],""",
        """            f1 = pl.load(
                near_filter,
                [0, near_first],""",
        BLOCKS,
    ),
    _of(
        "blocks to L1: each has the table entries of the first",
        FUSED,
        """near_scale,
                [0, near_first + block1 * near_columns],""",
        """near_scale,
                [0, near_first],""",
        BLOCKS,
        3,
    ),
    _of(
        "blocks to L1: each is put where the first belongs",
        FUSED,
        "[mid_tile * near_tile, block1 * near_columns]",
        "[mid_tile * near_tile, 0]",
        BLOCKS,
        3,
    ),
    _of(
        "blocks to GM: biases are those of the blocks from the last",
        _ALL,
        "far_bias, [0, block2 * far_columns]",
        "far_bias, [0, (far_blocks - 1 - block2) * far_columns]",
        BLOCKS,
        4,
    ),
    _of(
        "blocks to GM: one block too few",
        _ALL,
        "far_blocks = shape.channels, channels // shape.channels",
        "far_blocks = shape.channels, channels // shape.channels - 1",
        BLOCKS,
        2,
    ),
    _of(
        "blocks to GM: the first wanted position is not counted",
        ("fused", "pass1", "pass2"),
        """acc2 = far_conv(far_source, f2, bias_table2, far_start + out_tile * far_tile)
                if out_tile""",
        """acc2 = far_conv(far_source, f2, bias_table2, out_tile * far_tile)
                if out_tile""",
        BLOCKS,
    ),
    _of(
        "blocks to GM: of a ragged tile one position too few is stored",
        ("fused", "pass1", "pass2"),
        "far_rest = tile.count(positions), tile.positions, tile.rest(positions)",
        "far_rest = tile.count(positions), tile.positions, tile.rest(positions) - 1",
        BLOCKS,
        2,
    ),
    _of(
        "blocks to GM: the second block is stored where the first belongs",
        _ALL,
        "[far_position + out_tile * far_tile, block2 * far_columns]",
        "[far_position + out_tile * far_tile, block2 // 2 * far_columns]",
        BLOCKS,
        4,
    ),
    _of(
        "slices to L1: all further ones are the second",
        FUSED,
        "[slice1 * near_depth, near_first + block1 * near_columns]",
        "[near_depth, near_first + block1 * near_columns]",
        SLICES,
        2,
    ),
    _of(
        "slices to L1: the second is left out",
        FUSED,
        "for slice1 in pl.range(1, near_slices)",
        "for slice1 in pl.range(2, near_slices)",
        SLICES,
        2,
    ),
    _of(
        "slices to L1: of the map the K of the slice before is read",
        FUSED,
        """slice1 * near_depth,
                        0,
                    )""",
        """(slice1 - 1) * near_depth,
                        0,
                    )""",
        SLICES,
    ),
    _of(
        "slices to GM: one too few",
        _ALL,
        "far_slices, far_depth, far_planes = tile.slices // max(tile.planes, 1), ",
        "far_slices, far_depth, far_planes = tile.slices // max(tile.planes, 1) - 1, ",
        SLICES,
    ),
    _of(
        "slices to GM: further ones are added at the first tile of the map",
        CONV_ONLY,
        "acc2, far_source, more2, far_start + out_tile * far_tile, slice2 * far_depth, 0",
        "acc2, far_source, more2, far_start, slice2 * far_depth, 0",
        CONV_SLICES,
    ),
    _of(
        "slices: the K loop of each is one step short",
        _ALL,
        "return replace(tile, steps=tile.steps // tile.slices)",
        "return replace(tile, steps=tile.steps // tile.slices - 1)",
        SLICES,
    ),
    _of(
        "planes to GM: all further ones are the second",
        CONV_ONLY,
        "next2 = far_plane(far_source, far_row, plane2)",
        "next2 = far_plane(far_source, far_row, 1)",
        CONV_PLANES,
    ),
    _of(
        "planes to GM: the first comes from the first row of the image",
        CONV_ONLY,
        "map2 = far_plane(far_source, far_row, 0)",
        "map2 = far_plane(far_source, 0, 0)",
        CONV_PLANES,
    ),
    _of(
        "planes to GM: each has the filter of the first",
        CONV_ONLY,
        "[plane2 * far_plane_depth + slice2 * far_depth, block2 * far_columns]",
        "[slice2 * far_depth, block2 * far_columns]",
        CONV_PLANES,
        2,
    ),
    _of(
        "planes to GM: the filter of a plane begins one slice after that of the one before",
        CONV_ONLY,
        "far_plane, far_plane_depth = plane, far_slices * far_depth\n",
        "far_plane, far_plane_depth = plane, far_depth\n",
        CONV_PLANES,
    ),
    _of(
        "planes to GM: of further ones the first slice is left out",
        CONV_ONLY,
        "for slice2 in pl.range(far_slices)",
        "for slice2 in pl.range(1, far_slices)",
        CONV_PLANES,
        2,
    ),
    _of(
        "planes to L1: the last is left out",
        FUSED,
        "for plane1 in pl.range(1, near_planes)",
        "for plane1 in pl.range(1, near_planes - 1)",
        PLANES,
    ),
    _of(
        "planes to L1: further filters meet the first plane",
        FUSED,
        "acc1, next1, more1, near_start",
        "acc1, map1, more1, near_start",
        PLANES,
    ),
    _of(
        "computed planes: each is the first again",
        FUSED,
        "plane2 * far_c0,",
        "0,",
        PLANES,
    ),
    _of(
        "computed planes: further ones are computed from the first position of x",
        FUSED,
        """far_start1,
                        plane2 * far_c0,""",
        """0,
                        plane2 * far_c0,""",
        PLANES,
    ),
    _of(
        "plane of a map: rows of the plane before",
        _ALL,
        "src_offset=[map_number * map_down + map_row * map_width, map_number * map_across]",
        "src_offset=[map_number * (map_down - map_width) + map_row * map_width, map_number * map_across]",
        PLANES,
        file=_MAPS,
    ),
    _of(
        "plane of a map: channels of the first plane",
        ("first-tile-packed", "pass2"),
        "src_offset=[map_number * map_down + map_row * map_width, map_number * map_across]",
        "src_offset=[map_number * map_down + map_row * map_width, 0]",
        PLANES,
        file=_MAPS,
    ),
    _of(
        "map of x: planes are taken to be one row lower",
        ("fused", "pass1", "first-tile-load", "first-tile-fused-alloc"),
        "map_image, map_width = geometry.height * geometry.width, geometry.width",
        "map_image, map_width = (geometry.height - 1) * geometry.width, geometry.width",
        BLOCKS,
        file=_MAPS,
    ),
    _of(
        "map of rows: the first row is taken for a position",
        PASS2,
        "src_offset=[map_row * map_width, 0]",
        "src_offset=[map_row, 0]",
        BLOCKS,
        file=_MAPS,
    ),
    _of(
        "first tiles: begin one row lower",
        FIRST_TILES,
        "tile_bring, tile_start = bring, window.skip * geometry.mid_width",
        "tile_bring, tile_start = bring, (window.skip + 1) * geometry.mid_width",
        BLOCKS,
        file="streamed_tile.py",
    ),
    _of(
        "runs: all bands read the rows of the first",
        ("fused", "pass1", "pass2"),
        "run_x + band * run_dx",
        "run_x",
        BLOCKS,
        2,
        _RUNS,
    ),
    _of(
        "runs: each band is stored one row below the one before",
        ("fused", "pass1", "pass2"),
        "run_y + band * run_dy",
        "run_y + band",
        BLOCKS,
        2,
        _RUNS,
    ),
    _of(
        "runs: the last band is left out",
        ("fused", "pass1", "pass2"),
        "for band in pl.range(run_count)",
        "for band in pl.range(run_count - 1)",
        BLOCKS,
        2,
        _RUNS,
    ),
    _of(
        "runs: the last band of a convolution has the place of the one before",
        ("pass1", "pass2"),
        "seq_xl, seq_yl, seq_sl = numbers[-1]",
        "seq_xl, seq_yl, seq_sl = numbers[-2]",
        BLOCKS,
        file=_RUNS,
    ),
    _of(
        "runs: bands of a pair have their tables swapped",
        FUSED,
        "seq_run1(seq_map, seq_f1, seq_b1, seq_t1, seq_f2, seq_b2, seq_t2, seq_out)",
        "seq_run1(seq_map, seq_f1, seq_b1, seq_t2, seq_f2, seq_b2, seq_t1, seq_out)",
        PLANES,
        file=_RUNS,
    ),
    _of(
        "bands: mid has C0 channels",
        FUSED,
        "    channels = C0 if plan.conv2.planes else geometry.cmid\n",
        "    channels = C0\n",
        BLOCKS,
        file=_STREAMED,
    ),
    _of(
        "bands: the first wanted position of mid is not counted",
        FUSED,
        "band_skip1 * band_mid_width",
        "0",
        BLOCKS,
        2,
        _STREAMED,
    ),
    equivalent(
        "equivalent, streamed: a run of bands ends one earlier",
        ("pass1", "pass2"),
        Edit(_RUNS, "while end < last and", "while end < last - 1 and"),
        case=BLOCKS,
    ),
    equivalent(
        "equivalent, streamed: pass1 computes its bands from the last",
        PASS1,
        Edit(
            _STREAMED,
            "ConvBand(*band) for band in plan.pass1)",
            "ConvBand(*band) for band in plan.pass1[::-1])",
        ),
        case=BLOCKS,
    ),
    equivalent(
        "equivalent, streamed: blocks to GM from the last",
        ("fused", "pass1", "pass2", *FIRST_TILES),
        Edit(_STREAMS, "block2 * far_columns", "(far_blocks - 1 - block2) * far_columns", 21),
        case=BLOCKS,
    ),
)
