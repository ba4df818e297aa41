"""How long a proof takes, against the emulator's run of the same program.

Run as `python -m benchmarks.proof`. The two sides take turns, so that a busy machine slows both alike. Peak
memory is that of a process of its own that proves MC62's fused kernel.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys

from benchmarks.emulator_run import MEMORY, OTHERS, PAIR, ROUNDS, arrays, build, seconds
from emulator.engine import run_program
from emulator.soc import SOCS
from pipeline.ground.subject import Subject
from pipeline.work.proof import proof_of


def prove(subject: Subject, name: str) -> None:
    """Prove a program, which must succeed."""
    found = proof_of(subject, name, build(subject, name))
    if found.wrong:
        raise SystemExit(found.words)


def memory() -> None:
    """Prove once and print the peak resident memory of this process, in bytes."""
    prove(PAIR, "fused")
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def medians(subject: Subject, name: str) -> tuple[float, ...]:
    """Seconds of a run and of a proof; each reads the program, as a job does."""
    soc, tensors = SOCS[subject.soc], subject.definition.make("full-range", subject.geometry)
    given = arrays(subject, name, tensors)
    rounds = [
        (
            seconds(lambda: run_program(build(subject, name), soc, given)),
            seconds(lambda: prove(subject, name)),
        )
        for _ in range(ROUNDS + 3)
    ][3:]
    return tuple(statistics.median(column) for column in zip(*rounds, strict=True))


def main() -> None:
    """Print medians, the ratio of the two sides, and the peak memory."""
    child = [sys.executable, "-m", "benchmarks.proof", MEMORY]
    peak = int(subprocess.run(child, check=True, capture_output=True, text=True).stdout)
    for name, subject in {"fused": PAIR, **OTHERS}.items():
        run, proof = medians(subject, name)
        both = f"run {run * 1e3:5.0f} ms, proof {proof * 1e3:5.0f} ms"
        print(f"{name:6} {both}: {proof / run:.1f} times as long (allowed: 2)")
    print(f"fused, peak memory {peak / 2**20:.0f} MB (allowed: 200)")


if __name__ == "__main__":
    memory() if MEMORY in sys.argv else main()
