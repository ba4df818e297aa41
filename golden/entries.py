"""Files that a cache keeps, whole or not at all: sealed with a digest, renamed into place, pruned by use.

Any number of processes may write, read and prune one folder at once.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

_DIGEST_BYTES = hashlib.sha256().digest_size
_LONGEST_WRITE = timedelta(hours=1)
_UNFINISHED = ".partial"


class CorruptEntryError(Exception):
    """The bytes of an entry are not those that were sealed."""


def sealed(key: str, payload: bytes) -> bytes:
    """The content of an entry: a digest over its key too, as one that was copied to another name is wrong."""
    return hashlib.sha256(key.encode() + payload).digest() + payload


def payload_of(key: str, content: bytes) -> memoryview:
    """What `sealed` was given. Raises `CorruptEntryError` if the content is not the one it gave."""
    if len(content) <= _DIGEST_BYTES:
        raise CorruptEntryError(f"cut short at byte {len(content)}")
    payload = memoryview(content)[_DIGEST_BYTES:]
    if content[:_DIGEST_BYTES] != hashlib.sha256(key.encode() + payload).digest():
        raise CorruptEntryError(f"its {len(content)} bytes do not have the digest they were written with")
    return payload


def write(path: Path, content: bytes) -> None:
    """Write an entry: readers see the old file or the whole new one. Raises `OSError`."""
    handle, unfinished = tempfile.mkstemp(prefix=f".{path.name[:16]}.", suffix=_UNFINISHED, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(unfinished).replace(path)
    except BaseException:
        Path(unfinished).unlink(missing_ok=True)
        raise


def use(path: Path) -> None:
    """Note that an entry was used now: `prune` goes by that."""
    with suppress(OSError):  # the entry is another user's
        os.utime(path)


def named(folder: Path, suffix: str) -> list[tuple[float, int, Path]]:
    """Each file with this suffix: when it was last used or written (seconds), its bytes, its path."""
    found = []
    with suppress(OSError):  # there is no folder, or it cannot be read
        for path in folder.glob(f"*{suffix}"):
            with suppress(OSError):  # another process removed it
                status = path.stat()
                found.append((status.st_mtime, status.st_size, path))
    return found


def prune(folder: Path, limits: Mapping[str, float], *, max_age: timedelta, now: datetime) -> None:
    """Remove entries not used for `max_age`, then the least recently used until the rest fits its limit.

    Half-written entries are removed once no process can still be writing them. A file that cannot be removed
    stays.

    Args:
        folder: of the entries.
        limits: by suffix, how many bytes all entries with it may have.
        max_age: since the last use.
        now: the time.
    """
    for used, _, path in named(folder, _UNFINISHED):
        if used < (now - _LONGEST_WRITE).timestamp():
            _remove(path)
    for suffix, room in limits.items():
        for path in surplus(named(folder, suffix), room, max_age=max_age, now=now):
            _remove(path)


def surplus(
    found: Iterable[tuple[float, int, Path]], room: float, *, max_age: timedelta, now: datetime
) -> list[Path]:
    """What was not used for `max_age`, and what was used least recently beyond `room` bytes.

    `found` has, as `named` gives them, seconds, bytes and path of each.
    """
    gone, left = [], room
    for used, size, path in sorted(found, reverse=True):
        left -= size
        if left < 0 or used < (now - max_age).timestamp():
            gone.append(path)
    return gone


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
