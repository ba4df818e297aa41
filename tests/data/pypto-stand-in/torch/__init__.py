"""As much of torch as a run hands to PyPTO: tensors that share their memory with arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


class Tensor:
    """A view of an array; `array` is the array."""

    def __init__(self, array: npt.NDArray[np.generic]) -> None:
        self.array = array

    @property
    def dtype(self) -> str:
        return f"torch.{self.array.dtype}"

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape


def from_numpy(array: npt.NDArray[np.generic]) -> Tensor:
    return Tensor(array)
