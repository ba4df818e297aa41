"""Files that users name."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def read_file(path: Path) -> bytes:
    """The bytes of a file.

    Raises:
        OSError: it cannot be read, or is a device or a pipe: reading it might never end, or never start.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(errno.EINVAL, "is a device or a pipe", str(path))
    return path.read_bytes()


def is_there(path: Path) -> bool:
    """Whether a file is there and can be seen; also of a name that is too long, for which `Path` raises."""
    return os.path.exists(path)  # noqa: PTH110


def check_folder(folder: Path) -> None:
    """Check that files can be made in a folder, which need not be there yet. Nothing is made.

    Raises:
        OSError: it is no folder, cannot be made, or takes no files.
    """
    try:
        folder.stat()
    except FileNotFoundError:
        if folder.is_symlink() or folder == folder.parent:
            raise
        check_folder(folder.parent)
        return
    import tempfile  # imported here, because `list` checks no folder

    with tempfile.TemporaryFile(dir=folder):
        pass  # it has no name, or no longer


def destination(path: Path) -> Path:
    """The path with all symbolic links resolved; the file need not exist.

    For a loop of links it returns one of them; `Path.resolve` raises there before Python 3.13.
    """
    return Path(os.path.realpath(path))
