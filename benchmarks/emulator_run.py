"""How long the emulator takes for MC62's fused kernel, against the golden pair's own compute time.

Run as `python -m benchmarks.emulator_run`. The two sides take turns, so that a busy machine slows both alike.
Peak memory is that of a process of its own that compiles and runs the kernel and never imports torch. One
convolution and a matrix product, of the shipped matrix, are measured likewise, each against its own golden.
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
    output = untouched_output(*subject.output_of(name))
    return {**tensors.arrays("vreq8"), entry.output: output}


def memory() -> None:
    """Compile and run once and print the peak resident memory of this process, in bytes."""
    program, soc = build(PAIR, "fused"), SOCS[PAIR.soc]
    compile_program(program, soc)
    run_program(program, soc, arrays(PAIR, "fused", PAIR.definition.make("small", MC62)))
    if "torch" in sys.modules:
        raise SystemExit("torch was imported: this would not be the emulator's own memory")
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def medians(subject: Subject, name: str) -> tuple[float, ...]:
    """Seconds of the golden, of reading a program, of compiling it and of running it."""
    soc, tensors = SOCS[subject.soc], subject.definition.make("full-range", subject.geometry)
    program, given = build(subject, name), arrays(subject, name, tensors)
    rounds = [
        (
            seconds(lambda: subject.definition.compute(subject.geometry, tensors, "vreq8")),
            seconds(lambda: build(subject, name)),
            seconds(lambda: compile_program(program, soc)),
            seconds(lambda: run_program(program, soc, given)),
        )
        for _ in range(ROUNDS + 3)
    ][3:]
    return tuple(statistics.median(column) for column in zip(*rounds, strict=True))


def main() -> None:
    """Print medians, the ratio of the two sides, and the peak memory."""
    golden, read, compiled, run = medians(PAIR, "fused")
    child = [sys.executable, "-m", "benchmarks.emulator_run", MEMORY]
    peak = int(subprocess.run(child, check=True, capture_output=True, text=True).stdout)
    print(f"golden pair             {golden * 1e3:8.1f} ms")
    print(f"fused, read             {read * 1e3:8.1f} ms")
    print(f"fused, compile          {compiled * 1e3:8.1f} ms")
    print(f"fused, run              {run * 1e3:8.1f} ms   {run / golden:.1f} times the golden (allowed: 10)")
    print(f"peak memory, no torch   {peak / 2**20:8.0f} MB   (allowed: 400)")
    for name, subject in OTHERS.items():
        golden, read, compiled, run = medians(subject, name)
        print(
            f"{name}, golden/read/compile/run {golden * 1e3:.1f} / {read * 1e3:.1f} / {compiled * 1e3:.1f} / "
            f"{run * 1e3:.1f} ms   {run / golden:.1f} times its golden"
        )


if __name__ == "__main__":
    memory() if MEMORY in sys.argv else main()
