"""A program computed step by step, and by its kept walk: both must give the same, to the byte."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from emulator.elements import Numbers
from emulator.engine import Report, run_program, walk_program
from emulator.program import Program
from emulator.soc import SOCS, Soc
from emulator.vreq8 import READINGS

Arrays = Mapping[str, npt.NDArray[Any]]
Run = Callable[[Arrays], Report]


def alike(
    program: Program, arrays: Arrays, variant: str = "vreq8", soc: Soc = SOCS["a2a3"]
) -> tuple[str, Arrays]:
    """How both end, and what they leave in the arrays; the kept walk runs twice.

    Returns:
        The error, empty if there is none, and the arrays.
    """
    by_steps = outcome(
        lambda own: walk_program(program, soc, own, Numbers(READINGS[variant], by_steps=True)), arrays
    )
    for _ in range(2):
        kept = outcome(lambda own: run_program(program, soc, own, variant), arrays)
        assert kept[0] == by_steps[0]
        for name, array in by_steps[1].items():
            np.testing.assert_array_equal(kept[1][name], array, err_msg=name)
    said, own = by_steps
    return (said if isinstance(said, str) else ""), own


def outcome(run: Run, arrays: Arrays) -> tuple[object, Arrays]:
    """The counts, estimate and memory maps, or the error, and the arrays."""
    own = {name: array.copy() for name, array in arrays.items()}
    try:
        report = run(own)
    except Exception as error:
        return f"{type(error).__name__}: {error}", own
    residents = {name: memory.residents for name, memory in report.memory.items()}
    return (report.counts, report.estimate, residents), own
