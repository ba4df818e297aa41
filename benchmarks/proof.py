"""How long a proof and the search for the line to blame take, against the emulator's run of the program.

Run as `python -m benchmarks.proof`. Run and proof take turns, so that a busy machine slows both alike. Peak
memory is that of a process of its own that proves MC62's fused kernel. Each search has a process of its own
too, in which a number of that kernel is wrong.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time

from benchmarks.emulator_run import MEMORY, OTHERS, PAIR, ROUNDS, arrays, build, seconds
from emulator.engine import run_program
from emulator.program import Call, Program, flat
from emulator.repair import Change
from emulator.soc import SOCS
from emulator.sources import leaves
from pipeline.ground.subject import Subject
from pipeline.work.proof import proof_of

BLAME = "--blame"
WRONG = [("tile.gather_row", "src_offset"), ("tile.extract", "row")]
"""The operators and operands in which a number is made wrong."""
UNIT = {"tile.gather_row": 1, "tile.extract": 32}
"""How much lower it is: the walk itself refuses what is off a fractal."""


def prove(subject: Subject, name: str) -> None:
    """Prove a program, which must succeed."""
    found = proof_of(subject, name, build(subject, name))
    if found.wrong:
        raise SystemExit(found.words)


def memory() -> None:
    """Prove once and print the peak resident memory of this process, in bytes."""
    prove(PAIR, "fused")
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def wrong(operator: str, operand: str) -> Program:
    """MC62's fused kernel with one number too low, in an operand of the first call that has one above 0."""
    program = build(PAIR, "fused")
    for call in flat(statement for function in program.functions.values() for statement in function.body):
        if isinstance(call, Call) and call.operator == operator:
            for leaf in leaves(call.written[operand]):
                if isinstance(leaf.value, int) and leaf.value > 0:
                    return Change(operand, leaf, leaf.value - UNIT[operator]).applied(program)
    raise SystemExit(f"no {operator} of fused has a number in {operand}")


def blame(operator: str, operand: str) -> None:
    """Blame a line once; print processor seconds of run and proof, peak memory in bytes, and the finding."""
    program = wrong(operator, operand)
    given = arrays(PAIR, "fused", PAIR.definition.make("small", PAIR.geometry))
    start = time.process_time()
    run_program(program, SOCS[PAIR.soc], given)
    run, start = time.process_time() - start, time.process_time()
    if not (findings := proof_of(PAIR, "fused", program).findings):
        raise SystemExit(f"no line is blamed for {operator}, {operand}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(run, time.process_time() - start, peak, findings[0], sep="\t")


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
    for fault in WRONG:
        child = [sys.executable, "-m", "benchmarks.proof", BLAME, *fault]
        said = subprocess.run(child, check=True, capture_output=True, text=True).stdout.strip()
        run_text, blame_text, peak_text, finding = said.split("\t")
        both = f"run {float(run_text):.1f} s, proof and blame {float(blame_text):.1f} s (allowed: 10)"
        print(f"fused, wrong {' '.join(fault)}: {both}, peak {int(peak_text) / 2**20:.0f} MB (allowed: 300)")
        print(f"  {finding}")


if __name__ == "__main__":
    if BLAME in sys.argv:
        blame(*sys.argv[-2:])
    else:
        memory() if MEMORY in sys.argv else main()
