"""ACC tiles: their K loops, how filters and maps come in for them, what they need and what they cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import inf

from golden.geometry import C0, FRACTAL_ROWS
from kernels.choice import PlanError, Use
from kernels.cost import Rates, Work

BIAS_BYTES, ENTRY_BYTES = 4, 8
"""Bytes of a bias (int32) and of a table entry (uint64)."""

CHANNEL_BYTES = BIAS_BYTES + ENTRY_BYTES
"""Bytes that an output channel has beside its column of the filter."""

ADDRESSED = 2**16
"""Positions in K, and pixels of an image, that img2col addresses."""

STORE_COLUMNS = 4095
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
        bands: positions of a band, and how many bands have them; the highest first.
        below: of each kind of band, its positions and the output rows below it that img2col can be asked for.
        depth: K of the convolution.
        channels: of the output.
        room: bytes of L1 for a piece of the filter and its rows.
        columns: output channels of a block, if only such are wanted; 0 for any.
        planes: C1 planes of the map, if it comes in one at a time.
        brought: cycles in which all these planes come in once.
        l0c: bytes of L0C that the tile may take; 0 for all.
        beside: channels whose entries are in the tables at the same time.
        written: what the matrix says.
    """

    limits: Limits
    width: int
    bands: tuple[tuple[int, int], ...]
    below: tuple[tuple[int, int], ...]
    depth: int
    channels: int
    room: int = 0
    columns: int = 0
    planes: int = 0
    brought: float = 0
    l0c: int = 0
    beside: int = 0
    written: Written = field(default_factory=Written)


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


def map_part(
    what: str, rows: int, columns: int, channels: int, *, by_planes: bool = False
) -> tuple[str, int]:
    """A feature map in L1, or one C1 plane of it, in words, and its bytes."""
    name = f"{what} of {rows} x {columns} pixels x {C0 if by_planes else channels} channels"
    return name, rows * columns * (C0 if by_planes else channels)


def staged_parts(depth: int, columns: int, suffix: str = "") -> list[tuple[str, int]]:
    """What L1 holds of a convolution: its filter, its rows of biases (int32) and table entries (uint64)."""
    name = f"filter{suffix} of {depth} x {columns}"
    return [(name, depth * columns), (f"bias and scale rows{suffix}", CHANNEL_BYTES * columns)]


def tile_uses(tiles: Sequence[Tile], limits: Limits, *, together: bool = False) -> Iterator[Use]:
    """The memory uses of the ACC tiles of convolutions, each with its `columns`.

    If they are there `together`, L0C and the tables hold all of them at once, else the largest.
    """
    yield Use("L0A", (("an ACC tile", max(tile.positions * tile.step for tile in tiles)),), limits.l0a)
    yield Use("L0B", (("an ACC tile", max(tile.step * tile.columns for tile in tiles)),), limits.l0b)
    accs = [("an ACC tile", 4 * tile.positions * tile.columns) for tile in tiles]
    biases = [(f"biases of {tile.columns} channels", BIAS_BYTES * tile.columns) for tile in tiles]
    entries = [(f"entries of {tile.columns} channels", ENTRY_BYTES * tile.columns) for tile in tiles]
    for memory, parts, limit in (
        ("L0C", accs, limits.l0c),
        ("the bias table", biases, limits.bias),
        ("the fixpipe table", entries, limits.fixpipe),
    ):
        yield Use(memory, tuple(parts) if together else (max(parts, key=lambda part: part[1]),), limit)


@lru_cache(maxsize=256)
def blocks_of(channels: int) -> tuple[int, ...]:
    """Numbers of channels that cut an output into equal blocks of whole C0, the most first."""
    widest = min(channels, STORE_COLUMNS) // C0 * C0
    return tuple(size for size in range(widest, 0, -C0) if channels % size == 0)


@lru_cache(maxsize=256)
def _divisors(number: int) -> tuple[int, ...]:
    """All divisors of a number, the smallest first."""
    return tuple(each for each in range(1, number + 1) if number % each == 0)


@dataclass(frozen=True)
class _Block:
    """A block of output channels and a K step that L0 and the tables hold, with ACC tiles up to `most`.

    `pieces` are numbers of slices of K of one C1 plane, or of the whole filter, each with the bytes of L1
    that a slice takes; the fewest first.
    """

    columns: int
    step: int
    most: int
    pieces: tuple[tuple[int, int], ...]


@lru_cache(maxsize=1024)
def _blocks(
    limits: Limits, depth: int, channels: int, columns: int, planes: int, l0c: int, beside: int, step: int
) -> tuple[_Block, ...]:
    """All that are possible, of the widest blocks and the shortest steps first; arguments as of `Asked`.

    img2col addresses the step of K that it is asked for by a position in K.
    """
    share, found = depth // max(planes, 1), []
    for wide in (columns,) if columns else blocks_of(channels):
        if BIAS_BYTES * (wide + beside) > limits.bias or ENTRY_BYTES * (wide + beside) > limits.fixpipe:
            continue
        for number in _divisors(share // C0):
            each = number * C0
            most = min(limits.l0a // each, l0c // (4 * wide)) // FRACTAL_ROWS * FRACTAL_ROWS
            last = share - each
            if most and each * wide <= limits.l0b and last < ADDRESSED and step in (0, each):
                cuts = _divisors(share // each)
                pieces = tuple((cut, filter_size(share // cut, wide)) for cut in cuts)
                found.append(_Block(wide, each, most, pieces))
    return tuple(found)


def _tiles_in(bands: Iterable[tuple[int, int]], size: int) -> int:
    """ACC tiles of so many positions that bands take, of which positions and numbers are given."""
    return sum(number * -(-positions // size) for positions, number in bands)


@lru_cache(maxsize=4096)
def _sizes(bands: tuple[tuple[int, int], ...], most: int) -> tuple[tuple[int, int], ...]:
    """Positions of ACC tiles that are worth a try, each with the tiles that all bands take; the most first.

    Each size has equal tiles in the highest band, and computes fewer positions than any larger one.
    """
    highest, found, fewest = bands[0][0], [], inf
    size = most
    while size:
        size = whole(-(-highest // -(-highest // size)), FRACTAL_ROWS)
        tiles = _tiles_in(bands, size)
        if tiles * size < fewest:
            fewest = tiles * size
            found.append((size, tiles))
        size -= FRACTAL_ROWS
    return tuple(found)


def cheapest_tile(asked: Asked) -> tuple[Tile, float]:
    """The ACC tile that is estimated to take the fewest cycles, and these: all that depend on it.

    Blocks of output channels, K steps, cuts of K and sizes are all tried. A cut has the fewest slices that
    fit. Of equal ones it is that with the fewest matmuls, then the widest block. If none fits, the smallest
    is given, of which the memories then say what they lack.
    """
    written, depth, rates = asked.written, asked.depth, asked.limits.rates
    planes, bands = max(asked.planes, 1), sum(number for _, number in asked.bands)
    best: Tile | None = None
    least = inf, 0
    for block in _blocks(
        asked.limits,
        depth,
        asked.channels,
        asked.columns or written.columns,
        asked.planes,
        asked.l0c or asked.limits.l0c,
        asked.beside,
        written.step,
    ):
        slices = next((number for number, size in block.pieces if size <= asked.room), 0)
        if not slices or written.positions > block.most:
            continue
        columns, step = block.columns, block.step
        blocks, steps = asked.channels // columns, depth // step
        for positions, tiles in _sizes_of(asked, block.most):
            matmuls = tiles * blocks * steps
            cycles = matmuls * (
                rates.matmul_start
                + positions * step * columns / _FRACTAL
                + positions * step / rates.l1_l0a
                + step * columns / rates.l1_l0b
            )
            times = tiles if asked.planes or slices > 1 else bands
            cycles += times * depth * asked.channels / rates.gm_l1 + tiles * blocks * asked.brought
            if (round(cycles, 3), matmuls) < least:
                pieces = slices * planes
                best = Tile(
                    -(-positions // asked.width), positions, step, steps, columns, pieces, asked.planes
                )
                least = round(cycles, 3), matmuls
    return best or _smallest(asked), least[0]


@lru_cache(maxsize=64)
def least_work(limits: Limits, depth: int, channels: int, written: Written = FREE) -> float:
    """Cycles that no ACC tile of a convolution undercuts for a position: those in L0 and in the cube.

    Conv1 has blocks of one C1 plane where mid comes by planes, so `columns` that are written count for
    nothing: a bound that is too low only makes the search longer.
    """
    rates = limits.rates
    return min(
        (
            (
                (rates.matmul_start + block.step * block.columns / rates.l1_l0b)
                / (written.positions or block.most)
                + block.step * block.columns / _FRACTAL
                + block.step / rates.l1_l0a
            )
            * (depth // block.step)
            * (channels // block.columns)
            for block in _blocks(limits, depth, channels, 0, 0, limits.l0c, 0, written.step)
            if written.positions <= block.most
        ),
        default=0,
    )


def check_step(asked: Asked, what: str, suffix: str = "") -> None:
    """Refuse a written K step that is no part of one C1 plane's K where a map comes in by planes.

    `what` names the map, `suffix` is that of the names by which the matrix writes the step.

    Raises:
        PlanError: it does not divide it.
    """
    if asked.planes and (share := asked.depth // asked.planes) % (step := asked.written.step or C0):
        name = f"k_step{suffix}"
        rule = f"where {what} comes by planes it must divide K of one C1 plane, {share}"
        raise PlanError(f"{name} is {step}: {rule}", option=name)


def resident_tile(asked: Asked, suffix: str = "") -> Tile:
    """The cheapest ACC tile of a convolution whose filter is in L1 throughout; its columns are all.

    `suffix` is that of the names by which a matrix writes it.

    Raises:
        PlanError: a block of output channels is written, so the filter is streamed.
    """
    if asked.written.columns:
        name = f"block_columns{suffix}"
        raise PlanError(f"{name} is {asked.written.columns}: blocks are streamed", option=name)
    room = filter_size(asked.depth, asked.channels)
    tile, _ = cheapest_tile(replace(asked, columns=asked.channels, room=room))
    return replace(tile, columns=0, slices=1)


def _sizes_of(asked: Asked, most: int) -> Sequence[tuple[int, int]]:
    """Positions of tiles, each with the tiles that all bands take.

    img2col can be asked for all of them. If that is true of none that is worth a try, it is the smallest.
    """
    sizes = () if asked.written.positions else _sizes(asked.bands, most)
    possible = [
        (size, tiles)
        for size, tiles in sizes
        if all(
            (whole(positions, size) - 1) // asked.width - (positions - 1) // asked.width <= rows
            for positions, rows in asked.below
        )
    ]
    size = asked.written.positions or FRACTAL_ROWS
    return possible or [(size, _tiles_in(asked.bands, size))]


def _smallest(asked: Asked) -> Tile:
    """The smallest ACC tile, with the smallest pieces of the filter."""
    positions, step = asked.written.positions or FRACTAL_ROWS, asked.written.step or C0
    columns, steps = asked.columns or asked.written.columns or C0, asked.depth // step
    return Tile(-(-positions // asked.width), positions, step, steps, columns, steps, asked.planes)


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
    return (times * tile.step * tile.steps + CHANNEL_BYTES) * channels


def filter_size(depth: int, channels: int) -> int:
    """Bytes of a filter and its rows."""
    return (depth + CHANNEL_BYTES) * channels


def map_times(tile: Tile, channels: int, positions: int) -> int:
    """How often a band of so many positions brings in its feature map."""
    return tile.count(positions) * (channels // tile.columns) if tile.planes else 1


def tables_work(channels: int) -> Work:
    """The work of bringing biases and table entries of so many channels into their tables."""
    return Work(l1_tables=CHANNEL_BYTES * channels)


def pass_work(
    tile: Tile, channels: int, read: int, bands: Mapping[tuple[int, int], int], *, once: bool
) -> Work:
    """The work of a convolution from GM into GM.

    Args:
        tile: its ACC tile.
        channels: of the output.
        read: channels of the input.
        bands: positions of a band and the pixels that it reads, and how many bands have them.
        once: whether the filter and its rows come in once, and not for each band.
    """
    depth = tile.step * tile.steps
    work = tables_work(channels) + Work(gm_l1=filter_size(depth, channels)) if once else Work()
    for (positions, pixels), number in bands.items():
        band = conv_work(tile, positions, channels, to_gm=True)
        band += Work(gm_l1=map_times(tile, channels, positions) * pixels * read)
        if not once:
            band += tables_work(channels) + Work(gm_l1=filter_bytes(tile, channels, positions))
        work += band * number
    return work


def tile_in_words(tile: Tile, channels: int) -> str:
    """An ACC tile and its K loop."""
    return (
        f"ACC tiles of {tile.positions} positions x {tile.columns or channels} of {channels} channels, "
        f"{tile.steps} K step{'s' * (tile.steps > 1)} of {tile.step}"
        + (f", the filter in {tile.slices} slices of K" if tile.slices > 1 else "")
        + (f", the map in {tile.planes} C1 planes" if tile.planes else "")
    )
