"""Durations as users write them: `90s`, `5m`, `1h30m`, or a number of seconds."""

from __future__ import annotations

import re

FORMS = "`90s`, `5m`, `1h30m` or a number of seconds"

LONGEST = 7 * 24 * 3600
"""Seconds of the longest duration, a week: a few of them stay below the 24 days that `epoll` can wait."""

_NUMBER = r"([0-9]{1,9}(?:\.[0-9]{1,9})?)"
PATTERN = rf"^(?:{_NUMBER}|(?=.)(?:([0-9]{{1,6}})h)?(?:([0-9]{{1,6}})m)?(?:{_NUMBER}s)?)$"
"""The text forms, as a regular expression that JSON Schema reads too."""


class Duration(float):
    """A length of time in seconds, above zero and at most `LONGEST`."""


def parse_duration(written: object) -> Duration:
    """Read a duration: text in one of the forms, or a number of seconds.

    Raises:
        ValueError: it does not have such a form, is not above zero or is above a week.
    """
    seconds = 0.0
    if isinstance(written, str):
        if match := re.fullmatch(PATTERN, written):
            plain, hours, minutes, rest = (float(part or 0) for part in match.groups())
            seconds = plain + hours * 3600 + minutes * 60 + rest
    elif isinstance(written, int | float) and not isinstance(written, bool):
        seconds = float(written)
    if not 0 < seconds <= LONGEST:
        raise ValueError(f"a duration is {FORMS}, above zero and at most a week")
    return Duration(seconds)
