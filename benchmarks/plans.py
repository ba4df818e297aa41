"""How many random shapes the planner refuses, how it tiles the others, and how long it takes.

Run as `python -m benchmarks.plans [N]` in the checkout; N is 500 by default. Half of the shapes are pairs,
half single convolutions, drawn from heights and widths of 1..300, 32..1024 channels, kernels of 1..11,
strides of 1..4 and any padding; MC62 is planned beside them, as the measure of time.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from random import Random
from statistics import median

from golden.geometry import C0, MC62, Conv, ConvGeometry, Geometry, GeometryError
from kernels import conv_plan, planner
from kernels.plan import PlanError
from pipeline.ground.memory import limits_of

SHAPES, SEED = 500, 1
SOCS = ("a2a3", "a5")


def drawn_conv(random: Random) -> Conv:
    """A random convolution."""
    kernel = random.randint(1, 11)
    return Conv(kernel, random.randint(1, 4), random.randint(0, kernel - 1))


def drawn_pair(random: Random, size: int = 300, channels: int = 1024) -> Geometry:
    """A random pair that the geometry accepts, of at most so many rows, columns and channels."""
    while True:
        sizes = random.randint(1, size), random.randint(1, size)
        blocks = [C0 * random.randint(1, channels // C0) for _ in range(3)]
        try:
            return Geometry(*sizes, *blocks, drawn_conv(random), drawn_conv(random))
        except GeometryError:
            continue


def drawn_single(random: Random, size: int = 300, channels: int = 1024) -> ConvGeometry:
    """The first convolution of such a pair."""
    pair = drawn_pair(random, size, channels)
    return ConvGeometry(pair.height, pair.width, pair.cin, pair.cmid, pair.conv1)


def planned(geometry: Geometry | ConvGeometry, soc: str) -> tuple[str, float]:
    """How a geometry is tiled, in words without numbers, or `refused`; and the seconds that it takes."""
    started = time.perf_counter()
    try:
        if isinstance(geometry, Geometry):
            streams = planner.make_plan(geometry, limits_of(soc)).streams
        else:
            streams = conv_plan.make_conv_plan(geometry, limits_of(soc)).streams
        how = streams.in_words(0).partition("rows")[2].removeprefix(", ") or "filters in L1 throughout"
    except PlanError:
        how = "refused"
    return how, time.perf_counter() - started


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser("python -m benchmarks.plans", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "shapes", nargs="?", type=int, default=SHAPES, help="how many; %(default)s if left out"
    )
    number = parser.parse_args().shapes
    random = Random(SEED)
    pairs = [drawn_pair(random) for _ in range(number // 2)]
    convs = [ConvGeometry(one.height, one.width, one.cin, one.cmid, one.conv1) for one in pairs]
    for soc in SOCS:
        _, mc62 = planned(MC62, soc)
        for name, shapes in (("pairs", pairs), ("convolutions", convs)):
            found = [planned(shape, soc) for shape in shapes]
            ways = Counter(how for how, _ in found)
            times = [seconds for _, seconds in found]
            refused = ways.pop("refused", 0)
            print(f"{soc}: {refused} of {len(shapes)} {name} refused ({refused / len(shapes):.1%})")
            for how, count in ways.most_common():
                print(f"    {count:5} {how}")
            print(
                f"    {median(times) * 1e3:.0f} ms each in the middle, {max(times) * 1e3:.0f} ms at most; "
                f"MC62 takes {mc62 * 1e3:.0f} ms"
            )


if __name__ == "__main__":
    main()
