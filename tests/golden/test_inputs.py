from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golden import conv, conv_pair, gemm
from golden.definition import Definition
from golden.geometry import Conv, ConvGeometry, GemmGeometry, Geometry
from golden.inputs import InputsError, load_inputs, save_inputs
from golden.specs import Role
from golden.vreq8 import VARIANTS, pack, unpack

PAIR = Geometry(24, 16, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1))
SPECS = conv_pair.specs(PAIR)
GIVEN = "conv-pair-24x16-full-range.npz"


@pytest.fixture
def arrays(cases: Path) -> dict[str, Any]:
    with np.load(cases / GIVEN) as given:
        return {spec.name: given[spec.name] for spec in SPECS if spec.role is not Role.OUTPUT}


def saved(folder: Path, arrays: dict[str, Any]) -> Path:
    path = folder / "mine.npz"
    np.savez_compressed(path, **arrays)
    return path


def refusal(path: Path) -> str:
    with pytest.raises(InputsError) as caught:
        load_inputs(path, SPECS)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message.removeprefix(f"{path}: ")


def test_a_given_pair_is_loaded_as_it_is(cases: Path) -> None:
    tensors = load_inputs(cases / GIVEN, SPECS).arrays("vreq8")
    with np.load(cases / GIVEN) as given:
        for name, array in tensors.items():
            assert array.dtype == given[name].dtype
            assert np.array_equal(array, given[name])


@pytest.mark.usefixtures("torch_installed")
@pytest.mark.parametrize(
    ("definition", "profile", "geometry"),
    [
        (conv_pair.DEFINITION, "channels", PAIR),
        (conv.DEFINITION, "channels", ConvGeometry(24, 16, 64, 96, Conv(3, 2, 1))),
        (gemm.DEFINITION, "full-range", GemmGeometry(32, 64, 96)),
    ],
    ids=["conv-pair", "conv", "gemm"],
)
def test_saved_tensors_are_loaded_as_they_were(
    definition: Definition, profile: str, geometry: Any, tmp_path: Path
) -> None:
    """Offsets at their limits, and scales that a packed table would cut."""
    made = definition.make(profile, geometry)
    save_inputs(tmp_path / "mine.npz", made)
    read = load_inputs(tmp_path / "mine.npz", definition.specs(geometry))
    assert set(read.values) == set(made.values)
    for name, array in made.values.items():
        assert np.array_equal(read[name], array), name
    for variant in VARIANTS:
        for name, array in made.arrays(variant).items():
            assert np.array_equal(read.arrays(variant)[name], array)


def test_tables_may_come_as_int64_or_unpacked_in_full_fp32(tmp_path: Path, arrays: dict[str, Any]) -> None:
    signed = saved(tmp_path, arrays | {"scale1": arrays["scale1"].view(np.int64)})
    assert np.array_equal(load_inputs(signed, SPECS).arrays("vreq8")["scale1"], arrays["scale1"])

    del arrays["scale2"]
    scales = np.linspace(0.1, 0.3, 64, dtype=np.float32)
    offsets = np.arange(-32, 32, dtype=np.int32)
    loose = load_inputs(saved(tmp_path, arrays | {"scales2": scales, "offsets2": offsets}), SPECS)
    for variant in ("vreq8", "scale32"):
        assert np.array_equal(loose.arrays(variant)["scale2"], pack(scales, offsets, variant=variant))


def test_a_fortran_ordered_array_is_the_same_array(tmp_path: Path, arrays: dict[str, Any]) -> None:
    loaded = load_inputs(saved(tmp_path, arrays | {"filter1": np.asfortranarray(arrays["filter1"])}), SPECS)
    assert np.array_equal(loaded["filter1"], arrays["filter1"])
    assert loaded["filter1"].flags.c_contiguous


def test_names_are_checked(tmp_path: Path, arrays: dict[str, Any]) -> None:
    everything = "the file must hold x, filter1, bias1, scale1, filter2, bias2, scale2"
    assert refusal(saved(tmp_path, arrays | {"bias3": arrays["bias2"]})) == (
        f"array 'bias3' is not one of the inputs: {everything}"
    )
    both = arrays | {"scales1": np.ones(64, np.float32)}
    assert refusal(saved(tmp_path, both)).startswith("array 'scales1' is not one of the inputs")
    missing = {name: array for name, array in arrays.items() if name != "filter2"}
    assert refusal(saved(tmp_path, missing)) == f"array 'filter2' is missing: {everything}"
    half = {name: array for name, array in arrays.items() if name != "scale1"}
    assert refusal(saved(tmp_path, half)).startswith("array 'scale1' is missing")
    half["offsets1"] = np.zeros(64, np.int32)
    missing = "array 'scales1' is missing: the file must hold x, filter1"
    assert refusal(saved(tmp_path, half)).startswith(missing)


def test_outputs_may_stand_in_the_file_and_are_not_read(tmp_path: Path, arrays: dict[str, Any]) -> None:
    """Whatever they are: they will be computed."""
    loaded = load_inputs(saved(tmp_path, arrays | {"mid": np.zeros(3, np.int8), "y": np.ones(1)}), SPECS)
    assert set(loaded.values) >= {"x", "filter1", "filter2"}
    assert not {"mid", "y"} & set(loaded.values)


def test_two_arrays_of_one_name_are_refused(tmp_path: Path, arrays: dict[str, Any]) -> None:
    path = saved(tmp_path, arrays)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("x.npy", archive.read("x.npy"))
    assert refusal(path) == "holds two arrays of one name: write it anew with numpy.savez"


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("x", np.zeros((768, 31), np.int8), "array 'x' has shape [768, 31]: must be [768, 32]"),
        ("x", np.zeros((1, 64, 24, 16), np.int8), "array 'x' has shape [1, 64, 24, 16]: must be [768, 32]"),
        ("filter1", np.zeros((576, 64), np.uint8), "array 'filter1' is uint8: must be int8"),
        ("bias1", np.zeros((1, 64), np.int64), "array 'bias1' is int64: must be int32"),
        ("bias1", np.zeros((1, 64), ">i4"), "array 'bias1' is >i4: must be int32"),
        ("bias2", np.zeros(64, np.int32), "array 'bias2' has shape [64]: must be [1, 64]"),
        ("scale2", np.zeros((1, 64), np.float32), "array 'scale2' is float32: must be uint64"),
    ],
)
def test_dtype_and_shape_are_checked(
    tmp_path: Path, arrays: dict[str, Any], name: str, array: np.ndarray, message: str
) -> None:
    assert refusal(saved(tmp_path, arrays | {name: array})).startswith(message)


def test_values_are_checked(tmp_path: Path, arrays: dict[str, Any]) -> None:
    fields = unpack(arrays["scale1"])
    signed = fields.signed.copy()
    signed[9] = False
    unsigned = pack(fields.scale, fields.offset, signed=signed)
    assert refusal(saved(tmp_path, arrays | {"scale1": unsigned})).startswith(
        "scale1: channel 9: bit 46 is 0"
    )
    junk = arrays["scale2"].copy()
    junk[0, 2] |= np.uint64(1 << 50)
    assert refusal(saved(tmp_path, arrays | {"scale2": junk})).startswith("scale2: channel 2: table entry")
    large = arrays["bias2"].copy()
    large[0, 63] = 2**31 - 1
    assert refusal(saved(tmp_path, arrays | {"bias2": large})).startswith(
        "bias2: channel 63: bias is 2147483647: must be "
    )


def test_files_that_are_no_npz_are_refused_in_one_line(
    tmp_path: Path, arrays: dict[str, Any], cases: Path
) -> None:
    assert refusal(tmp_path / "nowhere.npz") == "cannot be read: No such file or directory; name another file"
    assert refusal(tmp_path) == "cannot be read: Is a directory; name another file"
    other = tmp_path / "text.npz"
    other.write_text("x: 1\n")
    assert refusal(other) == "is not an .npz file: write it with numpy.savez"
    other.write_bytes(b"")
    assert refusal(other) == "is not an .npz file: write it with numpy.savez"
    np.save(tmp_path / "one.npy", arrays["x"])
    assert refusal(tmp_path / "one.npy") == "is not an .npz file: write it with numpy.savez"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("readme.txt", "hello")
    assert refusal(other).startswith("array 'x' is missing")
    objects = saved(tmp_path, arrays | {"x": np.array([{}], dtype=object)})
    assert refusal(objects).startswith("is damaged or not made by numpy: Object arrays cannot be loaded")


def test_a_damaged_file_is_refused_in_one_line_wherever_the_damage_is(tmp_path: Path, cases: Path) -> None:
    whole = (cases / GIVEN).read_bytes()
    path = tmp_path / "damaged.npz"
    for cut in range(0, len(whole), 4999):
        path.write_bytes(whole[:cut])
        assert refusal(path)
    messages = []
    for at in range(0, len(whole), 997):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        try:
            load_inputs(path, SPECS)
        except InputsError as error:
            messages.append(str(error))
    assert len(messages) > 60
    assert not any("\n" in message for message in messages)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unreadable to root")
def test_an_unreadable_file_is_refused(tmp_path: Path, arrays: dict[str, Any]) -> None:
    path = saved(tmp_path, arrays)
    path.chmod(0)
    assert refusal(path) == "cannot be read: Permission denied"


def test_a_member_that_is_no_array(tmp_path: Path, arrays: dict[str, Any]) -> None:
    del arrays["x"]
    path = saved(tmp_path, arrays)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("x.npy", b"hello")
    assert refusal(path) == "'x' is not an array: write the file with numpy.savez"


def test_an_array_of_gigabytes_is_refused_before_it_is_unpacked(
    tmp_path: Path, arrays: dict[str, Any]
) -> None:
    path = saved(tmp_path, arrays | {"x": np.zeros(2**26, np.int8)})
    assert refusal(path).startswith("array 'x' has 67108")


def test_elements_in_channels_that_an_image_does_not_have_are_refused(tmp_path: Path) -> None:
    specs = conv.specs(ConvGeometry(4, 4, 35, 2, Conv(1, 1, 0)))
    arrays: dict[str, Any] = {
        "x": np.zeros((32, 32), np.int8),
        "filter": np.ones((35, 2), np.int8),
        "bias": np.zeros((1, 2), np.int32),
        "scales": np.ones(2, np.float32),
        "offsets": np.zeros(2, np.int32),
    }
    arrays["x"][:16] = 1
    arrays["x"][16:, :3] = 1
    assert np.array_equal(load_inputs(saved(tmp_path, arrays), specs)["x"], arrays["x"])
    arrays["x"][21, 9] = -7
    with pytest.raises(InputsError, match=r"x: channel 41 of pixel 5 is -7: must be 0, as the image has"):
        load_inputs(saved(tmp_path, arrays), specs)
