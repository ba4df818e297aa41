"""What a diagnosis starts from: one wrong output and all that determines what it should have been."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from golden.geometry import Geometry
from golden.specs import Int8, Tensors
from kernels.plan import Plan

TWO_PASS = "two-pass"
"""Program name of pass2 on the mid that pass1 gave: a fault of either shows in its y."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """One output of one program, its inputs and its golden.

    Attributes:
        geometry: shapes of the pair.
        plan: how the program is tiled; None where it is not known (bands and tiles are then not doubted).
        tensors: the inputs.
        variant: the requantisation that the platform declares and the golden follows.
        program: `fused`, `pass1`, `pass2` (on the golden's mid), `two-pass` (pass2 on pass1's mid) or a
            first-tile variant.
        tensor: which output: `mid`, `y` or `tile` (the first rows of mid).
        actual: what the program gave, int8 NHWC rows.
        mid, y: the golden's, int8 NHWC rows.
        sentinel: what the output held before the program ran; None where it held nothing certain.
    """

    geometry: Geometry
    plan: Plan | None
    tensors: Tensors
    variant: str
    program: str
    tensor: str
    actual: Int8
    mid: Int8
    y: Int8
    sentinel: int | None = None

    @property
    def expected(self) -> Int8:
        """What the golden says this output must be."""
        if self.tensor == "y":
            return self.y
        return self.mid[: len(self.actual)] if self.tensor == "tile" else self.mid

    @property
    def wrong(self) -> npt.NDArray[np.bool_]:
        """Where the output differs, [positions, channels]."""
        return np.not_equal(self.actual, self.expected)
