"""Search the cheapest tilings of a geometry of the matrix for CANN PyPTO and write its plan file.

    python -m pipeline.commands.tilings mc62 --budget 60

Prints every compilation and the cycles found. The workload of the geometry has to declare a search
(`workloads.tensor_level`).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from golden.errors import UserError
from pipeline.commands.selection import read_matrix
from pipeline.engines.base import CompileError
from pipeline.engines.cann.search import search, search_of
from pipeline.engines.process import HELPERS
from pipeline.ground.streams import through_streams
from pipeline.ground.subject import geometry_of
from pipeline.ground.words import closest, shown, unbroken
from pipeline.matrix.select import FilterError
from workloads.registry import workload_named


def main(arguments: Sequence[str]) -> int:
    """Run the search; gives 0, or 1 if the compiler refuses its start, or the code of the user's mistake."""
    parser = argparse.ArgumentParser(
        prog="python -m pipeline.commands.tilings",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("geometry", help="name of a geometry of the matrix")
    parser.add_argument("--budget", type=int, default=60, help="compilations a program may take (60)")
    parser.add_argument("--matrix", action="append", default=[], help="overlay of the matrix, as in `list`")
    options = parser.parse_args(arguments)
    try:
        with HELPERS:
            _search(options.geometry, options.matrix, options.budget)
    except UserError as error:
        sys.stderr.write(f"{unbroken(str(error))}\n")
        return error.exit_code
    except CompileError as error:
        sys.stderr.write(f"{unbroken(str(error).splitlines()[0])}\n")
        return 1
    return 0


def _search(name: str, overlays: Sequence[str], budget: int) -> None:
    if budget < 1:
        raise FilterError(f"--budget {budget}: a search needs one compilation at least; write 1 or more")
    geometries = read_matrix(overlays).geometries
    if name not in geometries:
        known = closest(name, geometries)
        raise FilterError(
            f"geometry `{shown(name)}` is not in the matrix; {known}; --matrix FILE adds others"
        )
    facts = geometries[name]
    workload = workload_named(facts.workload.name, facts.workload.file)
    geometry = geometry_of(workload, facts.shapes)
    declared = search_of(workload)
    with tempfile.TemporaryDirectory() as folder:
        found = search(facts.workload, workload, geometry, Path(folder), budget, _say)
    tilings = {program: each.tiling for program, each in found.items()}
    path = declared.keep(workload.packing(geometry).device, tilings)
    sums = (
        f"{kernel.name} {sum(found[program].cycles for program in kernel.programs)}"
        for kernel in workload.kernels
        if set(kernel.programs) <= set(found)
    )
    _say(f"{path}: {', '.join(sums)} estimated cycles")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(through_streams(lambda: main(sys.argv[1:])))
