from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from golden.geometry import MC62, Conv, ConvGeometry, Geometry
from golden.vreq8 import VARIANTS
from pipeline import diff, faults
from pipeline.diff.evidence import Evidence
from pipeline.diff.hypotheses import base, registry
from pipeline.diff.hypotheses.base import Hypothesis, View
from pipeline.diff.hypotheses.model import Model, model_of
from pipeline.ground.subject import Subject
from workloads import conv, conv_pair
from workloads.base import Workload
from workloads.faults import FAULTS, no_place
from workloads.tiling import CONTRACT

GEOMETRY = Geometry(40, 32, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1))
CONV = ConvGeometry(40, 32, 64, 96, Conv(5, 1, 2))
PROGRAMS = [("fused",), ("pass1",), ("pass2",), ("pass1", "pass2"), ("conv",)]
TILINGS = {
    "conv-pair": {"tile_positions1": 16, "k_step1": 64, "tile_positions2": 16, "k_step2": 32, "band_rows": 5},
    "conv": {"tile_positions": 32, "k_step": 64, "band_rows": 5},
}
"""Bands have several ACC tiles and K steps, so that every fault has a place."""
HELPERS = {"base", "layers", "model", "registry"}


@pytest.fixture(scope="module")
def model_for(torch_installed: None) -> Callable[..., Model]:
    def make(*programs: str, geometry: Any = None, tiling: Mapping[str, int] | None = None) -> Model:
        workload: Workload = conv.WORKLOAD if programs == ("conv",) else conv_pair.WORKLOAD
        geometry = geometry or (CONV if workload is conv.WORKLOAD else GEOMETRY)
        subject = Subject(workload, geometry, "a2a3", tiling or TILINGS[workload.name])
        tensors = workload.definition.make("full-range@5", geometry)
        outputs = workload.definition.compute(geometry, tensors, VARIANTS[0])
        forms = [subject.form(program) for program in programs]
        form = forms[0]
        assert form is not None
        for following in forms[1:]:
            assert following is not None
            form = form.then(following)
        tensor = subject.program(programs[-1]).tensor
        output = outputs[tensor]
        frame = subject.frame(tensor)
        given = Evidence(form, frame, tensors, outputs, VARIANTS[0], tensor, output, output, -86)
        return model_of(given, form)

    return make


def test_every_fault_of_the_catalogue_has_its_hypothesis(model_for: Callable[..., Model]) -> None:
    names = {hypothesis.name for hypothesis in registry.hypotheses(model_for("fused"))}
    assert set(FAULTS) <= names


def test_a_single_convolution_has_a_hypothesis_for_every_fault_it_has_a_place_for(
    model_for: Callable[..., Model],
) -> None:
    model = model_for("conv")
    names = {hypothesis.name for hypothesis in registry.hypotheses(model)}
    placed = {name for name, fault in FAULTS.items() if not no_place(fault, model.form)}
    assert placed - names == {"other-table-1", "other-bias-1"}  # there is no other convolution


def test_the_page_on_diagnosis_lists_every_family() -> None:
    page = (Path(__file__).resolve().parents[4] / "docs" / "diagnosis.md").read_text()
    families = {fault.family for fault in FAULTS.values() if not fault.family.startswith("no-padding")}
    assert [family for family in sorted(families) if f"`{family}`" not in page] == []


def test_the_pages_count_the_faults_and_the_hypotheses(model_for: Callable[..., Model]) -> None:
    docs = Path(__file__).resolve().parents[4] / "docs"
    spelt = Counter(
        one.name for one in registry.hypotheses(model_for("fused", geometry=MC62, tiling=CONTRACT))
    )
    both = [name for name in spelt if name not in FAULTS]
    steps = [name for name in FAULTS if name.startswith("k-step-")]
    single = [name for name in FAULTS if name not in (*steps, "halo-stale")]
    assert {spelt[name] for name in (*single, *both)} == {1}
    told = (docs / "diagnosis.md").read_text().replace("\n", " ")
    for sentence in (
        f"[{len(FAULTS)} faults](faults.md) that can be injected make {spelt.total()} hypotheses for `fused`",
        f"({sum(spelt[name] for name in steps)} hypotheses for {len(steps)} ids)",
        f"({spelt['halo-stale']} for 1 id), and {len(both)} hypotheses have the same fault in both",
        f"none of {spelt.total()} known faults",
    ):
        assert sentence in told
    page = (docs / "faults.md").read_text()
    assert f"prints all {len(FAULTS)} ids" in page
    assert f"with the {len(FAULTS)} faults of this page" in page


def test_every_other_name_is_a_fault_in_both_convolutions(model_for: Callable[..., Model]) -> None:
    for hypothesis in registry.hypotheses(model_for("fused")):
        if hypothesis.name not in FAULTS:
            assert f"{hypothesis.name}-1" in FAULTS
            assert f"{hypothesis.name}-2" in FAULTS
            assert hypothesis.layers == (1, 2)


def test_hypotheses_are_told_apart_by_name_and_note(model_for: Callable[..., Model]) -> None:
    for programs in PROGRAMS:
        spelt = Counter(hypothesis.spelt for hypothesis in registry.hypotheses(model_for(*programs)))
        assert [name for name, times in spelt.items() if times > 1] == []


def test_a_program_is_held_against_its_own_convolutions_only(model_for: Callable[..., Model]) -> None:
    for program, number in (("pass1", 1), ("pass2", 2), ("conv", 1)):
        layers = {hypothesis.layers for hypothesis in registry.hypotheses(model_for(program))}
        assert layers == {(), (number,)}


@pytest.mark.parametrize("programs", PROGRAMS, ids=" and ".join)
def test_a_few_positions_are_predicted_as_among_all(
    programs: tuple[str, ...], model_for: Callable[..., Model]
) -> None:
    model = model_for(*programs)
    positions = np.arange(len(model.evidence.expected))
    some = positions[3::37]
    for hypothesis in registry.hypotheses(model)[::4]:
        whole = hypothesis.predict(View(model, positions))
        np.testing.assert_array_equal(hypothesis.predict(View(model, some)), whole[some])


def imported_by(path: Path) -> set[str]:
    return {
        node.module
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module
    }


def test_no_family_knows_another_nor_the_injection() -> None:
    for path in Path(str(base.__file__)).parent.glob("*.py"):
        imported = imported_by(path)
        assert not [name for name in imported if name.startswith(("pipeline.faults", "emulator"))]
        if path.stem != "registry":
            siblings = {name.rpartition(".")[2] for name in imported if "diff.hypotheses." in name}
            assert siblings <= HELPERS


def test_the_injection_knows_no_hypothesis() -> None:
    """What both may know is declared in `workloads`: the list of faults, and the form of a program."""
    injecting = [path for path in Path(str(faults.__file__)).parent.glob("*.py") if path.stem != "matrix"]
    assert {"kernel", "host", "spoils", "origins", "injection"} <= {path.stem for path in injecting}
    for path in injecting:
        assert not [name for name in imported_by(path) if name.startswith("pipeline.diff")]
    for path in Path(diff.__path__[0]).rglob("*.py"):
        assert not [name for name in imported_by(path) if name.startswith("pipeline.faults")], path


def test_a_hypothesis_that_changes_nothing_is_the_golden(model_for: Callable[..., Model]) -> None:
    model = model_for("fused")
    view = View(model, np.arange(20))
    np.testing.assert_array_equal(Hypothesis("none", (2,)).predict(view), model.evidence.expected[:20])
