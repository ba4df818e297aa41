"""Compiles one kernel with PyPTO, and runs it: `python -m pipeline.engines.pypto.worker ORDER.json`.

Runs under `PIPELINE_PYTHON`, one process per kernel because a process has only one backend. Needs the
standard library, NumPy and what PyPTO installs (torch, for a run).
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import statistics
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np

from pipeline.engines.host_faults import host_fault
from pipeline.engines.pypto.inquiry import words
from pipeline.engines.pypto.messages import BACKEND_TYPES, BEGUN, INPUTS, OUTPUT, REPLY, Order, Reply
from pipeline.ground.memory import limits_of, untouched_output
from pipeline.ground.results import TIMING, Blame, Metric, Source
from workloads.base import TileProgram
from workloads.registry import workload_named

_BUILD = "build"
_PASS_DUMPS = "passes_dump"
_ALLOCATED = "AllocateMemoryAddr"
_MEMORIES = {
    "Vec": "ub",
    "Mat": "l1",
    "Left": "l0a",
    "Right": "l0b",
    "Acc": "l0c",
    "Bias": "bias",
    "LeftScale": "fixpipe",
}
_KEPT = ("kernels/**/*.pto", "kernels/**/*.cpp", "orchestration/*.cpp", "report/*")
_WARMUP, _ROUNDS = 3, 20
"""Untimed and timed launches on a card; a simulator gets one, because its time says little."""

# CANN's codes for resources (207xxx) and for the runtime and the device (507xxx), such as 507018.
_DEVICE_ERROR = re.compile(r"(?<!\d)[25]07\d{3}(?!\d)")
_PLACE = re.compile(r"\[(\S+\.py):(\d+):\d+\]")
_NATIVE_STACK = "C++ Traceback"
_TABLE_ROW = re.compile(r"^ +(\S*) +\| (.+)$", re.MULTILINE)
"""A row of the table that code generation prints when it fails: a function or nothing, part of its error."""


def perform(order: Order, folder: Path) -> Reply:
    """Do an order in its folder. An exception of PyPTO becomes a refusal or failure in the reply."""
    workload = workload_named(order.workload, order.workload_file)
    geometry = built(workload.definition.geometry, order.geometry)
    device = workload.packing(geometry).device
    plan = workload.plan(device, limits_of(order.soc), order.plan_options)
    entry = workload.program(order.program)
    form = workload.output_of(order.program, device, plan)
    build = folder / _BUILD
    try:
        compiled = _compile(order, entry, plan, build)
    except (ImportError, OSError, MemoryError) as error:
        return Reply(failure=words(error), blames=Blame.HOST)
    except Exception as error:
        refusal = "\n".join(_refusal(error))
        if fault := _fault_of_host(error):
            return Reply(artefacts=_kept(build), failure=f"{fault}: {refusal}", blames=Blame.HOST)
        return Reply(artefacts=_kept(build), refusal=refusal)
    texts = b"".join(path.read_bytes() for path in sorted(build.rglob("*.pto")))
    facts = {"pto_sha256": hashlib.sha256(texts).hexdigest()}
    try:
        metrics = _memory(build, order)
    except (ImportError, AttributeError, OSError, ValueError, SyntaxError) as error:
        metrics, facts["memory"] = (), f"unavailable: {words(error)}"
    shutil.rmtree(build / _PASS_DUMPS, ignore_errors=True)
    reply = Reply(facts, _kept(build), metrics)
    if not order.run:
        return reply
    (folder / BEGUN).touch()
    try:
        timing, times = _run(order, entry, untouched_output(*form), compiled, build)
    except (ImportError, MemoryError) as error:
        return replace(reply, failure=words(error), blames=Blame.HOST)
    except Exception as error:
        if _DEVICE_ERROR.search(str(error)):
            return replace(reply, failure=words(error), blames=Blame.DEVICE)
        if fault := host_fault(words(error), compiling=False):
            return replace(reply, failure=f"{fault}: {words(error)}", blames=Blame.HOST)
        return replace(reply, failure=words(error))
    return replace(reply, facts=facts | timing, metrics=(*metrics, *times))


def built(kind: Any, fields: Mapping[str, Any]) -> Any:
    """A dataclass from its fields; fields that are mappings become dataclasses too."""
    hints = get_type_hints(kind)
    return kind(
        **{
            name: built(hints[name], value) if isinstance(value, Mapping) else value
            for name, value in fields.items()
        }
    )


def _compile(order: Order, entry: TileProgram, plan: Any, build: Path) -> Any:
    language, ir, backend = (import_module(f"pypto.{name}") for name in ("language", "ir", "backend"))
    return ir.compile(
        entry.build(language, plan),
        output_dir=str(build),
        backend_type=getattr(backend.BackendType, BACKEND_TYPES[order.soc]),
        platform=order.platform,
        skip_ptoas=not order.assemble,
        dump_passes=True,
        # PTOAS needs the source positions for its errors; without PTOAS they would only make files differ.
        emit_source_loc=order.assemble,
    )


def _run(
    order: Order, entry: TileProgram, output: Any, compiled: Any, build: Path
) -> tuple[dict[str, str], tuple[Metric, ...]]:
    """Run the kernel on the order's arrays, save what it writes to `output`, and time it.

    Returns:
        A fact that says why there is no time (if there is none), and the metrics of the time.
    """
    torch, runtime = import_module("torch"), import_module("pypto.runtime")
    inputs = [np.load(build.parent / INPUTS / f"{name}.npy") for name in entry.inputs]
    # torch has no arithmetic on uint64; PyPTO carries the scale tables as int64.
    inputs = [array.view(np.int64) if array.dtype == np.uint64 else array for array in inputs]
    where = {"platform": order.platform, "device_id": order.device}
    runtime.execute_compiled(build, [torch.from_numpy(array) for array in (*inputs, output)], **where)
    np.save(build.parent / OUTPUT, output)
    arguments = [torch.from_numpy(array.copy()) for array in (*inputs, output)]
    launches = {"rounds": 1, "warmup": 0} if order.simulated else {"rounds": _ROUNDS, "warmup": _WARMUP}
    try:
        stats = runtime.benchmark(compiled, arguments, **launches, **where)
    except RuntimeError as error:
        if _DEVICE_ERROR.search(str(error)):
            raise
        return {TIMING: f"unavailable: {words(error).splitlines()[0]}"}, ()
    name, clock, times = (
        ("host_us", Source.HOST_CLOCK, stats.host_wall_us)
        if order.simulated
        else ("device_us", Source.DEVICE_CLOCK, stats.device_wall_us)
    )
    median = round(statistics.median(times), 1)
    rounds = Metric("timed_rounds", len(times), "rounds", clock, model=order.model)
    return {}, (Metric(name, median, "us", clock, model=order.model), rounds)


def _refusal(error: Exception) -> Iterator[str]:
    """PyPTO's error, with the kernel's file and line first and without the stack of PyPTO's native code."""
    head, *rest = str(error).strip().partition(_NATIVE_STACK)[0].strip().splitlines() or [""]
    span, hint = getattr(error, "span", None), getattr(error, "hint", None)
    found = _PLACE.search(str(error))
    file, line = found.groups() if found else ("", "")
    if isinstance(span, Mapping):
        file, line = str(span.get("filename", "")), str(span.get("line", ""))
    head = " ".join([head, *(part for _, part in _TABLE_ROW.findall(str(error))[1:])])
    place = f"{Path(file).name}:{line}: " if file else ""
    yield f"{place}{type(error).__name__}: {head}" + (f" ({hint})" if hint else "")
    yield from rest


def _fault_of_host(error: Exception) -> str:
    """What fault of the host an error of compiling speaks of; empty if any part of it is about the kernel.

    An error with a place in the kernel's source is about the kernel.
    """
    if isinstance(getattr(error, "span", None), Mapping):
        return ""
    text = str(error).partition(_NATIVE_STACK)[0]
    rows: list[tuple[str, str]] = _TABLE_ROW.findall(text)
    complaints = [] if rows[:1] == [("Function", "Error")] else [text]
    for function, part in rows[1:] if not complaints else ():
        if function:
            complaints.append(part)
        else:
            complaints[-1] += f" {part}"
    faults = [host_fault(complaint, compiling=True) for complaint in complaints]
    return faults[0] if all(faults) else ""


def _memory(build: Path, order: Order) -> tuple[Metric, ...]:
    """Peak use of each memory, as PyPTO placed the tiles; raises the errors of reading PyPTO's dump."""
    maps = import_module("pypto.tools.memory_map")
    functions = maps.parse_dump(maps.resolve_dump(build, _ALLOCATED))
    limits = maps.backend_limits(BACKEND_TYPES[order.soc])
    peaks: dict[str, int] = {}
    for box in (box for function in functions for box in function.boxes):
        peaks[box.space] = max(peaks.get(box.space, 0), box.offset + box.size)
    return tuple(
        Metric(f"{_MEMORIES.get(space, space)}_peak", peak, "B", Source.COMPILER, limits.get(space))
        for space, peak in sorted(peaks.items())
    )


def _kept(build: Path) -> tuple[str, ...]:
    files = (path for pattern in _KEPT for path in sorted(build.glob(pattern)) if path.is_file())
    return tuple(str(path.relative_to(build.parent)) for path in files)


if __name__ == "__main__":
    given = Path(sys.argv[1])
    reply = perform(Order(**json.loads(given.read_text(encoding="utf-8"))), given.parent)
    (given.parent / REPLY).write_text(json.dumps(asdict(reply)), encoding="utf-8")
