"""The folder in which engines keep what takes long to build, who builds there, and how long a build stays.

Each build is a folder of its own, named by what it is and a hash. A build is used when it is asked for; the
locks lie beside the builds, so that a build is removed with nothing of it left.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path

from filelock import FileLock, Timeout

from golden import entries
from pipeline.ground.flock import require_flock

MOST_BYTES = 2**30
"""What all builds of an engine may have together."""

LONGEST_UNUSED = timedelta(days=30)

IN_USE = timedelta(hours=1)
"""How long a build stays after it was asked for, whatever the limits say: its asker may still load it."""

_BUILD = re.compile(r"[a-z]+-[0-9a-f]{16,}")


def user_cache(engine: str) -> Path | None:
    """An engine's folder in the user's cache folder, if there is one.

    By the XDG Base Directory Specification, a relative path counts as not set.
    """
    folder = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not folder.is_absolute():
        try:
            folder = Path.home() / ".cache"
        except RuntimeError:
            return None
    return folder / "conv-pair-pipeline" / engine if folder.is_absolute() else None


@contextmanager
def building(folder: Path) -> Iterator[None]:
    """Make a build's folder and hold it: no other process builds there or removes it.

    Any number of processes may ask at once: each has it after the other. Raises `OSError`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    require_flock(folder.parent)
    with _lock(folder):
        folder.mkdir(exist_ok=True)  # it may have been removed meanwhile
        entries.use(folder)
        yield


def prune_builds(
    cache: Path,
    now: datetime | None = None,
    *,
    most_bytes: int = MOST_BYTES,
    max_age: timedelta = LONGEST_UNUSED,
) -> None:
    """Remove builds not used for `max_age`, then those used least recently until the rest fits `most_bytes`.

    None is removed that another process makes now, or that one asked for within `IN_USE`. A process that
    misses a build makes it again. What cannot be removed stays.
    """
    now = now or datetime.now(timezone.utc)
    for folder in entries.surplus(_builds(cache), most_bytes, max_age=max_age, now=now):
        with suppress(OSError, Timeout), _lock(folder).acquire(blocking=False):
            if folder.stat().st_mtime < (now - IN_USE).timestamp():  # asked for since, perhaps
                shutil.rmtree(folder)


def _lock(folder: Path) -> FileLock:
    """The lock of a build. 256 serve for all, as a lock that was removed with its build would be no lock."""
    return FileLock(folder.parent / f"building-{folder.name.rpartition('-')[2][:2]}.lock")


def _builds(cache: Path) -> Iterator[tuple[float, int, Path]]:
    with suppress(OSError):  # another user's
        for folder in cache.iterdir():
            if _BUILD.fullmatch(folder.name) and folder.is_dir():
                with suppress(OSError):  # another process removed it
                    size = sum(path.lstat().st_size for path in folder.rglob("*"))
                    yield folder.stat().st_mtime, size, folder
