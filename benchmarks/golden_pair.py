"""How long the golden of MC62 takes, against two plain fp32 convolutions of its shapes on the same threads.

Run as `python -m benchmarks.golden_pair`. The two sides take turns, so that a busy machine slows both alike.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from golden import conv_pair
from golden.cache import Wanted, golden_for
from golden.geometry import MC62, Conv, Geometry

ROUNDS = 25


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def plain_convolutions(geometry: Geometry) -> Callable[[], object]:
    """Two fp32 convolutions of the pair's shapes, with their operands ready."""

    def one(cin: int, height: int, width: int, cout: int, conv: Conv) -> Callable[[], torch.Tensor]:
        image = torch.rand(1, cin, height, width)
        taps = torch.rand(cout, cin, conv.kernel_rows, conv.kernel_columns)
        return lambda: torch.nn.functional.conv2d(image, taps, stride=conv.stride, padding=conv.sides[::2])

    first = one(geometry.cin, geometry.height, geometry.width, geometry.cmid, geometry.conv1)
    second = one(geometry.cmid, geometry.mid_height, geometry.mid_width, geometry.cout, geometry.conv2)
    return lambda: (first(), second())


def main() -> None:
    """Print the medians and their ratio, then what a job pays for its golden with and without the cache."""
    tensors = conv_pair.DEFINITION.make("full-range", MC62)
    plain, golden = plain_convolutions(MC62), partial(conv_pair.compute, MC62, tensors, "vreq8")
    rounds = [(seconds(plain), seconds(golden)) for _ in range(ROUNDS + 5)][5:]
    base, pair = (statistics.median(column) for column in zip(*rounds, strict=True))
    print(f"threads                     {torch.get_num_threads()}")
    print(f"two plain fp32 conv2d       {base * 1e3:8.1f} ms")
    print(f"golden pair, exact          {pair * 1e3:8.1f} ms   {pair / base:.2f} times (allowed: 3)")
    with tempfile.TemporaryDirectory() as folder:
        for name in conv_pair.DEFINITION.profiles:
            work = partial(golden_for, Wanted(conv_pair.DEFINITION, MC62, name, "vreq8"), Path(folder))
            miss, hit = seconds(work), seconds(work)
            print(f"{name:27} {miss * 1e3:8.1f} ms made and computed, {hit * 1e3:6.1f} ms from the cache")


if __name__ == "__main__":
    main()
