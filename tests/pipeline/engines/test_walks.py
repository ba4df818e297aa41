"""Programs of the shipped matrix, right and wrong ones: kept walks compute what walks step by step do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from emulator.coordinates import Coordinates
from emulator.engine import walk_program
from emulator.errors import KernelError
from emulator.operands import Binary, DType, LoopVar, fold
from emulator.program import Call, For, Program, Statement, each_block, flat
from emulator.soc import SOCS
from emulator.terms import NEVER, Numbering
from golden import vreq8
from kernels.plan import PlanError
from pipeline.faults.injection import program_with
from pipeline.ground.programs import typed_program
from pipeline.ground.subject import Subject, subject_of
from pipeline.matrix.expand import expand
from pipeline.matrix.load import load
from tests.emulator.both import alike
from workloads.faults import FAULTS

ROOT = Path(__file__).parents[3]
SMALL = 20_000_000
"""Multiply-accumulates of a geometry whose programs are always run."""

Named = tuple[Subject, str]


@pytest.fixture(scope="module")
def programs() -> list[Named]:
    """Every tile program that the shipped matrix has for the emulator, in each geometry, on each soc."""
    jobs = expand(load([ROOT / "matrix.yaml"]), date(2026, 1, 1))
    emulated = [job for job in jobs if job.platform.backend == "emulator"]
    subjects = {(job.geometry_name, job.platform.soc): subject_of(job) for job in emulated}
    return [(subject, program.name) for subject in subjects.values() for program in subject.workload.programs]


def arrays_of(program: Program) -> dict[str, npt.NDArray[Any]]:
    """Inputs of the whole range of their dtypes, and outputs of ones."""
    random, found = np.random.default_rng(5), {}
    for param in program.main.params:
        shape, dtype = param.type.shape, param.type.dtype
        if param.type.out:
            found[param.name] = np.ones(shape, dtype.numpy)
        elif dtype is DType.UINT64:
            scales, offsets = (
                random.uniform(-(2**-10), 2**-10, shape[1]),
                random.integers(-256, 256, shape[1]),
            )
            found[param.name] = vreq8.pack(scales, offsets).reshape(shape)
        else:
            least = np.iinfo(dtype.numpy).min
            found[param.name] = random.integers(least, -least, shape).astype(dtype.numpy)
    return found


def checked(subject: Subject, program: Program) -> str:
    """The error with which both walks end, if they do."""
    return alike(program, arrays_of(program), soc=SOCS[subject.soc])[0]


def failures(named: Sequence[Named]) -> list[str]:
    """The errors of right programs."""
    return [said for subject, name in named if (said := checked(subject, typed_program(subject, name)))]


def small_ones(programs: Sequence[Named]) -> list[Named]:
    return [
        (subject, name)
        for subject, name in programs
        if subject.soc == "a2a3" and subject.geometry.macs < SMALL
    ]


def test_small_geometries(programs: list[Named]) -> None:
    assert len(small_ones(programs)) > 25
    assert not failures(small_ones(programs))


@pytest.mark.thorough
def test_all_geometries(programs: list[Named]) -> None:
    assert len(programs) > 150
    assert not failures([named for named in programs if named not in small_ones(programs)])


def faulty(subject: Subject, name: str) -> Iterator[Program]:
    """A program with each injected fault that changes it."""
    for fault in FAULTS.values():
        with suppress(PlanError):  # the fault's bands cannot be tiled
            program = program_with(fault, subject, name, "vreq8")
            if program != typed_program(subject, name):
                yield program


def test_some_injected_faults(programs: list[Named]) -> None:
    subject = next(subject for subject, _ in programs if subject.plan_options.get("band_rows") == 10)
    found = [checked(subject, program) for program in islice(faulty(subject, "fused"), 0, None, 5)]
    assert len(found) > 8


@pytest.mark.thorough
def test_all_injected_faults(programs: list[Named]) -> None:
    for subject, name in small_ones(programs):
        for program in faulty(subject, name):
            checked(subject, program)


def mistaken(program: Program, random: Random) -> Program:
    """A program with another number in an operand of one call, or in a bound of one loop."""
    function = random.choice([each for each in program.functions.values() if not each.orchestration])
    at = random.choice([each for each in flat(function.body) if _numbers(each)])
    name, by = random.choice(_numbers(at)), random.choice((-64, -32, -16, -1, 1, 16, 32, 64))

    def moved(operand: Any) -> Any:
        if isinstance(operand, tuple):
            which = random.randrange(len(operand))
            return tuple(moved(each) if index == which else each for index, each in enumerate(operand))
        return fold(Binary("+", operand, by))

    if isinstance(at, Call):
        wrong: Statement = replace(at, operands={**at.operands, name: moved(at.operands[name])})
    else:
        wrong = replace(at, **{name: moved(getattr(at, name))})
    body = each_block(function.body, lambda block: tuple(wrong if each is at else each for each in block))
    return replace(program, functions={**program.functions, function.name: replace(function, body=body)})


def _numbers(statement: Statement) -> list[str]:
    """What may be another number without other types."""
    if isinstance(statement, For):
        return ["start", "stop"]
    kept = {"shape", "shapes", "valid_cols", "image_shape", "kernel_size"}
    return (
        [
            name
            for name, operand in statement.operands.items()
            if name not in kept and isinstance(operand, (int, tuple, LoopVar, Binary))
        ]
        if isinstance(statement, Call)
        else []
    )


def test_mistakes(programs: list[Named]) -> None:
    """Many are refused, and with the same words; what is not is wrong in the same way."""
    random = Random(3)
    said = [
        checked(subject, mistaken(typed_program(subject, name), random))
        for subject, name in small_ones(programs)
        for _ in range(4)
    ]
    assert len(said) // 4 < sum(map(bool, said)) < len(said) - len(said) // 4


class Stepwise(Coordinates):
    """Coordinates that are walked step by step."""

    by_steps = True


def test_mistakes_on_coordinates(programs: list[Named]) -> None:
    """What a proof finds is what it would find step by step."""
    random, wrong = Random(4), 0
    for subject, name in small_ones(programs):
        entry, definition = subject.program(name), subject.definition
        packed = subject.device is not subject.geometry
        if entry.host or definition.terms is None or packed:
            continue
        program = mistaken(typed_program(subject, name), random)
        shapes = {spec.name: spec.shape for spec in definition.specs(subject.geometry)}
        numbering = Numbering(shapes, definition.terms(subject.geometry))
        found: list[str | bytes] = []
        for elements in (Stepwise(numbering), Coordinates(numbering)):
            *inputs, output = program.main.params
            ids = {param.name: numbering.ids(param.name) for param in inputs}
            ids[output.name] = np.full(output.type.shape, NEVER, numbering.dtype)
            try:
                walk_program(program, SOCS[subject.soc], ids, elements)
            except KernelError as error:
                found.append(str(error))
            else:
                found.append(ids[output.name].tobytes())
        assert found[0] == found[1]
        wrong += isinstance(found[0], bytes)
    assert wrong > 3
