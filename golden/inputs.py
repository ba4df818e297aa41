"""A user's own tensors from an .npz file, checked against a geometry before anything runs."""

from __future__ import annotations

import dataclasses
import math
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from golden import vreq8
from golden.errors import UserError
from golden.geometry import Geometry
from golden.specs import Array, Tensors, TensorsError, TensorSpec, pair_specs

_OUTPUTS = {"mid", "y"}
_WIDEST = 16  # bytes of an element
_HEADER = 64 * 1024
_MALFORMED = (
    EOFError,
    MemoryError,  # a header that promises more than there is room for
    NotImplementedError,  # zipfile, of a compression it does not know
    RuntimeError,  # zipfile, of an encrypted member
    ValueError,  # numpy, of a broken header or of objects that need pickle
    zipfile.BadZipFile,
    zlib.error,
)


class InputsError(UserError):
    """A user's file cannot serve as inputs of a geometry; one line with file, array and rule."""


def load_inputs(path: Path, geometry: Geometry) -> Tensors:
    """Load the inputs of a pair from an .npz file, in the layouts of `golden.specs.pair_specs`.

    The file holds `x`, `filter1`, `bias1`, `filter2`, `bias2`, and for each conv N either the packed table
    `scaleN` (uint64 [1, Cout], or int64 as torch carries it) or `scalesN` (fp32 [Cout]) with `offsetsN`
    (int32 [Cout]). `mid` and `y` may stand in it and are not read: they are what will be computed.

    Raises:
        InputsError: for a file that cannot be read, a missing, unknown or doubled array, a wrong dtype or
            shape, a table that is not VREQ8 or asks for unsigned output, a bias that could push a sum past
            int32.
    """
    arrays = _read(path, geometry)
    try:
        for number in ("1", "2"):
            if f"scale{number}" in arrays:
                arrays[f"scales{number}"], arrays[f"offsets{number}"] = _unpacked(arrays, f"scale{number}")
        return Tensors(**arrays)
    except TensorsError as error:
        raise InputsError(f"{path}: {error}") from error


def save_inputs(path: Path, tensors: Tensors) -> None:
    """Write the inputs of a pair as an .npz file that `load_inputs` reads back, scales not packed."""
    arrays = {field.name: getattr(tensors, field.name) for field in dataclasses.fields(tensors)}
    offsets = {name: arrays[name].astype(np.int32) for name in ("offsets1", "offsets2")}
    np.savez(path, **{**arrays, **offsets})


def _read(path: Path, geometry: Geometry) -> dict[str, Any]:
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise InputsError(f"{path}: is a device or a pipe: name a file")
        with path.open("rb") as file:
            if not zipfile.is_zipfile(file):
                raise InputsError(f"{path}: is not an .npz file")
        with np.load(path, allow_pickle=False) as archive:
            specs = _wanted(geometry, archive.files)
            _check_names(path, archive.files, [spec.name for spec in specs])
            _check_sizes(path, archive.zip, specs)
            return {spec.name: _checked(path, spec, archive[spec.name]) for spec in specs}
    except InputsError:
        raise  # a ValueError too, but already the line to show
    except OSError as error:
        raise InputsError(f"{path}: cannot be read: {error.strerror or error}") from error
    except _MALFORMED as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise InputsError(f"{path}: is damaged or not made by numpy: {reason}") from error


def _wanted(geometry: Geometry, names: Collection[str]) -> list[TensorSpec]:
    """The arrays this file must hold: packed tables, or their unpacked parts if it has those instead."""
    specs = []
    for spec in pair_specs(geometry):
        scales, offsets = spec.name.replace("scale", "scales"), spec.name.replace("scale", "offsets")
        if spec.role == "out":
            continue
        if spec.name in names or not {scales, offsets} & set(names):
            specs.append(spec)
        else:
            specs.append(TensorSpec(scales, spec.shape[1:], np.dtype(np.float32), "in"))
            specs.append(TensorSpec(offsets, spec.shape[1:], np.dtype(np.int32), "in"))
    return specs


def _check_names(path: Path, names: Collection[str], wanted: Collection[str]) -> None:
    for name in wanted:
        if name not in names:
            raise InputsError(f"{path}: array {name!r} is missing: it must hold {', '.join(wanted)}")
    for name in sorted(set(names) - set(wanted) - _OUTPUTS):
        raise InputsError(f"{path}: array {name!r} is not part of a pair: it must hold {', '.join(wanted)}")
    if len(names) != len(set(names)):
        raise InputsError(f"{path}: holds two arrays of one name")


def _check_sizes(path: Path, archive: zipfile.ZipFile, specs: Collection[TensorSpec]) -> None:
    """Refuse an array too large in any dtype before it is unpacked: kilobytes may make gigabytes."""
    held = {member.filename.removesuffix(".npy"): member.file_size for member in archive.infolist()}
    for spec in specs:
        most = _WIDEST * math.prod(spec.shape) + _HEADER
        if held[spec.name] > most:
            raise InputsError(
                f"{path}: array {spec.name!r} has {held[spec.name]} bytes: must be {list(spec.shape)}"
            )


def _checked(path: Path, spec: TensorSpec, array: object) -> Array:
    if not isinstance(array, np.ndarray):
        raise InputsError(f"{path}: {spec.name!r} is no array: write the file with numpy.savez")
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
        raise TensorsError(f"{name}: channel {channel}: bit 46 is 0 (uint8 output): a pair needs 1 (int8)")
    return fields.scale, fields.offset
