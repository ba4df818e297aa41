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
from pipeline.ground.programs import typed_program
from pipeline.ground.subject import Subject, subject_of
from pipeline.matrix.expand import expand
from pipeline.matrix.load import load
from pipeline.work.proof import proof_of
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
        rows, columns = subject.workload.output_of(program.name, subject.geometry, subject.plan)[0]
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
    assert "x[383, 0] x filter1[128, 0] is a term of no sum" in wrong.words


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
