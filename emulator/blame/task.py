"""A program, and what it must do: what is walked to find out what is wrong, and whether a change mends it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from emulator.backward import NOTHING, Suspicion, suspicions
from emulator.coordinates import Coordinates
from emulator.engine import walk_program
from emulator.errors import AccessError, KernelError
from emulator.program import Program
from emulator.soc import Soc
from emulator.sums import Mask
from emulator.terms import NEVER, Ids, Numbering
from emulator.trace import Recorder


@dataclass(frozen=True)
class Task:
    """A program to prove.

    Attributes:
        program: the typed program, without injected faults.
        soc: the soc whose capacities apply.
        numbering: the ids of the workload's elements.
        given: the ids of the inputs of `main`, by parameter.
        wanted: the ids that the outputs must have, by parameter; `NOTHING` where any may stand.
    """

    program: Program
    soc: Soc
    numbering: Numbering
    given: Mapping[str, Ids]
    wanted: Mapping[str, Ids]

    def outputs(self) -> dict[str, Ids]:
        """Outputs in which nothing was written yet, by parameter."""
        return {name: np.full(ids.shape, NEVER, self.numbering.dtype) for name, ids in self.wanted.items()}

    def walked(self) -> dict[str, Ids]:
        """What the outputs hold after a walk, ids by parameter.

        Raises:
            CapacityError, AccessError: the program is refused.
        """
        outputs = self.outputs()
        walk_program(self.program, self.soc, {**self.given, **outputs}, Coordinates(self.numbering))
        return outputs

    def wrong(self) -> float:
        """How many elements of the outputs are wrong; infinitely many if the program cannot be walked."""
        try:
            outputs = self.walked()
        except (KernelError, ValueError, IndexError, AssertionError, KeyError):
            return float("inf")
        return float(sum(int(mask.sum()) for mask in self.differing(outputs).values()))

    def differing(self, outputs: Mapping[str, Ids]) -> dict[str, Mask]:
        """Which elements of outputs, ids by parameter, are not what they must be."""
        return {name: (outputs[name] != ids) & (ids != NOTHING) for name, ids in self.wanted.items()}

    def suspicions(self) -> list[Suspicion]:
        """The operators at fault, by a walk with records.

        Raises:
            CapacityError: a memory is over its capacity.
            AccessError: the program reads or writes what it must not; it says in which rounds.
        """
        recorder = Recorder(self.numbering)
        try:
            walk_program(self.program, self.soc, {**self.given, **self.outputs()}, recorder)
        except AccessError as error:
            error.rounds = recorder.rounds
            raise
        recorder.finish()
        wanted = {recorder.output(name): ids for name, ids in self.wanted.items()}
        return suspicions(recorder, self.numbering, wanted)
