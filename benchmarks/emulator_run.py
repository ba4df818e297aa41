"""How long the emulator takes for MC62's fused kernel, against the golden pair's own compute time.

Run as `python -m benchmarks.emulator_run`, with `OMP_NUM_THREADS=1` for processor times without threads that
wait for one another. The two sides take turns, so that a busy machine slows both alike. Peak memory is that of
a process of its own that compiles and runs the kernel and never imports torch. One convolution and a matrix
product, of the shipped matrix, are measured likewise, each against its own golden.

A program is walked when it is compiled or first run; further runs keep the walk.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import emulator.language
from emulator.engine import compile_program, run_program
from emulator.program import Program
from emulator.soc import SOCS
from golden.geometry import MC62, Conv, ConvGeometry, GemmGeometry
from golden.specs import Tensors
from pipeline.ground.memory import untouched_output
from pipeline.ground.subject import Subject
from workloads.registry import workload_named

ROUNDS = 15
MEMORY = "--memory"

PAIR = Subject(workload_named("conv-pair"), MC62, "a2a3")
OTHERS = {
    "conv": Subject(workload_named("conv"), ConvGeometry(144, 112, 64, 64, Conv(3, 2, 1)), "a2a3"),
    "gemm": Subject(workload_named("gemm"), GemmGeometry(1024, 576, 64), "a2a3"),
}


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def build(subject: Subject, name: str) -> Program:
    """A program, read by the emulator."""
    program: Program = subject.program(name).build(emulator.language, subject.plan)
    return program


def arrays(subject: Subject, name: str, tensors: Tensors) -> Mapping[str, Any]:
    """A program's inputs and an output to write to."""
    entry = subject.program(name)
    output = untouched_output(*subject.workload.output_of(name, subject.geometry, subject.plan))
    return {**tensors.arrays("vreq8"), entry.output: output}


def memory() -> None:
    """Compile and run once and print the peak resident memory of this process, in bytes."""
    program, soc = build(PAIR, "fused"), SOCS[PAIR.soc]
    compile_program(program, soc)
    run_program(program, soc, arrays(PAIR, "fused", PAIR.definition.make("small", MC62)))
    if "torch" in sys.modules:
        raise SystemExit("torch was imported: this would not be the emulator's own memory")
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


Times = tuple[float, float]
"""Seconds: on the wall, and of the processor."""


def times(work: Callable[[], object]) -> Times:
    """Both times of one call."""
    start = time.process_time()
    return seconds(work), time.process_time() - start


def medians(subject: Subject, name: str) -> Sequence[Times]:
    """Times of the golden, of reading a program, of walking it, and of running it when it was walked."""
    soc, tensors = SOCS[subject.soc], subject.definition.make("full-range", subject.geometry)
    given = arrays(subject, name, tensors)
    rounds = []
    for _ in range(ROUNDS + 3):
        golden = times(lambda: subject.definition.compute(subject.geometry, tensors, "vreq8"))
        read = times(lambda: build(subject, name))
        program = build(subject, name)
        works = (lambda: compile_program(program, soc), lambda: run_program(program, soc, given))  # noqa: B023
        rounds.append((golden, read, *map(times, works)))
    columns = zip(*rounds[3:], strict=True)
    return [(statistics.median(w for w, _ in each), statistics.median(p for _, p in each)) for each in columns]


def main() -> None:
    """Print medians, the ratios of the two sides, and the peak memory."""
    child = [sys.executable, "-m", "benchmarks.emulator_run", MEMORY]
    peak = int(subprocess.run(child, check=True, capture_output=True, text=True).stdout)
    print("                    wall, processor")
    for what, (subject, name) in {"pair, fused": (PAIR, "fused"), **OTHERS}.items():
        golden, read, walk, run = medians(subject, name)
        print(f"{what}")
        for side, (wall, processor) in {"golden": golden, "read": read, "walk": walk, "run": run}.items():
            print(f"    {side:12} {wall * 1e3:8.1f} {processor * 1e3:8.1f} ms")
        ...


if __name__ == "__main__":
    memory() if MEMORY in sys.argv else main()
