"""Files that users name."""

from __future__ import annotations

import errno
from pathlib import Path


def read_file(path: Path) -> bytes:
    """The bytes of a file.

    Raises:
        OSError: it cannot be read, or is a device or a pipe, which may give bytes for ever, or never one.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(errno.EINVAL, "is a device or a pipe", str(path))
    return path.read_bytes()
