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
