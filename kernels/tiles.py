"""ACC tiles: their K loops, how filters and maps come in for them, what they need and what they cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import gcd, inf

from golden.geometry import C0, FRACTAL_ROWS
from kernels.choice import PlanError, Use
from kernels.cost import Rates, Work

LONGEST_STEP = 64
"""K in one step of a convolution that reads x, if its whole K is a multiple of this."""

_STORE_COLUMNS = 4095
"""Most columns that one store from L0C takes."""

_FRACTAL = 16 * 32 * 16
"""Products of a fractal."""


@dataclass(frozen=True)
class Limits:
    """Capacities in bytes of the memories a plan must respect, and the rates by which plans are compared."""

    l1: int
    l0a: int
    l0b: int
    l0c: int
    bias: int
    fixpipe: int
    rates: Rates = field(default_factory=Rates)


@dataclass(frozen=True)
class Tile:
    """An ACC tile of `positions` output positions, with `steps` K steps of size `step`.

    It touches `rows` image rows, which are whole if the width allows it. It has `columns` output channels;
    0 stands for all of them. If there are several `slices`, it brings the filter in by as many slices of K.
    If there are `planes`, the feature map comes in too, one of so many C1 planes at a time, each with its
    equal share of the slices.
    """

    rows: int
    positions: int
    step: int
    steps: int
    columns: int = 0
    slices: int = 1
    planes: int = 0

    @property
    def slice(self) -> int:
        """K of a slice of the filter."""
        return self.step * self.steps // self.slices

    def count(self, positions: int) -> int:
        """Tiles that so many positions take."""
        return -(-positions // self.positions)

    def rest(self, positions: int) -> int:
        """Positions that the last of these tiles computes for them; the others of it are never stored."""
        return positions - (self.count(positions) - 1) * self.positions

    def ragged(self, positions: int) -> int:
        """The number of the last tile if it has positions that are not wanted; -1 if all are whole."""
        return -1 if positions % self.positions == 0 else self.count(positions) - 1


def row_unit(width: int) -> int:
    """The fewest rows of an image of `width` columns whose pixels are whole fractals."""
    return FRACTAL_ROWS // gcd(FRACTAL_ROWS, width)


def whole(number: int, unit: int) -> int:
    """The smallest multiple of a unit that is not below a number."""
    return -(-number // unit) * unit


@dataclass(frozen=True)
class Written:
    """What a matrix writes of an ACC tile: positions, K step, output channels of a block; 0: it does not."""

    positions: int = 0
    step: int = 0
    columns: int = 0


@dataclass(frozen=True)
class Asked:
    """What an ACC tile is chosen for.

    Attributes:
        limits: of the memories.
        width: columns of the output.
        positions: of the highest band.
        depth: K of the convolution.
        channels: of the output.
        longest: the longest K step of a filter that is in L1 throughout.
        room: bytes of L1 for a piece of the filter and its rows, if it is streamed.
        planes: C1 planes of the map, if it comes in one at a time.
        brought: cycles in which all these planes come in once.
        columns: output channels of a block, if only such are wanted; 0 for any.
        l0c: bytes of L0C that the tile may take.
        beside: channels whose entries are in the tables at the same time.
        written: what the matrix says.
        whole: whether only blocks of whole K are wanted, for ACC tiles as `acc_tile` gives them.
    """

    limits: Limits
    width: int
    positions: int
    depth: int
    channels: int
    longest: int
    room: int = 0
    planes: int = 0
    brought: float = 0
    columns: int = 0
    l0c: int = 0
    beside: int = 0
    written: Written = field(default_factory=Written)
    whole: bool = False


FREE = Written()


def check_written(written: Written, suffix: str, depth: int, channels: int) -> None:
    """Refuse what no ACC tile of a convolution can be.

    Args:
        written: what the matrix says.
        suffix: of the names by which it says so.
        depth: K of the convolution.
        channels: of its output.

    Raises:
        PlanError: a number is no whole fractals, or does not cut K or the channels into equal parts.
    """
    name = f"tile_positions{suffix}"
    if written.positions % FRACTAL_ROWS:
        rule = f"must be a multiple of {FRACTAL_ROWS}"
        raise PlanError(f"{name} is {written.positions}: {rule}", option=name)
    for name, value, of, what in (
        (f"k_step{suffix}", written.step, depth, "K"),
        (f"block_columns{suffix}", written.columns, channels, "the output channels"),
    ):
        if value and (value % C0 or of % value):
            rule = f"must be a multiple of {C0} that divides {what}, {of}"
            raise PlanError(f"{name} is {value}: {rule}", option=name)


def acc_tile(asked: Asked) -> Tile:
    """The ACC tile of a convolution whose filter is in L1 throughout.

    There are as many tiles as of the fewest whole rows that are whole fractals, or more if such a tile is too
    large for L0; all are equal, so that the last one has the fewest positions that are not wanted. K steps
    are the longest if possible, else C0.

    Raises:
        PlanError: a block of output channels is written, so the filter is streamed.
    """
    if asked.written.columns and not asked.whole:
        raise PlanError(f"blocks of {asked.written.columns} output channels are streamed")
    limits, written, depth = asked.limits, asked.written, asked.depth
    step = written.step or (asked.longest if depth % asked.longest == 0 else C0)
    most = min(limits.l0a // step, limits.l0c // (4 * asked.channels)) // FRACTAL_ROWS * FRACTAL_ROWS
    size = max(min(row_unit(asked.width) * asked.width, most), FRACTAL_ROWS)
    tile = written.positions or _equal_tiles(asked.positions, size)
    return Tile(-(-tile // asked.width), tile, step, depth // step)


def _equal_tiles(positions: int, most: int) -> int:
    """Positions of the ACC tiles that so many positions are cut into, if a tile has at most `most`."""
    return whole(-(-positions // -(-positions // most)), FRACTAL_ROWS)


def map_part(
    what: str, rows: int, columns: int, channels: int, *, by_planes: bool = False
) -> tuple[str, int]:
    """A feature map in L1, or one C1 plane of it, in words, and its bytes."""
    name = f"{what} of {rows} x {columns} pixels x {C0 if by_planes else channels} channels"
    return name, rows * columns * (C0 if by_planes else channels)


def staged_parts(depth: int, columns: int, suffix: str = "") -> list[tuple[str, int]]:
    """What L1 holds of a convolution: its filter, its rows of biases (int32) and table entries (uint64)."""
    name = f"filter{suffix} of {depth} x {columns}"
    return [(name, depth * columns), (f"bias and scale rows{suffix}", 12 * columns)]


def tile_uses(tiles: Sequence[Tile], limits: Limits, *, together: bool = False) -> Iterator[Use]:
    """The memory uses of the ACC tiles of convolutions, each with its `columns`.

    If they are there `together`, L0C and the tables hold all of them at once, else the largest.
    """
    yield Use("L0A", (("an ACC tile", max(tile.positions * tile.step for tile in tiles)),), limits.l0a)
    yield Use("L0B", (("an ACC tile", max(tile.step * tile.columns for tile in tiles)),), limits.l0b)
    accs = [("an ACC tile", 4 * tile.positions * tile.columns) for tile in tiles]
    biases = [(f"biases of {tile.columns} channels", 4 * tile.columns) for tile in tiles]
    entries = [(f"entries of {tile.columns} channels", 8 * tile.columns) for tile in tiles]
    for memory, parts, limit in (
        ("L0C", accs, limits.l0c),
        ("the bias table", biases, limits.bias),
        ("the fixpipe table", entries, limits.fixpipe),
    ):
        yield Use(memory, tuple(parts) if together else (max(parts, key=lambda part: part[1]),), limit)


@lru_cache(maxsize=256)
def blocks_of(channels: int) -> tuple[int, ...]:
    """Numbers of channels that cut an output into equal blocks of whole C0, the most first."""
    widest = min(channels, _STORE_COLUMNS) // C0 * C0
    return tuple(size for size in range(widest, 0, -C0) if channels % size == 0)


@lru_cache(maxsize=256)
def _divisors(number: int) -> tuple[int, ...]:
    """All divisors of a number, the smallest first."""
    return tuple(each for each in range(1, number + 1) if number % each == 0)


def streamed_tile(asked: Asked) -> tuple[Tile, float]:
    """The ACC tile of a convolution whose filter is streamed, and the cycles that depend on it.

    Of all blocks of output channels, K steps and cuts of K that fit, those are taken that are estimated to
    take the fewest cycles. A cut has the fewest slices that fit; tiles are equal, and as large as L0 allows.
    If none fits, the smallest is given, of which the memories then say what they lack.
    """
    if asked.whole:
        return _whole_block(asked), 0
    limits, written, depth = asked.limits, asked.written, asked.depth
    rates, share = limits.rates, depth // max(asked.planes, 1)
    if share % (written.step or C0):
        raise PlanError(f"a K step of {written.step} does not divide the {share} of K of a C1 plane")
    step = written.step or C0
    smallest = Tile(
        0,
        written.positions or FRACTAL_ROWS,
        step,
        depth // step,
        asked.columns or written.columns or C0,
        depth // step,
        asked.planes,
    )
    best, least = smallest, inf
    for columns in (asked.columns,) if asked.columns else blocks_of(asked.channels):
        if written.columns not in (0, columns):
            continue
        beside = columns + asked.beside
        if 4 * beside > limits.bias or 8 * beside > limits.fixpipe:
            continue
        blocks = asked.channels // columns
        for number in _divisors(share // C0):
            step, steps = number * C0, share // (number * C0)
            most = min(limits.l0a // step, (asked.l0c or limits.l0c) // (4 * columns))
            most = most // FRACTAL_ROWS * FRACTAL_ROWS
            if not most or step * columns > limits.l0b or written.step not in (0, step):
                continue
            cuts = (each for each in _divisors(steps) if (share // each + 12) * columns <= asked.room)
            slices = next(cuts, 0)
            if not slices or written.positions > most:
                continue
            positions = written.positions or _equal_tiles(asked.positions, most)
            count = -(-asked.positions // positions)
            matmuls = count * blocks * (depth // step)
            cycles = matmuls * (
                rates.matmul_start
                + positions * step * columns / _FRACTAL
                + positions * step / rates.l1_l0a
                + step * columns / rates.l1_l0b
            )
            times = count if asked.planes or slices > 1 else 1
            cycles += times * depth * asked.channels / rates.gm_l1 + count * blocks * asked.brought
            if cycles < least:
                rows, pieces = -(-positions // asked.width), slices * max(asked.planes, 1)
                best = Tile(rows, positions, step, depth // step, columns, pieces, asked.planes)
                least = cycles
    return (best if best.rows else replace(best, rows=-(-best.positions // asked.width))), least


def cheapest_tile(asked: Asked) -> Tile:
    """The ACC tile of a filter in L1 throughout that is estimated to take the fewest cycles."""
    whole_filter = (asked.depth + 12) * asked.channels
    return streamed_tile(replace(asked, columns=asked.channels, room=whole_filter))[0]


def as_written(tile: Tile) -> Written:
    """What a matrix writes to get an ACC tile of a filter in L1 throughout."""
    return Written(tile.positions, tile.step)


def in_options(tile: Tile, suffix: str) -> str:
    """The same in the matrix's words; `suffix` is that of the names."""
    return f"tile_positions{suffix}: {tile.positions}, k_step{suffix}: {tile.step}"


def _whole_block(asked: Asked) -> Tile:
    """The ACC tile of `acc_tile` for the widest block of output channels that fits, or else the narrowest."""
    for columns in (asked.written.columns,) if asked.written.columns else blocks_of(asked.channels):
        tile = replace(acc_tile(replace(asked, channels=columns)), columns=columns)
        in_l1 = (asked.depth + 12) * columns <= asked.room
        if in_l1 and all(use.needed <= use.limit for use in tile_uses([tile], asked.limits)):
            break
    return tile


def conv_work(tile: Tile, positions: int, channels: int, *, to_gm: bool) -> Work:
    """The work of a convolution of so many positions and output channels, what is loaded from GM apart."""
    columns = tile.columns or channels
    tiles = tile.count(positions) * (channels // columns)
    matmuls, stored = tiles * tile.steps, positions * channels
    return Work(
        l1_l0a=matmuls * tile.positions * tile.step,
        l1_l0b=matmuls * tile.step * columns,
        l0c_l1=0 if to_gm else stored,
        l0c_gm=stored if to_gm else 0,
        matmuls=matmuls,
        fractals=matmuls * (tile.positions // FRACTAL_ROWS) * (tile.step // C0) * (columns // FRACTAL_ROWS),
    )


def filter_bytes(tile: Tile, channels: int, positions: int) -> int:
    """Bytes that a band of so many positions brings in of a streamed filter and its rows."""
    times = tile.count(positions) if tile.slices > 1 else 1
    return (times * tile.step * tile.steps + 12) * channels


def map_times(tile: Tile, channels: int, positions: int) -> int:
    """How often a band of so many positions brings in its feature map."""
    return tile.count(positions) * (channels // tile.columns) if tile.planes else 1


def tables_work(channels: int) -> Work:
    """The work of bringing biases and table entries of so many channels into their tables."""
    return Work(l1_tables=12 * channels)


def tile_in_words(tile: Tile, channels: int) -> str:
    """An ACC tile and its K loop."""
    return (
        f"ACC tiles of {tile.positions} positions x {tile.columns or channels} of {channels} channels, "
        f"{tile.steps} K steps of {tile.step}"
        + (f", the filter in {tile.slices} slices of K" if tile.slices > 1 else "")
        + (f", the map in {tile.planes} C1 planes" if tile.planes else "")
    )
