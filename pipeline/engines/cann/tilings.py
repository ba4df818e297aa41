"""Search the cheapest tilings of a geometry for CANN PyPTO and write its plan file.

    python -m pipeline.engines.cann.tilings 288x112 64-64-64 k3s2p1-k3s1p1 --budget 60

The arguments are those of the plan file's name. Prints every compilation and the cycles found.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from golden.geometry import Conv, Geometry, GeometryError
from kernels.tensor.plan import TilingError, plan_path, write_plan
from pipeline.engines.base import CompileError
from pipeline.engines.cann.search import search


def main() -> None:
    """Run the search for the geometry on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("image", type=_numbers(r"(\d+)x(\d+)"), help="height x width, as in 288x112")
    parser.add_argument("channels", type=_numbers(r"(\d+)-(\d+)-(\d+)"), help="cin-cmid-cout, as in 64-64-64")
    convs = r"k(\d+)s(\d+)p(\d+)-k(\d+)s(\d+)p(\d+)"
    parser.add_argument("convs", type=_numbers(convs), help="both convolutions, as in k3s2p1-k3s1p1")
    parser.add_argument("--budget", type=int, default=60, help="compilations a program may take (60)")
    arguments = parser.parse_args()
    if arguments.budget < 1:
        parser.error(f"--budget is {arguments.budget}: must be at least 1")
    try:
        (height, width), (cin, cmid, cout) = arguments.image, arguments.channels
        conv1, conv2 = Conv(*arguments.convs[:3]), Conv(*arguments.convs[3:])
        geometry = Geometry(height, width, cin, cmid, cout, conv1, conv2)
        with tempfile.TemporaryDirectory() as folder:
            found = search(geometry, Path(folder), arguments.budget, _say)
    except (GeometryError, TilingError, CompileError) as error:
        parser.error(str(error))
    path = plan_path(geometry)
    write_plan(path, {program: each.tiling for program, each in found.items()})
    cycles = {program: each.cycles for program, each in found.items()}
    _say(f"{path}: fused {cycles['fused']}, two-pass {cycles['pass1'] + cycles['pass2']} estimated cycles")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _numbers(pattern: str) -> Callable[[str], tuple[int, ...]]:
    def parse(text: str) -> tuple[int, ...]:
        found = re.fullmatch(pattern, text)
        if found is None:
            raise argparse.ArgumentTypeError(f"{text!r} does not have the form of the example")
        return tuple(map(int, found.groups()))

    return parse


if __name__ == "__main__":
    main()
