"""How long lowering, building and running MC62's fused kernel take on the ISA simulator.

Run as `python -m benchmarks.isa`, with the headers in `PTO_ISA_ROOT`. Each is a ratio to the emulator's run
of the same program on the same data in the same round. The emulator walks the program in the first round
only, so that the median is of runs that have only the data to compute.
"""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from benchmarks.emulator_run import PAIR, build, seconds
from emulator.engine import run_program
from emulator.program import Program
from emulator.soc import SOCS
from golden.specs import Array
from lowering.minimise import program_flags
from lowering.runner import runner
from lowering.text import lower
from pipeline.engines.isa.build import PROGRAM, RUNNER
from pipeline.engines.isa.build import build as compiled
from pipeline.engines.isa.build import run as simulated
from pipeline.engines.isa.toolchain import Toolchain, find
from pipeline.ground.memory import untouched_output

ROUNDS = 5
VARIANT = "offset-unsigned"

Result = TypeVar("Result")


def timed(work: Callable[[], Result]) -> tuple[float, Result]:
    """Wall time of one call, and what it gives."""
    results: list[Result] = []
    taken = seconds(lambda: results.append(work()))
    return taken, results[0]


def one_round(
    toolchain: Toolchain, program: Program, given: Mapping[str, Array], folder: Path
) -> dict[str, float]:
    """The seconds of each part, as multiples of the emulator's run."""
    soc = SOCS[PAIR.soc]
    files = [folder / f"{name}.bin" for name in given]
    for array, file in zip(given.values(), files, strict=True):
        array.tofile(file)
    lowering, text = timed(lambda: lower(program, soc, program_flags(program, soc)))
    compiled(toolchain, {RUNNER: "int main() {}"}, folder)  # the headers, which all programs share
    sources = {PROGRAM: text, RUNNER: runner(program, soc)}
    building, executable = timed(lambda: compiled(toolchain, sources, folder))
    running = seconds(lambda: simulated(executable, files, folder / "log"))
    emulated = seconds(lambda: run_program(program, soc, given, VARIANT))
    return {"lowering": lowering / emulated, "build": building / emulated, "run": running / emulated}


def main() -> None:
    """Print what each part takes, as a multiple of the emulator's run: the median of all rounds."""
    toolchain = find(os.environ)
    if not isinstance(toolchain, Toolchain):
        print(f"isa: not measured: {toolchain.reason}; {toolchain.remedy}")
        return
    program = build(PAIR, "fused")
    tensors = PAIR.definition.make("full-range@7", PAIR.geometry)
    output = untouched_output(*PAIR.output_of("fused"))
    arrays = {**tensors.arrays(VARIANT), "y": output}
    given = {param.name: arrays[param.name] for param in program.main.params}
    rounds = []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            rounds.append(one_round(toolchain, program, given, Path(folder)))
    for part in rounds[0]:
        ratio = statistics.median(each[part] for each in rounds)
        print(f"isa, {part:<8} {ratio:6.1f} times the emulator's run of MC62's fused kernel")


if __name__ == "__main__":
    main()
