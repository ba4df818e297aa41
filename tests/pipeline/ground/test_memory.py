from __future__ import annotations

import numpy as np
import pytest

from pipeline.ground.memory import SENTINEL, sentinel_of, untouched_output


@pytest.mark.parametrize(
    ("dtype", "value"), [(np.int8, -86), (np.uint8, 170), (np.int32, -1431655766), (np.int16, -21846)]
)
def test_each_byte_of_an_untouched_output_is_the_same(dtype: type[np.generic], value: int) -> None:
    output = untouched_output((3, 5), np.dtype(dtype))
    assert (output.shape, output.dtype) == ((3, 5), np.dtype(dtype))
    assert set(output.tobytes()) == {0xAA}
    assert sentinel_of(np.dtype(dtype)) == value
    assert (output == value).all()


def test_an_output_can_be_written() -> None:
    output = untouched_output((2,), np.dtype(np.int8))
    output[0] = 1
    assert output.tolist() == [1, SENTINEL]
