from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from golden import conv_pair, gemm
from golden.geometry import Conv, GemmGeometry, Geometry
from golden.specs import Role, Tensors, TensorsError, TensorSpec
from golden.vreq8 import VARIANTS, unpack

SPECS = conv_pair.specs(Geometry(3, 3, 32, 32, 32, Conv(1, 1, 0), Conv(1, 1, 0)))


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
    return Tensors(SPECS, plain | changed)


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


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("x", np.zeros((9, 31), np.int8), "x: is int8 [9, 31]: must be int8 [9, 32]"),
        ("filter2", np.zeros((32, 32), np.int16), "filter2: is int16 [32, 32]: must be int8 [32, 32]"),
        ("bias1", np.zeros(32, np.int32), "bias1: is int32 [32]: must be int32 [1, 32]"),
    ],
)
def test_an_array_of_another_form_is_refused(name: str, array: np.ndarray, message: str) -> None:
    with pytest.raises(TensorsError) as caught:
        tensors(**{name: array})
    assert str(caught.value) == message


def test_a_missing_array_is_refused_by_its_name() -> None:
    values = dict(tensors().values)
    del values["bias2"]
    with pytest.raises(TensorsError, match=r"^bias2: no array of this name is given: must be given$"):
        Tensors(SPECS, values)
    for part in ("scales1", "offsets1"):
        values = dict(tensors().values)
        del values[part]
        with pytest.raises(TensorsError, match=r"^scale1: arrays scales1 and offsets1 must both be given$"):
            Tensors(SPECS, values)


def test_the_arrays_are_the_inputs_alone_in_the_order_of_the_specs() -> None:
    assert list(tensors().arrays("vreq8")) == [spec.name for spec in SPECS if spec.role is not Role.OUTPUT]
    product = GemmGeometry(16, 32, 32)
    plain = {"a": np.ones((16, 32), np.int8), "b": np.ones((32, 32), np.int8)}
    assert list(Tensors(gemm.specs(product), plain).arrays("vreq8")) == ["a", "b"]


def test_a_table_is_kept_under_the_names_that_its_own_gives() -> None:
    uint64 = np.dtype(np.uint64)
    assert TensorSpec("scale", (1, 32), uint64, Role.TABLE).parts == ("scales", "offsets")
    assert TensorSpec("scale_of_b", (1, 32), uint64, Role.TABLE).parts == ("scales_of_b", "offsets_of_b")
    with pytest.raises(TensorsError, match=r"^table mine: the name of a table must begin with `scale`$"):
        TensorSpec("mine", (1, 32), uint64, Role.TABLE)
