"""What a reader would see at once in a wrong output; each fact is told only where it is surprising."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def single_value(actual: Array, expected: Array) -> int | None:
    """The one value that all wrong elements have, where the golden has several; None where there is none."""
    wrong = actual != expected
    values, right = np.unique(actual[wrong]), np.unique(expected[wrong])
    return int(values[0]) if len(values) == 1 and len(right) > 1 else None
