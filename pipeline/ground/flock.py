"""Files that are locked by `flock`, and whether a folder's files can be.

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

_FLAGS = os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW
"""How a lock's file is opened: a pipe that somebody has put there is not waited for, nor a link followed."""

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


def try_lock(path: Path) -> int | None:
    """Lock a file, which is made if it is missing and which every user may lock.

    Each job on a device takes a lock. `filelock` needs sixteen times as long for it, a third of what the
    controller did for a job: it looks for other kinds of locks, and makes forks safe that do not happen here.

    Returns:
        The descriptor that holds the lock until it is closed; programs that are started do not inherit it.
        None: another process holds the lock, or makes or removes the file just now.

    Raises:
        FileNotFoundError: there is no such folder.
        OSError: the file cannot be opened or locked.
    """
    try:
        # Without O_CREAT first: the kernel may refuse it for another user's file in a folder such as /tmp.
        descriptor = os.open(path, _FLAGS)
    except FileNotFoundError:
        try:
            descriptor = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            return None
        with suppress(PermissionError):
            os.fchmod(descriptor, 0o666)  # whatever the umask is
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_nlink:
            return descriptor
    except BlockingIOError:
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None
