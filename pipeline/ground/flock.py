"""Whether a folder's files can be locked.

Where they cannot, the library `filelock` makes locks of another kind, which outlive a holder that was killed:
the next run would wait for ever.
"""

from __future__ import annotations

import errno
import fcntl
import tempfile
from pathlib import Path

_REFUSED = frozenset({errno.ENOSYS, errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP})


def require_flock(folder: Path) -> None:
    """Raise `OSError` if the file system of an existing folder refuses `flock`, as some network mounts do.

    Nothing is left in the folder. One that cannot be written to is not judged.
    """
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _REFUSED:
            reason = f"files there cannot be locked: flock fails with {error.strerror!r}"
            raise OSError(error.errno, reason, str(folder)) from error
