"""Users' regular expressions. RE2 searches in linear time, so no pattern can make a run hang."""

from __future__ import annotations

import re

import re2

_NOT_LINEAR = re.compile(r"\(\?<?[=!]|\(\?P=|\\[1-9]")
"""Look-around and back-references, in Python's syntax."""


class PatternError(ValueError):
    """RE2 does not accept a pattern; the message is one line: why, remedy."""


class Pattern:
    """A regular expression in RE2's syntax. Raises `PatternError` if RE2 does not accept it."""

    def __init__(self, text: str) -> None:
        self.text = text
        options = re2.Options()
        options.log_errors = False  # it would print to stderr, in addition to the error raised
        options.never_capture = True  # faster, and we only ask whether there is a match
        try:
            self._expression = re2.compile(text, options)
        except re2.error as error:
            (reason,) = error.args
            remedy = (
                "look-around and back-references are not supported, because a search must take linear time"
                if _NOT_LINEAR.search(text)
                else "correct it"
            )
            raise PatternError(f"{reason.decode(errors='backslashreplace')}; {remedy}") from None
        except UnicodeEncodeError as error:
            raise PatternError(f"{error.reason}; correct it") from None

    def occurs(self, text: str) -> bool:
        """Whether it is found in `text`."""
        return self._expression.search(text.encode("utf-8", "backslashreplace")) is not None
