"""Reads the output folder of CANN PyPTO: compiled program, cost, verification."""

from __future__ import annotations

import csv
import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from golden.specs import Array
from pipeline.engines.base import CompileError, InfrastructureError
from pipeline.engines.cann.casts import check_casts

PROGRAM = "program.json"

_TILE_GRAPH, _LEAF = 1, 3
"""Graph types of `program.json`: one function with all operations of a launch, and that of one task."""

_MEMORIES = {0: "ub", 1: "l1", 2: "l0a", 3: "l0b", 4: "l0c"}
_BYTES = {1: 1, 3: 4, 7: 4}
"""Size in bytes of the data types of these kernels, as numbered there: int8, int32, fp32."""

_INTERNAL = "internal"
"""The name for tensors without one: sums that pass between tasks, from the cube to the vector unit."""

_PLACES = frozenset({"file", "line", "backtrace"})


@dataclass(frozen=True)
class Program:
    """A compiled program.

    Attributes:
        digest: SHA-256 of `program.json` without source positions, so that it is the same in every checkout.
        read, written: by tensor, bytes read from and written to GM by all tasks.
        peaks: largest use of each on-chip memory by one task, in bytes.
    """

    digest: str
    read: Mapping[str, int]
    written: Mapping[str, int]
    peaks: Mapping[str, int]


def read_program(folder: Path) -> Program:
    """Read the compiled program in a folder.

    Raises:
        CompileError: it accesses GM outside a tensor, or rounds in a way that the verifier cannot judge.
        InfrastructureError: there is no program, or it has another form.
    """
    try:
        return _read_program(json.loads((folder / PROGRAM).read_bytes()))
    except (OSError, ValueError, LookupError) as error:
        raise InfrastructureError(f"{PROGRAM} cannot be read: {type(error).__name__}: {error}") from error


def _read_program(program: Mapping[str, Any]) -> Program:
    canonical = json.dumps(_without_places(program), sort_keys=True, separators=(",", ":")).encode()
    read: Counter[str] = Counter()
    written: Counter[str] = Counter()
    peaks: Counter[str] = Counter()
    for function in program["functions"]:
        if function["graphtype"] == _TILE_GRAPH:
            check_casts(function)
            _count_traffic(function, read, written)
        elif function["graphtype"] == _LEAF:
            for tensor in function["tensors"]:
                memory = _MEMORIES.get(tensor["mem_type"]["asis"])
                if memory:
                    peaks[memory] = max(peaks[memory], tensor["mem_range"][1])
    return Program(hashlib.sha256(canonical).hexdigest(), read, written, peaks)


def _count_traffic(function: Mapping[str, Any], read: Counter[str], written: Counter[str]) -> None:
    tensors = {tensor["magic"]: tensor for tensor in function["tensors"]}
    raw = {tensor["rawmagic"]: tensor for tensor in function["rawtensors"]}
    for operation in function["operations"]:
        if operation["opcode"] not in ("COPY_IN", "COPY_OUT"):
            continue
        source, target = tensors[operation["ioperands"][0]], tensors[operation["ooperands"][0]]
        inward = operation["opcode"] == "COPY_IN"
        outside, inside = (source, target) if inward else (target, source)
        _check_place(outside, raw[outside["rawtensor"]])
        size = int(np.prod(inside["validshape"])) * _BYTES[raw[inside["rawtensor"]]["datatype"]]
        (read if inward else written)[raw[outside["rawtensor"]].get("symbol", _INTERNAL)] += size


def _check_place(tensor: Mapping[str, Any], raw: Mapping[str, Any]) -> None:
    ends = [start + size for start, size in zip(tensor["offset"], tensor["shape"], strict=True)]
    if any(end > size for end, size in zip(ends, raw["rawshape"], strict=True)):
        raise CompileError(
            f"{raw.get('symbol', _INTERNAL)}: the compiled program addresses {ends} of it in GM, "
            f"but it is {raw['rawshape']}: the compiler accepts that silently"
        )


def _without_places(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_places(item) for key, item in value.items() if key not in _PLACES}
    return [_without_places(item) for item in value] if isinstance(value, list) else value


COST_REPORT = Path("CostModelSimulationOutput") / "_simulate.stat.report.txt"


def read_cycles(output: Path) -> int:
    """Cycles that the cost model estimates for the launch.

    Raises:
        InfrastructureError: its report is missing or has another form.
    """
    path = output / COST_REPORT
    found = re.search(r"^Total Cycles\.*:\s*(\d+)$", path.read_text() if path.exists() else "", re.MULTILINE)
    if found is None:
        raise InfrastructureError(f"the cost model left no total cycles in {COST_REPORT.name}")
    return int(found.group(1))


@dataclass(frozen=True)
class Verdict:
    """The verifier's verdict on one pass: whether all values are equal, and the largest difference."""

    compiler_pass: str
    passed: bool
    worst: float


VERDICTS = "verify_*/verify_result_brief.csv"

_GRAPH = "tensor_graph"


def read_verification(
    output: Path, shape: tuple[int, ...], dtype: np.dtype[np.generic]
) -> tuple[list[Verdict], Array]:
    """The verdicts in the order of the passes, and the tensor graph's output of shape [rows, channels].

    The output is read as raw bytes and must have as many elements as `shape`.

    Raises:
        InfrastructureError: the verifier left no verdict on the graph, or no such output.
    """
    paths = sorted(output.glob(VERDICTS))
    rows = list(csv.DictReader(paths[0].open(newline=""))) if paths else []
    graph = [row for row in rows if row["passName"] == _GRAPH]
    if len(graph) != 1:
        raise InfrastructureError(f"the verifier left {len(graph)} verdicts on the tensor graph: must be one")
    raw = np.fromfile(paths[0].parent / _GRAPH / graph[0]["outputTensor"], dtype)
    if raw.size != np.prod(shape):
        raise InfrastructureError(f"the verifier left an output of {raw.nbytes} bytes: must be {list(shape)}")
    verdicts = [
        Verdict(row["passName"], row["verifyResult"] == "PASS", float(row["maxAbsDiff"])) for row in rows
    ]
    return verdicts, raw.reshape(shape)
