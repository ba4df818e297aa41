"""Names that a matrix may use: backends and kernels."""

from __future__ import annotations

BACKENDS = ("emulator", "cann", "pypto")

KERNELS = ("fused", "two-pass", "first-tile-load", "first-tile-packed", "first-tile-fused-alloc")
