"""Users' regular expressions. RE2 searches in time linear in the text, so no pattern can hold up a run."""

from __future__ import annotations

import re

import re2

_NOT_LINEAR = re.compile(r"\(\?<?[=!]|\(\?P=|\\[1-9]")
"""Look-around and back-references, in Python's syntax."""


class PatternError(ValueError):
    """RE2 does not take a pattern; the message is one line: why, remedy."""


class Pattern:
    """A regular expression in RE2's syntax."""

    def __init__(self, text: str) -> None:
        """Compile `text`.

        Raises:
            PatternError: it is no such expression.
        """
        self.text = text
        options = re2.Options()
        options.log_errors = False  # to stderr, beside the error that is raised
        options.never_capture = True  # whether there is a match is all we ask, and is found faster
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
