"""Seeded numbers that stay the same on every machine and with every numpy.

Only the raw 64-bit stream of PCG64 is used, which numpy promises never to change; the distributions built
upon it in `numpy.random.Generator` carry no such promise, and a seed must replay years later.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


class Draw:
    """A stream of integers that `seed` (at least 0) fixes."""

    def __init__(self, seed: int) -> None:
        self._stream = np.random.PCG64(seed)

    def integers(self, low: int, high: int, shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
        """Integers in low..high, both included, of the given shape. The range is at most 2**32."""
        count = int(np.prod(shape))
        raw = self._stream.random_raw(-(-count // 2))
        halves = np.stack([raw >> np.uint64(32), raw & np.uint64(0xFFFF_FFFF)], axis=1).reshape(-1)[:count]
        # Multiply and shift rather than reject and retry; at small ranges the bias is far below notice.
        return ((halves * np.uint64(high - low + 1) >> np.uint64(32)).astype(np.int64) + low).reshape(shape)

    def shuffled(self, count: int) -> npt.NDArray[np.int64]:
        """The integers 0..count-1 in a drawn order."""
        return np.argsort(self._stream.random_raw(count), kind="stable")
