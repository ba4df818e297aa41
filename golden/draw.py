"""Seeded numbers that stay the same on every machine and with every numpy.

Only the raw 64-bit stream of PCG64 is used, which numpy promises never to change. It makes no such promise
for the distributions of `numpy.random.Generator`, and a seed must give the same values years later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt


class Draw:
    """A stream of integers that is determined by `seed` (at least 0)."""

    def __init__(self, seed: int) -> None:
        self._stream = np.random.PCG64(seed)

    def integers(self, low: int, high: int, shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
        """Integers in low..high, both included, of the given shape. The range is at most 2**32."""
        count = int(np.prod(shape))
        raw = self._stream.random_raw(-(-count // 2))
        halves = np.stack([raw >> np.uint64(32), raw & np.uint64(0xFFFF_FFFF)], axis=1).reshape(-1)[:count]
        # Multiply and shift rather than reject and retry; the bias is negligible at small ranges.
        return ((halves * np.uint64(high - low + 1) >> np.uint64(32)).astype(np.int64) + low).reshape(shape)

    def int8(self, low: int, high: int, shape: tuple[int, ...]) -> npt.NDArray[np.int8]:
        """Integers in low..high as int8; 128..255 stand for -128..-1."""
        return self.integers(low, high, shape).astype(np.int8)

    def every_int8(self, shape: tuple[int, ...]) -> npt.NDArray[np.int8]:
        """Int8 values that include each of the 256, evenly spread, if the shape has room for that many."""
        values = self.int8(-128, 127, shape)
        if values.size >= 256:
            values.reshape(-1)[:: values.size // 256][:256] = self.shuffled(256) - 128
        return values

    def shuffled(self, count: int) -> npt.NDArray[np.int64]:
        """The integers 0..count-1 in random order."""
        return np.argsort(self._stream.random_raw(count), kind="stable")
