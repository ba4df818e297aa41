"""What a matrix may write of the plan of a convolution; everything else the planner chooses."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from kernels.tiles import Written

BAND_ROWS = "band_rows"

BAND_OPTION = {BAND_ROWS: "output rows of a band, at least 1; by default the plan chooses"}


CONTRACT = MappingProxyType(
    {"band_rows": 18, "tile_positions1": 112, "k_step1": 64, "tile_positions2": 112, "k_step2": 32}
)
"""How the contract tiles MC62, and so the shipped matrix; the planner's own choice takes fewer cycles."""


def tile_options(of: str = "", suffix: str = "") -> dict[str, str]:
    """The options of an ACC tile, each with its description.

    Args:
        of: says which convolution's they are, if there are several.
        suffix: of their names.
    """
    of = of and f" of {of}"
    return {
        f"tile_positions{suffix}": f"output positions of an ACC tile{of}, a multiple of 16; "
        "by default the plan chooses",
        f"k_step{suffix}": f"K in one step{of}, a multiple of 32 that divides K; by default the plan chooses",
        f"block_columns{suffix}": f"output channels of a block{of}, a multiple of 32 that divides them: "
        "the filter is streamed by blocks; by default the plan chooses",
    }


def written(options: Mapping[str, int], suffix: str = "") -> Written:
    """What the options say of an ACC tile."""
    positions, step, columns = (options.get(name, 0) for name in tile_options(suffix=suffix))
    return Written(positions, step, columns)
