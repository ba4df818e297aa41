"""`python -m pipeline`."""

from __future__ import annotations

import os
import sys
import traceback

from pipeline.cli import main


def _guarded() -> int:
    """The exit code; an error of the pipeline's own must not end as 1, which is a mismatch."""
    try:
        code = main(sys.argv[1:])
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        from pipeline.cli import INTERRUPTED

        # Whoever reads us has enough (`| head`); what is left in the buffer has nowhere to go either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return INTERRUPTED
    except Exception:
        from pipeline.run.states import INTERNAL_ERROR

        traceback.print_exc()
        return INTERNAL_ERROR


if __name__ == "__main__":
    sys.exit(_guarded())
