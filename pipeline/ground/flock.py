"""Locks of files by `flock`, which end with their holder, and whether a folder's files can be locked so.

Where they cannot, the library `filelock` makes locks of another kind, which outlive a holder that was killed:
the next run would wait for ever.
"""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
from contextlib import suppress
from pathlib import Path

_REFUSED = frozenset({errno.ENOSYS, errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP})


def require_flock(folder: Path) -> None:
    """Raise `OSError` if an existing folder takes no files (/proc) or refuses `flock` (some network mounts).

    Nothing is left in the folder. One that cannot be written to for another reason is not judged.
    """
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError as error:  # the library `filelock` would take it for a lock that is held
        raise FileNotFoundError(error.errno, "no files can be made there", str(folder)) from error
    except OSError as error:
        if error.errno in _REFUSED:
            reason = f"files there cannot be locked: flock fails with {error.strerror!r}"
            raise OSError(error.errno, reason, str(folder)) from error


def try_flock(path: Path) -> int | None:
    """Lock a file, which all users can lock too; it is made if it is missing.

    For locks that are taken thousands of times: the library `filelock` takes as long as a tiny job's way
    through the controller.

    Returns:
        The descriptor that holds the lock until it is closed; None if the lock is held elsewhere.

    Raises:
        OSError: the file cannot be opened, or is a link or a folder.
    """
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        # Where all may write (/tmp), Linux refuses to open another user's file with `O_CREAT`.
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        descriptor = os.open(path, flags | os.O_CREAT, 0o666)
        with suppress(PermissionError):  # another user was quicker
            os.fchmod(descriptor, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
