"""What the functions of a user's declaration raise: one line with the place in the user's file."""

from __future__ import annotations

import traceback
from enum import Enum
from pathlib import Path

from golden.errors import UserError
from workloads.base import WorkloadError

_ROOT = Path(__file__).parents[1]
_SHIPPED = ("kernels", "workloads", "golden")


def blamed(error: BaseException, what: str, file: str) -> WorkloadError:
    """An error of a user's file in one line: the place, what was done there, the error."""
    return WorkloadError(f"{place_in(error, file)}: {what}: {reason_of(error)}")


def place_in(error: BaseException, file: str) -> str:
    """The last line of a user's file that led to an error."""
    place, trace = file, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            place = f"{file}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def shipped_line(error: BaseException) -> str:
    """The last line of a shipped kernel, workload or definition that led to an error; empty if none did.

    It is also empty for a `UserError`, which says itself where.
    """
    if isinstance(error, UserError):
        return ""
    place = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        path = Path(frame.f_code.co_filename)
        if any(path.is_relative_to(_ROOT / room) for room in _SHIPPED):
            place = f"{path.relative_to(_ROOT)}:{line}"
    return place


def reason_of(error: BaseException) -> str:
    """An error in one line; of a name that an enumeration such as `Role` lacks, with those that it has."""
    try:
        text = str(error).splitlines()[:1]
    except Exception:  # the error's type may be the user's own
        text = []
    if isinstance(error, UserError):
        return "".join(text)
    kind = getattr(error, "obj", None)
    if isinstance(error, AttributeError) and isinstance(kind, type) and issubclass(kind, Enum):
        text = [f"{kind.__name__} has no {error.name}: it has {', '.join(kind.__members__)}"]
    return ": ".join([type(error).__name__, *text])
