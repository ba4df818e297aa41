"""Computed goldens on disk, so that the jobs of a night compute each golden once.

An entry is one file: a digest, then the inputs and the outputs in MessagePack. Its name is a hash of
everything that determines its content, including golden's own source files, so it can be old but never stale.
Beside it, a note for each output of a profile says whose output it is. The folder may be deleted at any time.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from golden import entries, profiles
from golden.definition import Definition
from golden.specs import Array, Tensors

_SOURCES = Path(__file__).parent


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    """An array in an entry. NumPy's npz takes about fifty times as long to read, and each job reads one."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


class _Entry(msgspec.Struct, frozen=True, array_like=True):
    """The content of an entry."""

    inputs: dict[str, _Stored]
    outputs: dict[str, _Stored]


_ENTRIES = msgspec.msgpack.Decoder(_Entry)


@dataclass(frozen=True, eq=False)
class Golden:
    """The inputs of a workload, and the outputs that they must give, by name.

    `note` is one line about trouble with the cache, to be shown in the report, or empty.
    """

    tensors: Tensors
    outputs: Mapping[str, Array]
    note: str = ""


@dataclass(frozen=True, eq=False)
class Wanted:
    """What a golden is computed from.

    Attributes:
        definition: the definition of the workload.
        geometry: the shapes, of the definition's type.
        source: a profile's name, such as `full-range@7` (`@nightly` resolved), or the tensors of
            `golden.inputs.load_inputs`.
        variant: one of `golden.vreq8.VARIANTS`.
    """

    definition: Definition
    geometry: Any
    source: str | Tensors
    variant: str


def golden_for(wanted: Wanted, folder: Path) -> Golden:
    """The golden of a profile or of given tensors, cached if possible.

    A cache hit does not import torch. Any number of processes may use one folder. If the folder or an entry
    cannot be used (unreadable, full, cut short), the golden is computed, and `note` says why.

    Args:
        wanted: what the golden is computed from.
        folder: where the entries are; it is created if it is missing.

    Raises:
        ProfileError: the profile does not exist.
        DefinitionError: the profile or the golden gives what the specs do not declare.
        TensorsError: the scales cannot be packed for the variant, or the variant is unknown.
        TorchError: the golden must be computed, and torch cannot be imported.
    """
    path = entry_of(wanted, folder)
    key = path.stem
    definition, geometry, source = wanted.definition, wanted.geometry, wanted.source
    notes = []
    try:
        return _load(path, key, wanted)
    except FileNotFoundError:
        pass  # the ordinary miss
    except entries.CorruptEntryError as error:
        notes.append(f"golden cache entry {path} is corrupt ({error}): recomputed")
    except OSError as error:
        notes.append(f"golden cache entry {path} cannot be read ({error.strerror}): recomputed")

    tensors = definition.make(source, geometry) if isinstance(source, str) else source
    given = _unwritable(tensors) if definition.sources else tensors
    with warnings.catch_warnings():
        # torch warns of such an array, which it could write to.
        warnings.filterwarnings("ignore", "The given NumPy array is not writ", UserWarning)
        outputs = definition.computed(geometry, given, wanted.variant)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        entries.write(path, entries.sealed(key, _payload(tensors, outputs)))
        if isinstance(source, str):
            for name, output in outputs.items():
                note = f"{name} of {source} ({wanted.variant})".encode()
                entries.write(_note(output, definition, geometry, folder), note)
    except OSError as error:
        notes.append(f"golden not kept in the cache {folder} ({error.strerror})")
    return Golden(tensors, outputs, "; ".join(notes))


def whose(output: Array, definition: Definition, geometry: Any, folder: Path) -> str:
    """The profile that has this output of a workload as its golden; empty if none is known.

    Known are the profiles whose goldens `golden_for` put into the folder, such as `y of small (vreq8)`.
    """
    try:
        return _note(output, definition, geometry, folder).read_text("utf-8")
    except OSError:
        return ""


def _note(output: Array, definition: Definition, geometry: Any, folder: Path) -> Path:
    digest = _workload_digest(definition, geometry)
    digest.update(f"{output.dtype.str} {output.shape} ".encode() + output.tobytes())
    return folder / f"{digest.hexdigest()}.output"


def _unwritable(tensors: Tensors) -> Tensors:
    """Read-only copies: a user's golden that wrote to its inputs would change those of the kernel too."""
    copies = {name: array.copy() for name, array in tensors.values.items()}
    for array in copies.values():
        array.flags.writeable = False
    return Tensors(tensors.specs, copies)


def entry_of(wanted: Wanted, folder: Path) -> Path:
    """The file in which `golden_for` looks for an entry. Arguments and errors are those of `golden_for`."""
    return folder / f"{_key(wanted)}.golden"


def notes_in(folder: Path) -> list[Path]:
    """The files of the notes in a folder, which `whose` reads."""
    return sorted(path for _, _, path in entries.named(folder, ".output"))


def is_cached(wanted: Wanted, folder: Path) -> bool:
    """Whether `golden_for` would find an entry, and so would not need torch.

    Arguments and errors are those of `golden_for`. A folder that cannot be entered counts as empty.
    """
    path = entry_of(wanted, folder)
    try:
        return path.exists()
    except OSError:
        return False


def prune(folder: Path, *, max_bytes: int, max_age: timedelta, now: datetime) -> None:
    """Remove entries not used for `max_age`, then the least recently used until the rest fits `max_bytes`.

    Half-written entries are removed once no process can still be writing them. A file that cannot be removed
    stays. Any number of processes may prune, read and write at once: one that misses an entry computes it.
    """
    entries.prune(folder, {".output": math.inf, ".golden": max_bytes}, max_age=max_age, now=now)


@cache
def sources_digest() -> bytes:
    """A digest of golden's own source files, as they were when this process first asked."""
    digest = hashlib.sha256()
    for path in sorted(_SOURCES.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.digest()


def _workload_digest(definition: Definition, geometry: Any) -> hashlib._Hash:
    """A digest of all that determines a golden, apart from the inputs and the variant."""
    digest = hashlib.sha256(sources_digest())
    for path in definition.sources:
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    facts = {"workload": definition.name, "geometry": _shapes(geometry)}
    digest.update(json.dumps(facts, sort_keys=True).encode())
    return digest


def _shapes(geometry: Any) -> dict[str, Any]:
    """The fields of a geometry, without those that may be left out and have their default."""
    return {
        field.name: _shapes(value) if dataclasses.is_dataclass(value) else value
        for field in dataclasses.fields(geometry)
        if (value := getattr(geometry, field.name)) != field.default or not field.metadata.get("optional")
    }


def _key(wanted: Wanted) -> str:
    definition, source = wanted.definition, wanted.source
    digest = _workload_digest(definition, wanted.geometry)
    facts: dict[str, Any] = {"variant": wanted.variant}
    if isinstance(source, str):
        facts["profile"], facts["seed"] = profiles.parse(source, definition.profiles)
    digest.update(json.dumps(facts, sort_keys=True).encode())
    if isinstance(source, Tensors):
        for name, array in sorted(source.values.items()):
            digest.update(f"{name} {array.dtype.str} {array.shape} ".encode() + array.tobytes())
    return digest.hexdigest()


def _load(path: Path, key: str, wanted: Wanted) -> Golden:
    payload = entries.payload_of(key, path.read_bytes())
    entries.use(path)
    entry = _ENTRIES.decode(payload)
    tensors = Tensors(wanted.definition.specs(wanted.geometry), _arrays(entry.inputs))
    return Golden(tensors, _arrays(entry.outputs))


def _arrays(stored: Mapping[str, _Stored]) -> dict[str, Array]:
    """Arrays by name, as copies: an array on `bytes` is read-only."""
    return {
        name: np.frombuffer(array.data, array.dtype).reshape(array.shape).copy()
        for name, array in stored.items()
    }


def _stored(arrays: Mapping[str, Array]) -> dict[str, _Stored]:
    return {name: _Stored(array.dtype.str, array.shape, array.tobytes()) for name, array in arrays.items()}


def _payload(tensors: Tensors, outputs: Mapping[str, Array]) -> bytes:
    return msgspec.msgpack.encode(_Entry(_stored(tensors.values), _stored(outputs)))
