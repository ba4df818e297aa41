from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from golden import profiles
from golden.geometry import Conv, Geometry
from golden.reference import reference
from golden.vreq8 import VARIANTS
from pipeline.diff.evidence import TWO_PASS, Evidence
from pipeline.diff.hypotheses import base, registry
from pipeline.diff.hypotheses.base import Hypothesis, View
from pipeline.diff.hypotheses.model import Model, model_of
from pipeline.faults.catalogue import FAULTS
from pipeline.ground.tiling import plan_for

GEOMETRY = Geometry(40, 32, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1))
HELPERS = {"base", "blocks", "layers", "model", "registry"}


@pytest.fixture(scope="module")
def model_for(torch_installed: None) -> Callable[[str], Model]:
    tensors = profiles.make("full-range@5", GEOMETRY)
    right = reference(GEOMETRY, tensors)
    plan = plan_for(GEOMETRY, "a2a3", 5)

    def make(program: str) -> Model:
        tensor, output = ("mid", right.mid) if program == "pass1" else ("y", right.y)
        given = Evidence(
            GEOMETRY, plan, tensors, VARIANTS[0], program, tensor, output, right.mid, right.y, -86
        )
        return model_of(given)

    return make


def test_every_fault_of_the_catalogue_has_its_hypothesis(model_for: Callable[[str], Model]) -> None:
    names = {hypothesis.name for hypothesis in registry.hypotheses(model_for("fused"))}
    assert set(FAULTS) <= names


def test_the_page_on_diagnosis_lists_every_family() -> None:
    page = (Path(__file__).resolve().parents[4] / "docs" / "diagnosis.md").read_text()
    families = {fault.family for fault in FAULTS.values() if not fault.family.startswith("no-padding")}
    assert [family for family in sorted(families) if f"`{family}`" not in page] == []


def test_every_other_name_is_a_fault_in_both_convolutions(model_for: Callable[[str], Model]) -> None:
    for hypothesis in registry.hypotheses(model_for("fused")):
        if hypothesis.name not in FAULTS:
            assert f"{hypothesis.name}-1" in FAULTS
            assert f"{hypothesis.name}-2" in FAULTS
            assert hypothesis.layers == (1, 2)


def test_hypotheses_are_told_apart_by_name_and_note(model_for: Callable[[str], Model]) -> None:
    for program in ("fused", "pass1", "pass2", TWO_PASS):
        spelt = Counter(hypothesis.spelt for hypothesis in registry.hypotheses(model_for(program)))
        assert [name for name, times in spelt.items() if times > 1] == []


def test_a_program_is_held_against_its_own_convolutions_only(model_for: Callable[[str], Model]) -> None:
    for program, number in (("pass1", 1), ("pass2", 2)):
        layers = {hypothesis.layers for hypothesis in registry.hypotheses(model_for(program))}
        assert layers == {(), (number,)}


@pytest.mark.parametrize("program", ["fused", "pass1", "pass2", TWO_PASS])
def test_a_few_positions_are_predicted_as_among_all(program: str, model_for: Callable[[str], Model]) -> None:
    model = model_for(program)
    positions = np.arange(len(model.evidence.expected))
    some = positions[3::37]
    for hypothesis in registry.hypotheses(model)[::4]:
        whole = hypothesis.predict(View(model, positions))
        np.testing.assert_array_equal(hypothesis.predict(View(model, some)), whole[some])


def test_no_family_knows_another_nor_the_injection() -> None:
    for path in Path(str(base.__file__)).parent.glob("*.py"):
        imported = {
            node.module
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom) and node.module
        }
        assert not any(
            name.startswith(("pipeline.faults.k", "pipeline.faults.h", "pipeline.faults.s", "emulator"))
            for name in imported
        )
        if path.stem != "registry":
            siblings = {name.rpartition(".")[2] for name in imported if "diff.hypotheses." in name}
            assert siblings <= HELPERS


def test_a_hypothesis_that_changes_nothing_is_the_golden(model_for: Callable[[str], Model]) -> None:
    model = model_for("fused")
    view = View(model, np.arange(20))
    np.testing.assert_array_equal(Hypothesis("none", (2,)).predict(view), model.evidence.y[:20])
