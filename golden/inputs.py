"""A user's own tensors from an .npz file, checked against a workload's specs before anything runs."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from golden import vreq8
from golden.errors import UserError
from golden.specs import Array, Role, Tensors, TensorsError, TensorSpec

_WIDEST = 16  # bytes of an element
_HEADER = 64 * 1024
_MALFORMED = (
    EOFError,
    MemoryError,  # a header that declares more than fits in memory
    NotImplementedError,  # zipfile, of a compression it does not know
    RuntimeError,  # zipfile, of an encrypted member
    ValueError,  # numpy, of a broken header or of objects that need pickle
    zipfile.BadZipFile,
    zlib.error,
)


class InputsError(UserError):
    """A user's file cannot be the inputs of a geometry; the message has the file, the array and the rule."""


def load_inputs(path: Path, specs: Sequence[TensorSpec]) -> Tensors:
    """Load the inputs of a workload from an .npz file, in the layouts of its specs.

    The file holds an array for each input. In place of a packed table such as `scale1` (uint64 [1, Cout], or
    int64 as torch stores it) it may hold `scales1` (fp32 [Cout]) and `offsets1` (int32 [Cout]). It may also
    hold outputs, which are not read, since they are computed.

    Raises:
        InputsError: the file cannot be read; an array is missing, unknown or doubled, or has a wrong dtype or
            shape; a table is not VREQ8 or asks for unsigned output; a bias could make a sum overflow int32.
    """
    arrays = _read(path, specs)
    try:
        for spec in specs:
            if spec.name in arrays and spec.role is Role.TABLE:
                arrays.update(zip(spec.parts, _unpacked(arrays, spec.name), strict=True))
        return Tensors(tuple(specs), arrays)
    except TensorsError as error:
        raise InputsError(f"{path}: {error}") from error


def save_inputs(path: Path, tensors: Tensors) -> None:
    """Write inputs as an .npz file that `load_inputs` reads back, with unpacked tables."""
    offsets = {spec.parts[1] for spec in tensors.specs if spec.role is Role.TABLE}
    arrays: dict[str, Any] = {
        name: array.astype(np.int32) if name in offsets else array for name, array in tensors.values.items()
    }
    np.savez(path, **arrays)


def _read(path: Path, specs: Sequence[TensorSpec]) -> dict[str, Any]:
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise InputsError(f"{path}: is a device or a pipe: name a file")
        with path.open("rb") as file:
            if not zipfile.is_zipfile(file):
                raise InputsError(f"{path}: is not an .npz file: write it with numpy.savez")
        with np.load(path, allow_pickle=False) as archive:
            wanted = _wanted(specs, archive.files)
            outputs = {spec.name for spec in specs if spec.role is Role.OUTPUT}
            _check_names(path, archive.files, [spec.name for spec in wanted], outputs)
            _check_sizes(path, archive.zip, wanted)
            return {spec.name: _checked(path, spec, archive[spec.name]) for spec in wanted}
    except OSError as error:
        raise InputsError(f"{path}: cannot be read: {error.strerror or error}; name another file") from error
    except _MALFORMED as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        what = f"is damaged or not made by numpy: {reason}"
        raise InputsError(f"{path}: {what}; write it anew with numpy.savez") from error


def _wanted(specs: Sequence[TensorSpec], names: Collection[str]) -> list[TensorSpec]:
    """The arrays this file must hold: packed tables, or their unpacked parts if it has those instead."""
    wanted = []
    for spec in specs:
        if spec.role is Role.OUTPUT:
            continue
        if spec.role is not Role.TABLE or spec.name in names or not {*spec.parts} & set(names):
            wanted.append(spec)
        else:
            scales, offsets = spec.parts
            wanted.append(TensorSpec(scales, spec.shape[1:], np.dtype(np.float32), Role.MATRIX))
            wanted.append(TensorSpec(offsets, spec.shape[1:], np.dtype(np.int32), Role.MATRIX))
    return wanted


def _check_names(
    path: Path, names: Collection[str], wanted: Collection[str], outputs: Collection[str]
) -> None:
    for name in wanted:
        if name not in names:
            raise InputsError(f"{path}: array {name!r} is missing: the file must hold {', '.join(wanted)}")
    for name in sorted({*names} - {*wanted} - {*outputs}):
        raise InputsError(
            f"{path}: array {name!r} is not one of the inputs: the file must hold {', '.join(wanted)}"
        )
    if len(names) != len(set(names)):
        raise InputsError(f"{path}: holds two arrays of one name: write it anew with numpy.savez")


def _check_sizes(path: Path, archive: zipfile.ZipFile, specs: Collection[TensorSpec]) -> None:
    """Refuse an array that is too large in any dtype before unpacking it: kilobytes can become gigabytes."""
    held = {member.filename.removesuffix(".npy"): member.file_size for member in archive.infolist()}
    for spec in specs:
        most = _WIDEST * math.prod(spec.shape) + _HEADER
        if held[spec.name] > most:
            raise InputsError(
                f"{path}: array {spec.name!r} has {held[spec.name]} bytes: must have shape {list(spec.shape)}"
            )


def _checked(path: Path, spec: TensorSpec, array: object) -> Array:
    if not isinstance(array, np.ndarray):
        raise InputsError(f"{path}: {spec.name!r} is not an array: write the file with numpy.savez")
    if spec.dtype == np.uint64 and array.dtype == np.int64:
        array = array.view(np.uint64)
    if array.dtype != spec.dtype:
        raise InputsError(f"{path}: array {spec.name!r} is {array.dtype}: must be {spec.dtype}")
    if array.shape != spec.shape:
        raise InputsError(
            f"{path}: array {spec.name!r} has shape {list(array.shape)}: must be {list(spec.shape)} here"
        )
    return np.ascontiguousarray(array)


def _unpacked(arrays: dict[str, Any], name: str) -> tuple[Array, Array]:
    try:
        fields = vreq8.unpack(arrays.pop(name))
    except vreq8.Vreq8Error as error:
        raise TensorsError(f"{name}: {error}") from error
    if not fields.signed.all():
        channel = int(fields.signed.argmin())
        raise TensorsError(f"{name}: channel {channel}: bit 46 is 0 (uint8 output): an int8 output needs 1")
    return fields.scale, fields.offset
