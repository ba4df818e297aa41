"""The artefact of a compilation: the report of a walk as plain data, for JSON."""

from __future__ import annotations

from typing import Any

from emulator.counts import Estimate
from emulator.engine import Report
from emulator.memory import MemoryMap
from emulator.soc import Soc


def report_data(report: Report) -> dict[str, Any]:
    """The memory map, counts and estimate of a walk, in JSON's own types.

    Addresses and sizes are bytes; lifetimes are given by lines of first and last use; cycles are estimated.
    """
    counts = report.counts
    return {
        "program": report.program.name,
        "source": str(report.program.position),
        "soc": report.soc.name,
        "memory": {name: _memory(placed, report.soc) for name, placed in report.memory.items()},
        "moved_bytes": {f"{source} -> {target}": size for (source, target), size in counts.moved.items()},
        "gm_read_bytes": dict(counts.read),
        "gm_written_bytes": dict(counts.written),
        "operations": dict(counts.operations),
        "macs": counts.macs,
        "estimated_cycles": _cycles(report.estimate),
    }


def _memory(placed: MemoryMap, soc: Soc) -> dict[str, Any]:
    return {
        space.value: {
            "capacity": capacity,
            "peak": placed.peak(space),
            "tiles": [
                {
                    "name": tile.name,
                    "address": tile.address,
                    "bytes": tile.type.size,
                    "shape": list(tile.type.shape),
                    "dtype": tile.type.dtype.value,
                    "created": str(tile.position),
                    "last_used": str(tile.last_position),
                }
                for tile in placed.residents
                if tile.type.space is space
            ],
        }
        for space, capacity in soc.capacity.items()
    }


def _cycles(estimate: Estimate | None) -> dict[str, Any] | str:
    if estimate is None:
        return "unavailable: no public cost model for what this program does on this soc"
    return {**estimate.units, "serial": estimate.serial, "overlap": estimate.overlap}
