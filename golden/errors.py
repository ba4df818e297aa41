"""The base class of all errors that a user can cause and that end a command with a message."""

from __future__ import annotations

from typing import ClassVar


class UserError(Exception):
    """A user's mistake, or something missing on the user's host; the message is what the user reads.

    The message is one line that says what is wrong, where, and what helps.

    Attributes:
        exit_code: exit code of a command that ends with this error; 4 means wrong usage.
    """

    exit_code: ClassVar[int] = 4
