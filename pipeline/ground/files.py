"""Files that users name."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def read_file(path: Path) -> bytes:
    """The bytes of a file.

    Raises:
        OSError: it cannot be read, or is a device or a pipe, which may give bytes for ever, or never one.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(errno.EINVAL, "is a device or a pipe", str(path))
    return path.read_bytes()


def destination(path: Path) -> Path:
    """Where a path leads through symbolic links, whether something is there or not.

    Unlike `Path.resolve`, which before Python 3.13 raises on a loop of links, it then gives one of them.
    """
    return Path(os.path.realpath(path))
