"""What a command line asks of every job of a run, and what an earlier run was begun with."""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path

from pipeline.commands.options import OUTPUT
from pipeline.faults.catalogue import FaultError, fault_named
from pipeline.ground.jobs import Job
from pipeline.matrix.select import FilterError

_UNSET = {"matrix": "no overlay", "injected": "no fault", "inputs": "the profiles", "stage": "all"}
"""The run facts that change what every job does, and what holds without them."""


def settings_asked(arguments: Namespace) -> dict[str, str]:
    """What is asked for that changes what every job of a run does, as the run's facts record it."""
    inputs: Path | None = getattr(arguments, "inputs", None)
    asked = {
        "matrix": shlex.join(map(str, arguments.matrix)),
        "injected": getattr(arguments, "inject", ""),
        "inputs": str(inputs.absolute()) if inputs is not None else "",
        "stage": getattr(arguments, "stage", ""),
    }
    return {fact: value for fact, value in asked.items() if value}


def places_asked(arguments: Namespace) -> dict[str, str]:
    """The places other than the usual ones that a command line names and that are there, by option."""
    output, references = arguments.output.absolute(), arguments.references
    places = {
        "output": str(output) if output != OUTPUT.absolute() else "",
        "references": str(references.absolute()) if references and references.exists() else "",
    }
    return {name: place for name, place in places.items() if place}


def settings_begun(facts: Mapping[str, str], asked: Mapping[str, str]) -> dict[str, str]:
    """The settings that the run to be taken up was begun with, by its facts.

    Raises:
        FilterError: others are asked for now.
    """
    for fact, value in asked.items():
        begun = facts.get(fact, _UNSET[fact])
        if value != begun:
            raise FilterError(f"{fact}: the earlier run was begun with {begun}, not with {value}")
    return {fact: facts[fact] for fact in _UNSET if fact in facts}


def check_injection(name: str, plan: Sequence[Job]) -> None:
    """Raise `FaultError` where there is no such fault, or a job that is not the emulator's."""
    fault_named(name)
    for job in plan:
        platform = job.platforms[0]
        if platform.backend != "emulator":
            raise FaultError(
                f"--inject {name}: faults are injected on the emulator only, and {job.id} runs on "
                f"{platform.backend}: choose platforms with --platform"
            )
