"""What a diagnosis starts from: one wrong output and all that determines what it should have been."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from golden.specs import Array, Tensors
from workloads.base import Frame
from workloads.form import Form


@dataclass(frozen=True, eq=False)
class Evidence:
    """One output of a program, or of several that each read the output of the one before, and its golden.

    Attributes:
        form: what the program is made of; None where that is not described.
        frame: how the output is laid out.
        tensors: the inputs of programs, as the host packs those of the workload.
        outputs: what programs should give, by name: the golden of each output of the workload, with zeros in
            channels that the workload does not have.
        variant: the requantisation that the platform declares and the golden follows.
        tensor: which output it is.
        actual: what the program gave, [positions, channels].
        expected: what it must be: the golden of `tensor`, or its first rows for a first tile.
        sentinel: what the output held before the program ran; None if that is not known.
    """

    form: Form | None
    frame: Frame
    tensors: Tensors
    outputs: Mapping[str, Array]
    variant: str
    tensor: str
    actual: npt.NDArray[Any]
    expected: npt.NDArray[Any]
    sentinel: int | None = None

    @property
    def wrong(self) -> npt.NDArray[np.bool_]:
        """Where the output differs, [positions, channels]."""
        differs: npt.NDArray[np.bool_] = np.not_equal(self.actual, self.expected)
        return differs
