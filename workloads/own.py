"""What the functions of a user's declaration raise: one line with the place in the user's file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

from golden.errors import UserError
from golden.specs import TensorSpec
from workloads.base import Workload, WorkloadError

Specs = Callable[[Any], tuple[TensorSpec, ...]]


def guarded(workload: Workload, file: str, sources: tuple[Path, ...]) -> Workload:
    """The declaration of a user's file, with its sources; its specs raise only `WorkloadError`."""
    definition = workload.definition
    specs = _checked_specs(f"specs of workload {workload.name}", definition.specs, file)
    return replace(workload, definition=replace(definition, specs=specs, sources=sources))


def _checked_specs(what: str, function: Specs, file: str) -> Specs:
    """The function, which raises `WorkloadError` if it raises anything or returns no specs."""

    @wraps(function)
    def call(geometry: Any) -> tuple[TensorSpec, ...]:
        try:
            found = function(geometry)
        except (WorkloadError, MemoryError, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise blamed(error, what, file) from error
        if not isinstance(found, list | tuple) or not all(isinstance(spec, TensorSpec) for spec in found):
            kind = type(found).__name__
            raise WorkloadError(f"{file}: {what}: returns {kind}: must be a tuple of TensorSpec")
        return tuple(found)

    return call


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
    """An error in one line."""
    try:
        text = str(error).splitlines()[:1]
    except Exception:  # the error's type may be the user's own
        text = []
    return "".join(text) if isinstance(error, UserError) else ": ".join([type(error).__name__, *text])
