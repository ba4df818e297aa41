"""How long the emulator takes for MC62's fused kernel, against the golden pair's own compute time.

Run as `python -m benchmarks.emulator_run`. The two sides take turns, so that a busy machine slows both alike.
Peak memory is that of a process of its own that compiles and runs the kernel and never imports torch.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from kernels.catalogue import PROGRAMS

import emulator.language
from emulator.engine import compile_program, run_program
from emulator.program import Program
from emulator.soc import SOCS
from golden import profiles
from golden.geometry import MC62
from golden.specs import Tensors
from kernels.plan import Plan
from pipeline.ground.tiling import plan_for

ROUNDS = 15
MEMORY = "--memory"


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def build(plan: Plan) -> Program:
    """The fused kernel, read by the emulator."""
    program: Program = PROGRAMS["fused"].build(emulator.language, plan)
    return program


def arrays(plan: Plan, tensors: Tensors) -> Mapping[str, Any]:
    """The kernel's inputs and an output to write to."""
    fused = PROGRAMS["fused"]
    return {**tensors.arrays("vreq8"), fused.output: np.zeros(fused.output_shape(plan), np.int8)}


def memory() -> None:
    """Compile and run once and print the peak resident memory of this process, in bytes."""
    plan = plan_for(MC62, "a2a3", None)
    program = build(plan)
    compile_program(program, SOCS["a2a3"])
    run_program(program, SOCS["a2a3"], arrays(plan, profiles.make("small", MC62)))
    if "torch" in sys.modules:
        raise SystemExit("torch was imported: this would not be the emulator's own memory")
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def main() -> None:
    """Print medians, the ratio of the two sides, and the peak memory."""
    from golden.reference import reference

    plan, soc, tensors = plan_for(MC62, "a2a3", None), SOCS["a2a3"], profiles.make("full-range", MC62)
    program, given = build(plan), arrays(plan, tensors)
    rounds = [
        (
            seconds(lambda: reference(MC62, tensors)),
            seconds(lambda: build(plan)),
            seconds(lambda: compile_program(program, soc)),
            seconds(lambda: run_program(program, soc, given)),
        )
        for _ in range(ROUNDS + 3)
    ][3:]
    golden, read, compiled, run = (statistics.median(column) for column in zip(*rounds, strict=True))
    child = [sys.executable, "-m", "benchmarks.emulator_run", MEMORY]
    peak = int(subprocess.run(child, check=True, capture_output=True, text=True).stdout)
    print(f"golden pair             {golden * 1e3:8.1f} ms")
    print(f"fused, read             {read * 1e3:8.1f} ms")
    print(f"fused, compile          {compiled * 1e3:8.1f} ms")
    print(f"fused, run              {run * 1e3:8.1f} ms   {run / golden:.1f} times the golden (allowed: 10)")
    print(f"peak memory, no torch   {peak / 2**20:8.0f} MB   (allowed: 400)")


if __name__ == "__main__":
    memory() if MEMORY in sys.argv else main()
