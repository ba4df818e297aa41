from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from golden.geometry import MC62
from golden.specs import Tensors, TensorsError, pair_specs
from golden.vreq8 import VARIANTS, unpack


def tensors(**changed: Any) -> Tensors:
    plain: dict[str, Any] = {
        "x": np.zeros((9, 32), np.int8),
        "filter1": np.ones((32, 32), np.int8),
        "bias1": np.zeros((1, 32), np.int32),
        "scales1": np.full(32, 0.1, np.float32),
        "offsets1": np.zeros(32, np.int64),
        "filter2": np.ones((32, 32), np.int8),
        "bias2": np.zeros((1, 32), np.int32),
        "scales2": np.full(32, 0.3, np.float32),
        "offsets2": np.zeros(32, np.int64),
    }
    return Tensors(**plain | changed)


def test_mc62_lies_in_memory_as_the_specification_says() -> None:
    specs = {spec.name: spec for spec in pair_specs(MC62)}
    assert {name: spec.shape for name, spec in specs.items()} == {
        "x": (64512, 32),
        "filter1": (576, 64),
        "bias1": (1, 64),
        "scale1": (1, 64),
        "filter2": (576, 64),
        "bias2": (1, 64),
        "scale2": (1, 64),
        "mid": (8064, 64),
        "y": (8064, 64),
    }
    assert [name for name, spec in specs.items() if spec.role == "out"] == ["mid", "y"]
    kinds = {"bias1": np.int32, "bias2": np.int32, "scale1": np.uint64, "scale2": np.uint64}
    assert all(spec.dtype == kinds.get(name, np.int8) for name, spec in specs.items())


@pytest.mark.parametrize("variant", VARIANTS)
def test_tables_are_packed_for_the_variant(variant: str) -> None:
    arrays = tensors().arrays(variant)
    wanted = {"scale32": float(np.float32(0.3)), "scale19-rne": 1229 / 4096}.get(variant, 1228 / 4096)
    fields = unpack(arrays["scale2"])  # type: ignore[arg-type]
    assert fields.scale.tolist() == [wanted] * 32
    assert fields.signed.all()


def bias(value: int) -> np.ndarray:
    return np.array([[0] * 5 + [value] + [0] * 26], np.int32)


@pytest.mark.parametrize("tap", [-128, -1, 1, 127])
@pytest.mark.parametrize("name", ["1", "2"])
def test_a_bias_is_refused_exactly_where_some_input_overflows(name: str, tap: int) -> None:
    taps = np.zeros((32, 32), np.int8)
    taps[:7, 5] = tap
    products = [tap * value for value in (-128, 127)]
    highest = 2**31 - 1 - 7 * max(products)
    lowest = -(2**31) - 7 * min(products)
    for accepted in (highest, lowest):
        tensors(**{f"filter{name}": taps, f"bias{name}": bias(accepted)})
    for refused in (highest + 1, lowest - 1):
        with pytest.raises(TensorsError) as caught:
            tensors(**{f"filter{name}": taps, f"bias{name}": bias(refused)})
        assert f"bias{name}: channel 5: bias is {refused}: must be {lowest}..{highest}," in str(caught.value)


def test_what_cannot_be_packed_is_refused_with_tensor_and_channel() -> None:
    with pytest.raises(TensorsError, match="scale2: channel 3: scale is nan"):
        tensors(scales2=np.array([1, 1, 1, np.nan] + [1] * 28, np.float32))
    with pytest.raises(TensorsError, match="scale1: channel 0: offset is -257"):
        tensors(offsets1=np.full(32, -257))
    largest = np.full(32, np.finfo(np.float32).max, np.float32)
    with pytest.raises(TensorsError, match=r"scale1: channel 0: scale is .* after rounding"):
        tensors(scales1=largest).arrays("scale19-rne")
    with pytest.raises(TensorsError, match="unknown variant 'nearest'"):
        tensors().arrays("nearest")
