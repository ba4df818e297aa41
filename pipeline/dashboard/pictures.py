"""What is drawn of a run: when jobs ran on which device, and where a program's tiles lie in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec

from pipeline.ground.jobs import Result, State

_TILES = 60
"""Tiles of a memory that are drawn at most; a program of many bands has the same ones again and again."""

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


class _Report(msgspec.Struct, frozen=True):
    memory: dict[str, dict[str, Memory]] = {}


@dataclass(frozen=True)
class Map:
    """The map of one memory of a stage's program. `left_out` counts tiles that are not drawn."""

    what: str
    memory: Memory
    left_out: int


@dataclass(frozen=True)
class Bar:
    """A job on a device: its row, when it began and how long it took, in seconds of the run."""

    result: Result
    row: int
    start: float
    seconds: float


def maps_of(stage: str, report: Path) -> Iterator[Map]:
    """The maps that a report of a program has; none if it cannot be read, or says nothing of memory."""
    try:
        if report.stat().st_size > _LARGEST:
            return
        found = msgspec.json.decode(report.read_bytes(), type=_Report)
    except (OSError, msgspec.MsgspecError, ValueError):
        return
    for core, memories in found.memory.items():
        for name, memory in memories.items():
            # The tiles of a loop's second turn are those of its first.
            once = {(tile.name, tile.address, tile.bytes): tile for tile in reversed(memory.tiles)}
            tiles = tuple(reversed(once.values()))
            if len(tiles) > 1 and memory.capacity:  # the picture of a single tile says nothing
                drawn = Memory(memory.capacity, memory.peak, tiles[:_TILES])
                yield Map(f"{stage}: {name} of {core}", drawn, len(tiles[_TILES:]))


def timeline(results: Sequence[Result], started: str) -> tuple[list[str], list[Bar]]:
    """Names of the rows, one for each device and each place of jobs without one, and the bars in them."""
    rows: list[str] = []
    ends: list[float] = []
    bars = []
    for one, begin in sorted(_begun(results, started), key=lambda each: each[1]):
        place = f"{one.job.platform_name}, " + ("no device" if one.device is None else f"device {one.device}")
        free = (row for row, name in enumerate(rows) if name == place and ends[row] <= begin + 1)
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
