"""`python -m pipeline`."""

from __future__ import annotations

import os
import sys
import traceback


def _open_streams() -> None:
    """Point closed standard streams (`>&-`) at nothing.

    Else they are None, and the first files that we open take their descriptors, and what is printed there.
    """
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest descriptor that is free: this one
            setattr(sys, name, os.fdopen(descriptor, mode))


def _guarded() -> int:
    """The exit code; an error of the pipeline's own must not end as 1, which is a mismatch."""
    try:
        # Imported here, since it imports every kernel, and one that is being written need not be Python yet.
        from pipeline.cli import main

        code = main(sys.argv[1:])
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        from pipeline.cli import INTERRUPTED

        # Whoever reads us has enough (`| head`); what is left in the buffer has nowhere to go either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return INTERRUPTED
    except OSError as error:
        from pipeline.run.states import INTERNAL_ERROR

        sys.stderr.write(
            f"cannot go on: {error}\n"
        )  # the host's fault, as where it is full: no place of ours
        return INTERNAL_ERROR
    except Exception:
        from pipeline.run.states import INTERNAL_ERROR

        traceback.print_exc()
        return INTERNAL_ERROR


if __name__ == "__main__":
    _open_streams()
    sys.exit(_guarded())
