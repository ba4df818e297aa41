"""`python -m pipeline`."""

from __future__ import annotations

import sys
import traceback

from pipeline.cli import main


def _guarded() -> int:
    """The exit code; an error of the pipeline's own must not end as 1, which is a mismatch."""
    try:
        return main(sys.argv[1:])
    except Exception:
        from pipeline.run.states import INTERNAL_ERROR

        traceback.print_exc()
        return INTERNAL_ERROR


if __name__ == "__main__":
    sys.exit(_guarded())
