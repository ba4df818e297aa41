"""The standard streams of a command: if one cannot be written, the command goes on without it."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

INTERNAL_ERROR = 3
"""The exit code if the pipeline itself failed, or standard output cannot be written."""


class Outlet(io.FileIO):
    """A stream's descriptor. After the first error it is the null device, and what is written there is lost.

    `error` is that error; None as long as all was written.
    """

    error: OSError | None = None

    def write(self, data: Any, /) -> int:
        """Write bytes, and say how many were written or lost."""
        try:
            return super().write(data)
        except OSError as error:
            self.error = error
            with Path(os.devnull).open("wb") as null:
                os.dup2(null.fileno(), self.fileno())
            return memoryview(data).nbytes


def open_streams() -> Outlet:
    """Have standard output and standard error go through an `Outlet` each; return that of standard output.

    A closed stream (`>&-`) is connected to the null device. Otherwise it is None, and the first file that we
    open gets its descriptor and what is printed.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free descriptor: this one
    if sys.stdin is None:
        sys.stdin = os.fdopen(0)
    outlet, sys.stdout = _through_outlet(1, sys.stdout)
    _, sys.stderr = _through_outlet(2, sys.stderr)
    return outlet


def through_streams(command: Callable[[], int]) -> int:
    """The exit code of a command that prints through outlets; if its output cannot be written, one line.

    Also that of a command whose parser ended it: after `--help`, or a mistake in its arguments. A reader who
    has enough (`| head`) changes nothing: the command ends as if all had been read.
    """
    outlet = open_streams()
    try:
        code = command()
    except SystemExit as ended:
        if not isinstance(ended.code, int):
            raise
        code = ended.code
    sys.stdout.flush()
    if outlet.error is None or isinstance(outlet.error, BrokenPipeError):
        return code
    remedy = "make room there, or send it elsewhere"
    sys.stderr.write(f"standard output cannot be written: {outlet.error.strerror}; {remedy}\n")
    return INTERNAL_ERROR


def printed(text: str) -> int:
    """Print the text of a command that only says it, through outlets; gives the exit code."""

    def command() -> int:
        sys.stdout.write(text)
        return 0

    return through_streams(command)


def _through_outlet(descriptor: int, stream: TextIO | None) -> tuple[Outlet, TextIO]:
    """An outlet for a descriptor, and a stream that writes to it as the given one, which may be None, does.

    It escapes what its encoding cannot say, such as the name of a file that is not UTF-8. A stream that holds
    nothing back (PYTHONUNBUFFERED) gives away whole lines: a system may take a part of what it is given.
    """
    outlet = Outlet(descriptor, "w", closefd=False)
    old = stream if isinstance(stream, io.TextIOWrapper) else None
    text = io.TextIOWrapper(
        io.BufferedWriter(outlet),
        encoding=old.encoding if old else "utf-8",
        errors=old.errors if old and old.errors != "strict" else "backslashreplace",
        line_buffering=old is None or old.line_buffering or old.write_through,
    )
    return outlet, text
