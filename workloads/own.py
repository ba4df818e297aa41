"""What the functions of a user's declaration raise: one line with the place in the user's file."""

from __future__ import annotations

from enum import Enum

from golden.errors import UserError
from workloads.base import WorkloadError


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
