"""How long the emulator takes for MC62's fused kernel, against the golden pair's own compute time.

Run as `python -m benchmarks.emulator_run`; on a busy machine with `OMP_NUM_THREADS=1`, so that processor
times are not those of threads that wait for one another. The two sides take turns, so that both are slowed
alike. A program is walked when it is compiled or first run; its further runs have only the data to compute.
A job on another profile of the kernel takes the walk from a file that an earlier job left: that is measured
against reading, walking and running in the same round.
One convolution and a matrix product, of the shipped matrix, are measured likewise, against their own goldens.

Peak memory is that of a process of its own that compiles and runs the kernel and never imports torch. It is
started first: a process begins with the peak of the one that starts it.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import emulator.language
from emulator.engine import compile_program, run_program
from emulator.kept import packed, unpacked
from emulator.program import Program
from emulator.soc import SOCS
from golden.geometry import MC62, Conv, ConvGeometry, GemmGeometry
from golden.specs import Tensors
from pipeline.ground.memory import untouched_output
from pipeline.ground.subject import Subject
from workloads.registry import workload_named
from workloads.tiling import CONTRACT

ROUNDS = 15
MEMORY = "--memory"
CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}

PAIR = Subject(workload_named("conv-pair"), MC62, "a2a3", CONTRACT)
OTHERS = {
    "conv": Subject(workload_named("conv"), ConvGeometry(144, 112, 64, 64, Conv(3, 2, 1)), "a2a3"),
    "gemm": Subject(workload_named("gemm"), GemmGeometry(1024, 576, 64), "a2a3"),
}


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def now() -> list[float]:
    """What each clock shows, in seconds."""
    return [clock() for clock in CLOCKS.values()]


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


def medians(subject: Subject, name: str) -> Mapping[str, Sequence[float]]:
    """Milliseconds by each clock, of the same rounds.

    They are those of the golden, of reading a program, walking it and running it, of packing its walk, and of
    unpacking and running it.
    """
    soc, tensors = SOCS[subject.soc], subject.definition.make("full-range", subject.geometry)
    given = arrays(subject, name, tensors)
    rounds = []
    for _ in range(ROUNDS + 3):
        times = [now()]
        subject.definition.compute(subject.geometry, tensors, "vreq8")
        times.append(now())
        program = build(subject, name)
        times.append(now())
        compile_program(program, soc)
        times.append(now())
        run_program(program, soc, given)
        times.append(now())
        data = packed(program, subject.soc)
        times.append(now())
        run_program(unpacked(data), soc, given)
        times.append(now())
        rounds.append(times)
    taken = 1e3 * np.diff(rounds[3:], axis=1)
    return dict(zip(CLOCKS, np.median(taken, axis=0).T, strict=True))


def main() -> None:
    """Print medians, the ratios of the two sides, and the peak memory."""
    child = [sys.executable, "-m", "benchmarks.emulator_run", MEMORY]
    peak = int(subprocess.run(child, check=True, capture_output=True, text=True).stdout)
    print(f"pair, peak memory, no torch: {peak / 2**20:.0f} MB (allowed: 300)")
    for what, subject in {"pair": PAIR, **OTHERS}.items():
        allowed = " (allowed: 10)" if subject is PAIR else ""
        for clock, taken in medians(subject, "fused" if subject is PAIR else what).items():
            golden, read, walk, run, _, kept = taken
            print(
                f"{what}, {clock}: golden {golden:.1f} ms, read {read:.1f}, walk {walk:.1f}, run {run:.1f}: "
                f"{run / golden:.1f} times the golden{allowed}, {(walk + run) / golden:.1f} with the walk; "
                f"from a kept walk {kept:.1f} ms, {(read + walk + run) / kept:.1f} times as fast as read, "
                f"walked and run"
            )


if __name__ == "__main__":
    memory() if MEMORY in sys.argv else main()
