"""The pipeline's command line at another time: `python -m benchmarks.nights.clock BEGAN TARGET WORD...`.

BEGAN is the time in UTC at which the clock starts; it goes on as time does. TARGET is what does the work of
jobs (`module:function`), or empty for the pipeline's own.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from datetime import datetime, timedelta

from pipeline.commands.cli import main


def call(began: str, target: str, words: Sequence[str]) -> int:
    """Run a command line, and give its exit code."""
    start, at = time.monotonic(), datetime.fromisoformat(began)

    def now() -> datetime:
        return at + timedelta(seconds=time.monotonic() - start)

    return main(words, lambda: now().date(), now, target)


if __name__ == "__main__":
    sys.exit(call(sys.argv[1], sys.argv[2], sys.argv[3:]))
