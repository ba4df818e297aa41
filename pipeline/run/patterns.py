"""Users' regular expressions, searched for within a bound: some take longer than any night."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable
from types import FrameType

PATIENCE = 0.5
"""Seconds of this process's own time that one search may take; a good pattern takes milliseconds."""


class SearchError(Exception):
    """A search was given up."""


def occurs(pattern: re.Pattern[str], texts: Iterable[str], patience: float = PATIENCE) -> bool:
    """Whether `pattern` is found in any of `texts`. For the main thread only.

    The timer counts what the process computes, not how long a busy host lets it wait; `re` heeds signals
    while it searches.

    Raises:
        SearchError: it took longer than `patience`.
    """
    handler = signal.signal(signal.SIGVTALRM, _give_up)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, patience)
        try:
            return any(pattern.search(text) for text in texts)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    finally:
        signal.signal(signal.SIGVTALRM, handler)


def _give_up(_number: int, _frame: FrameType | None) -> None:
    raise SearchError
