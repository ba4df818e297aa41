"""What is drawn of a run: when jobs ran on which device, a program's bands, and its tiles in memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec

from pipeline.ground.cuts import Band, Cut
from pipeline.ground.jobs import State
from pipeline.ground.results import Result

_TILES = 60
"""Tiles of a memory that are drawn at most; a program of many bands has the same ones again and again."""

_BANDS = 60
"""Bands of an image that are drawn at most."""

_MOST_CUTS = 300
"""Lines between the tiles of a band that are drawn at most."""

_MOST_TICKS = 6

_SOON = 0.1
"""Seconds by which a device's next job may begin before the clock says that the last one ended."""

_LARGEST = 16 * 1024**2
"""Bytes of a report of the emulator that is read."""


class Tile(msgspec.Struct, frozen=True):
    """A tile in memory, in bytes, and the lines of the kernel that made it and used it last."""

    name: str
    address: int
    bytes: int
    created: str = ""
    last_used: str = ""


class Memory(msgspec.Struct, frozen=True):
    """A memory and the tiles that a program has in it, in the order in which it makes them; in bytes."""

    capacity: int
    peak: int
    tiles: tuple[Tile, ...] = ()


class ProgramReport(msgspec.Struct, frozen=True):
    """What is drawn of the emulator's report of a program."""

    memory: dict[str, dict[str, Memory]] = {}
    cuts: tuple[Cut, ...] = ()


@dataclass(frozen=True)
class Map:
    """The map of one memory of a stage's program. `left_out` counts tiles that are not drawn."""

    what: str
    memory: Memory
    left_out: int


@dataclass(frozen=True)
class BandPicture:
    """A band: its place in the order of computation, and how many of its first rows are done again.

    `again` counts output rows that an earlier band computes too, and `halo` input rows that an earlier one
    reads too. `ticks` are the rows at which its tiles meet.
    """

    band: Band
    turn: int
    again: int
    halo: int
    ticks: Sequence[int]


@dataclass(frozen=True)
class PlanPicture:
    """The bands of an image of a stage's program. `left_out` counts bands that are not drawn."""

    stage: str
    cut: Cut
    bands: Sequence[BandPicture]
    left_out: int

    @property
    def in_order(self) -> bool:
        """Whether the bands are computed from the top of the image to its bottom."""
        return list(self.cut.turns) == sorted(self.cut.turns)

    @property
    def halo(self) -> int:
        """Input rows that are read by one band more than they need be, counted once for each such band."""
        return sum(one.halo for one in self.bands)


@dataclass(frozen=True)
class Bar:
    """A job on a device: its row, when it began and how long it took, in seconds of the run."""

    result: Result
    row: int
    start: float
    seconds: float


def report_of(path: Path) -> ProgramReport:
    """The report of a program; an empty one if it cannot be read, or says nothing of what is drawn."""
    try:
        if path.stat().st_size <= _LARGEST:
            return msgspec.json.decode(path.read_bytes(), type=ProgramReport)
    except (OSError, msgspec.MsgspecError, ValueError):
        pass
    return ProgramReport()


def plans_of(stage: str, report: ProgramReport) -> Iterator[PlanPicture]:
    """The pictures of how a stage's program cuts the images that it computes."""
    for cut in report.cuts:
        rows, written, read = [], 0, 0
        for band, turn in list(zip(cut.bands, cut.turns, strict=False))[:_BANDS]:
            end, read_end = band.row + band.rows, band.read_row + band.read_rows
            tiled = cut.tile_rows > 0 and band.rows <= _MOST_CUTS * cut.tile_rows
            ticks = range(band.row + cut.tile_rows, end, cut.tile_rows) if tiled else ()
            again, halo = max(0, min(written, end) - band.row), max(0, min(read, read_end) - band.read_row)
            rows.append(BandPicture(band, turn, again, halo, ticks))
            written, read = max(written, end), max(read, read_end)
        if rows and (cut.source or len(rows) > 1):  # a single band of which nothing is known says nothing
            yield PlanPicture(stage, cut, rows, len(cut.bands[_BANDS:]))


def maps_of(stage: str, found: ProgramReport) -> Iterator[Map]:
    """The maps of the memories of a stage's program."""
    for core, memories in found.memory.items():
        for name, memory in memories.items():
            # The tiles of a loop's second turn are those of its first.
            once = {(tile.name, tile.address, tile.bytes): tile for tile in reversed(memory.tiles)}
            tiles = tuple(reversed(once.values()))
            if len(tiles) > 1 and memory.capacity:  # the picture of a single tile says nothing
                drawn = Memory(memory.capacity, memory.peak, tiles[:_TILES])
                yield Map(f"{stage}: {name} of {core}", drawn, len(tiles[_TILES:]))


def ticks_of(longest: float) -> list[float]:
    """Round numbers from 0 to a length, at the same distance, at most seven."""
    least = max(longest, 0.001) / _MOST_TICKS
    power = 10.0 ** math.floor(math.log10(least))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least)
    return [number * step for number in range(int(longest / step) + 1)]


def timeline(results: Sequence[Result], started: str) -> tuple[list[str], list[Bar]]:
    """Names of the rows, one for each device and each place of jobs without one, and the bars in them."""
    rows: list[str] = []
    ends: list[float] = []
    bars = []
    for one, begin in sorted(_begun(results, started), key=lambda each: each[1]):
        place = f"{one.job.platform_name}, " + ("no device" if one.device is None else f"device {one.device}")
        free = (row for row, name in enumerate(rows) if name == place and ends[row] <= begin + _SOON)
        row = next(free, len(rows))
        if row == len(rows):
            rows.append(place)
            ends.append(0.0)
        bars.append(Bar(one, row, begin, one.seconds))
        ends[row] = begin + one.seconds
    order = sorted(range(len(rows)), key=lambda row: (rows[row], row))
    place_of: Mapping[int, int] = {row: index for index, row in enumerate(order)}
    return [rows[row] for row in order], [
        Bar(bar.result, place_of[bar.row], bar.start, bar.seconds) for bar in bars
    ]


def _begun(results: Sequence[Result], started: str) -> Iterator[tuple[Result, float]]:
    """The jobs that ran, and when each began, in seconds after the run, which a clock of seconds gives."""
    for one in results:
        if one.started and one.state is not State.SKIPPED:
            try:
                since = datetime.fromisoformat(one.started) - datetime.fromisoformat(started)
            except (ValueError, TypeError):
                continue
            yield one, max(0.0, since.total_seconds())
