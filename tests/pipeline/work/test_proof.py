"""Proofs of declared programs: all of the shipped matrix, and a user's workload with and without terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from emulator.proof import Proof
from emulator.soc import SOCS
from emulator.terms import UndecidedError
from pipeline.ground.jobs import Job, Lane, State, WorkloadName
from pipeline.ground.programs import typed_program
from pipeline.ground.results import BLAMED, DIAGNOSIS, Result
from pipeline.ground.subject import Subject, subject_of
from pipeline.matrix.expand import expand
from pipeline.matrix.load import load
from pipeline.work.proof import proof_of, verdict_on
from workloads.registry import workload_named

ROOT = Path(__file__).resolve().parents[3]
JOBS = {job.geometry_name: job for job in expand(load([ROOT / "matrix.yaml"]), date(2026, 11, 30))}
"""A job of each geometry of the shipped matrix."""


def proof(subject: Subject, name: str) -> Proof:
    return proof_of(subject, name, typed_program(subject, name))


@pytest.mark.parametrize("soc", SOCS)
@pytest.mark.parametrize("geometry", JOBS)
def test_every_program_of_the_shipped_matrix_is_proved(geometry: str, soc: str) -> None:
    job = JOBS[geometry]
    subject = subject_of(job, replace(job.platform, soc=soc))
    for program in subject.workload.programs:
        rows, _ = subject.output_of(program.name)[0]
        columns = subject.workload.spec(program.tensor, subject.geometry).shape[1]
        assert proof(subject, program.name) == Proof(rows * columns), program.name


def test_bands_in_another_order_are_proved() -> None:
    workload = workload_named("reversed-pair", str(ROOT / "tests/data/workloads/reversed_pair.py"))
    mc62 = subject_of(JOBS["mc62"])
    subject = Subject(workload, mc62.geometry, "a2a3")
    assert len(subject.plan.bands) > 3
    assert not proof(subject, "reversed").wrong


# -- workloads of a user


def changed(program: Mapping[str, Any] | None = None, **definition: Any) -> Subject:
    """The first tile from packed rows, with changes to its declaration and its definition."""
    shipped = subject_of(JOBS["pair-24x16"])
    programs = (replace(shipped.program("first-tile-packed"), **(program or {})),)
    workload = replace(
        shipped.workload,
        definition=replace(shipped.definition, **definition),
        programs=programs,
        kernels=(replace(shipped.workload.kernels[2], programs=("first-tile-packed",)),),
        tensor_level=None,
    )
    return Subject(workload, shipped.geometry, shipped.soc)


def test_without_terms_nothing_is_decided() -> None:
    with pytest.raises(UndecidedError, match=r"^its definition does not say the terms$"):
        proof(changed(terms=None), "first-tile-packed")


def packed(change: Callable[[Any], Any]) -> dict[str, Any]:
    """The host packs, then changes what it packed."""
    pack = workload_named("conv-pair").program("first-tile-packed").host["x_band"]
    return {"host": {"x_band": lambda *arguments: change(pack(*arguments))}}


def test_what_the_host_moves_is_followed() -> None:
    assert not proof(changed(packed(lambda rows: rows)), "first-tile-packed").wrong
    wrong = proof(changed(packed(lambda rows: np.roll(rows, 1, axis=0))), "first-tile-packed")
    assert wrong.wrong > 0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda rows: rows + 1, "the host computes x_band, it does not only move elements"),
        (lambda rows: -rows, "the host computes x_band, it does not only move elements"),
        (lambda rows: np.maximum(rows, 40), "the host computes x_band, it does not only move elements"),
        (lambda rows: rows.astype(np.int8), "the host computes x_band, it does not only move elements"),
        (lambda rows: rows[:16], "the host makes x_band as [16, 64], main takes [384, 64]"),
        (lambda rows: rows.no_such_method(), "the host cannot make x_band of coordinates: AttributeError: "),
    ],
)
def test_what_the_host_computes_is_not_decided(change: Callable[[Any], Any], reason: str) -> None:
    with pytest.raises(UndecidedError) as caught:
        proof(changed(packed(change)), "first-tile-packed")
    assert str(caught.value).startswith(reason)


# -- jobs of the compile lane

MINE = """
from dataclasses import replace
from kernels.gemm_plan import GemmPlan
from workloads.gemm import WORKLOAD as GEMM
def fails(*arguments):
    raise KeyError("y")
from golden.terms import matrix, row
D, (PROGRAM,) = GEMM.definition, GEMM.programs
"""
PAIR = "block 0: {} is {}: must be the name of a tensor and a function"
SHAPE = "block 0: shape is {}: must be positions, depth and columns, each at least 1"
KERNEL = (ROOT / "kernels/gemm.py").read_text()
WRONG = KERNEL.replace(
    "k * step,\n                                    shape=left_shape", "0, shape=left_shape"
)
Done = Callable[..., Result]


def changed_terms(change: str) -> str:
    """A definition whose sums are changed."""
    return f"terms=lambda g: (replace(D.terms(g)[0], {change}),)"


@pytest.fixture
def compiled(samples: Any, done: Done, tmp_path: Path) -> Callable[..., Result]:
    """`compiled(kernel, definition)`: the compile job of a user's matrix product."""

    def compiled(kernel: str = KERNEL, definition: str = "") -> Result:
        file = tmp_path / "mine.py"
        file.write_text(
            f"{kernel}{MINE}WORKLOAD = replace(GEMM, programs=(replace(PROGRAM, factory=build_gemm),), "
            f"definition=replace(D, name='mine', {definition}))\n"
        )
        job: Job = samples["gemm"].job(
            Lane.COMPILE,
            "gemm",
            profile=None,
            workload=WorkloadName("mine", str(file)),
            geometry={"m": 64, "k": 2048, "n": 64},
        )
        return done(job)

    return compiled


def test_a_job_says_that_its_program_is_proved(compiled: Callable[..., Result]) -> None:
    result = compiled()
    assert (result.state, result.stages[0].facts["proved"]) == (State.PASSED, "yes")


def test_a_job_whose_program_is_refuted_says_why(compiled: Callable[..., Result]) -> None:
    assert WRONG != KERNEL
    result = compiled(WRONG)
    (stage,) = result.stages
    assert (result.state, stage.state) == (State.REFUTED, State.REFUTED)
    count = "4096 of 4096 elements are wrong"
    assert stage.facts["proved"] == f"no: {count}"
    assert result.message.startswith(f"{count}; the first is c[0, 0]: extract, mine.py:")
    assert "it reads a[0, 0] where a[0, 1024] is needed" in result.message
    assert result.facts[BLAMED] == stage.facts[BLAMED]
    assert result.facts[BLAMED].startswith("tile.extract of c at mine.py:")
    assert result.facts[DIAGNOSIS].startswith("the program is wrong: extract, mine.py:")
    assert {metric.name for metric in stage.metrics} > {"l1_peak"}  # it compiled all the same


def test_a_search_for_the_line_that_fails_leaves_the_program_refuted(
    compiled: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise ZeroDivisionError("no luck")

    monkeypatch.setattr("emulator.proof.blame", fail)
    result = compiled(WRONG)
    assert result.state is State.REFUTED
    assert result.message.endswith("; the search for the line failed: ZeroDivisionError: no luck")
    assert result.facts[BLAMED] == "the program"


@pytest.mark.parametrize(
    ("definition", "told"),
    [
        ("terms=None", "no: its definition does not say the terms"),
        (changed_terms("right=('b', lambda d, n: d[:, None] + n)"), "no: an element of b is in several"),
    ],
)
def test_what_cannot_be_decided_passes_and_is_told(
    definition: str, told: str, compiled: Callable[..., Result]
) -> None:
    result = compiled(definition=definition)
    assert result.state is State.PASSED
    assert result.stages[0].facts["proved"].startswith(told)


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        ("terms=fails", "KeyError: 'y'"),
        (changed_terms("left=('a', fails)"), "KeyError: 'y'"),
        (
            changed_terms("left=('z', matrix(2048))"),
            "block 0: left: there is no tensor 'z': there are a, b, c",
        ),
        (changed_terms("left=('a', None)"), PAIR.format("left", "a tuple of str, NoneType")),
        (changed_terms("left='a'"), PAIR.format("left", "a str")),
        (
            changed_terms("right=('b', lambda d, n: d[:, None] * 64 + n + 1)"),
            "block 0: right from b: it has 131072 elements: there is no element 131072",
        ),
        (
            changed_terms("right=('b', lambda d, n: n)"),
            "block 0: right from b has the shape [64]: must be [2048, 64]",
        ),
        *(
            (
                changed_terms(f"{operand}=('{tensor}', lambda p, n: p[:, None] * {width} + n {more})"),
                f"block 0: {operand} from {tensor} is {given}: "
                "must be an array of whole numbers, int32 or int64",
            )
            for operand, tensor, width, more, given in (
                ("result", "c", 64, "+ 0.5", "float64 [64, 64]"),
                ("left", "a", 2048, "+ 0.5", "float64 [64, 2048]"),
                ("right", "b", 64, "> 0", "bool [2048, 64]"),
            )
        ),
        (
            changed_terms("right=('b', lambda d, n: [0])"),
            "block 0: right from b is a list of int: must be an array of whole numbers, int32 or int64",
        ),
        (
            changed_terms("result=('c', lambda p, n: p[:, None] * 64 + n - 1)"),
            "block 0: result has the element -1: a sum goes to no padding",
        ),
        (
            changed_terms("result=('a', matrix(64))"),
            "block 0: result is a, int8 of role MATRIX: must be of role OUTPUT",
        ),
        (
            changed_terms("bias=('a', row)"),
            "block 0: bias is a, int8 of role MATRIX: must be int32 of role BIAS or MATRIX",
        ),
        (
            changed_terms("result=('c', lambda p, n: p[:, None] * 0 + n)"),
            "c[0, 0] is the result of 64 sums: must be that of exactly one",
        ),
        ("terms=lambda g: []", "c[0, 0] is the result of no sum: must be that of exactly one"),
        ("terms=lambda g: D.terms(g) * 2", "c[0, 0] is the result of 2 sums: must be that of exactly one"),
        (
            changed_terms("shape=(g.m, g.k, g.n // 2)"),
            "c[0, 32] is the result of no sum: must be that of exactly one",
        ),
        (changed_terms("shape=(g.m, g.k)"), SHAPE.format("(64, 2048)")),
        (changed_terms("shape=(g.m, g.k, 64.0)"), SHAPE.format("(64, 2048, 64.0)")),
        (changed_terms("shape=(0, g.k, g.n)"), SHAPE.format("(0, 2048, 64)")),
        ("terms=lambda g: (1,)", "returns a tuple of int: must be a list of Sums"),
        ("terms=lambda g: D.terms(g)[0]", "returns a Sums: must be a list of Sums"),
    ],
)
def test_broken_terms_are_a_compile_error_in_a_line(
    definition: str, message: str, compiled: Callable[..., Result], tmp_path: Path
) -> None:
    result = compiled(definition=definition)
    assert result.state is State.COMPILE_ERROR
    assert result.message.startswith(f"{tmp_path}/mine.py")
    assert result.message.endswith(f": terms of workload mine: {message}")


def found_by(backend: str, subject: Subject) -> tuple[State, str, str]:
    """What is decided of a matrix product that this backend has compiled."""
    verdict = verdict_on(subject, "gemm", backend)
    return verdict.state, verdict.message, verdict.proved


def test_the_program_is_proved_whichever_backend_compiles_it() -> None:
    subject = subject_of(JOBS["gemm-128"])
    assert found_by("emulator", subject) == (State.PASSED, "", "yes")
    assert found_by("pypto", subject) == (State.PASSED, "", "yes")
    reason = "no: it is a tensor-level program, and only tile programs are walked"
    assert found_by("cann", subject) == (State.PASSED, "", reason)


@pytest.mark.parametrize(
    ("old", "new", "state", "told"),
    [
        ("pl.load(a, [band * rows, 0]", "pl.load(a, [band * rows + 16, 0]", State.REFUTED, "no: mine.py:"),
        ("b_shape, pl.INT8]", "b_shape, pl.INT4]", State.PASSED, "no: the emulator does not read it: "),
    ],
)
def test_what_another_engine_compiled_and_the_emulator_refuses(
    old: str, new: str, state: State, told: str, tmp_path: Path
) -> None:
    """Reading outside a tensor is wrong on any engine; a source that only the emulator cannot read is not."""
    (tmp_path / "mine.py").write_text(
        f"{KERNEL.replace(old, new)}{MINE}WORKLOAD = replace(GEMM, definition=replace(D, name='mine'), "
        "programs=(replace(PROGRAM, factory=build_gemm),))\n"
    )
    workload = workload_named("mine", str(tmp_path / "mine.py"))
    subject = Subject(workload, subject_of(JOBS["gemm-128"]).geometry, "a2a3")
    ended, message, fact = found_by("pypto", subject)
    assert ended is state
    assert fact.startswith(told)
    assert bool(message) == (state is State.REFUTED)
