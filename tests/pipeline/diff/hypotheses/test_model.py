from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from golden.geometry import Conv, ConvGeometry, Geometry
from golden.specs import Array, Tensors
from pipeline.diff.evidence import Evidence
from pipeline.diff.hypotheses.base import Hypothesis, View
from pipeline.diff.hypotheses.model import Model, model_of
from pipeline.ground.subject import Subject
from workloads import conv, conv_pair
from workloads.base import Workload
from workloads.form import Form

pytestmark = pytest.mark.usefixtures("torch_installed")

GEOMETRIES = {
    "three bands": (Geometry(40, 32, 32, 64, 32, Conv(3, 2, 1), Conv(3, 1, 1)), 8),
    "ragged": (Geometry(45, 32, 32, 64, 32, Conv(3, 2, 1), Conv(3, 1, 1)), 5),
    "one band": (Geometry(24, 16, 64, 32, 64, Conv(3, 2, 1), Conv(3, 1, 1)), None),
    "second stride": (Geometry(35, 32, 64, 32, 96, Conv(3, 1, 1), Conv(3, 2, 1)), 7),
    "both strides": (Geometry(66, 64, 32, 64, 32, Conv(3, 2, 1), Conv(3, 2, 1)), 5),
    "rectangles": (
        Geometry(40, 26, 64, 32, 64, Conv((5, 3), (2, 1), (1, 2, 2, 0)), Conv((3, 2), (1, 2), (2, 1, 0, 1))),
        6,
    ),
    "kernel of 1": (Geometry(16, 16, 160, 32, 32, Conv(3, 1, 1), Conv(1, 1, 0)), 4),
}
CONVS = {
    "5 x 5": (ConvGeometry(16, 16, 64, 96, Conv(5, 1, 2)), 4),
    "stride of 2, ragged": (ConvGeometry(45, 32, 32, 32, Conv(3, 2, 1)), 5),
    "padding below and on the right alone": (ConvGeometry(28, 24, 32, 32, Conv(3, 2, (0, 1, 0, 1))), 4),
    "kernel of 1 in one band": (ConvGeometry(16, 16, 32, 64, Conv(1, 1, 0)), None),
}
PROGRAMS = {
    "fused": ("fused",),
    "pass2": ("pass2",),
    "both passes": ("pass1", "pass2"),
    "pass1": ("pass1",),
    "first-tile-load": ("first-tile-load",),
    "first-tile-packed": ("first-tile-packed",),
}
"""Programs that follow each other: the second reads what the first gives."""


@dataclass(frozen=True, eq=False)
class Case:
    subject: Subject
    tensors: Tensors
    outputs: Mapping[str, Array]

    def model(self, programs: Sequence[str], *, planned: bool = True) -> Model:
        last = self.subject.program(programs[-1])
        expected = self.outputs[last.tensor]
        if last.shape is not None:
            expected = expected[: last.shape(self.subject.plan)[0]]
        form = self.form(programs[0], planned)
        for program in programs[1:]:
            form = form.then(self.form(program, planned))
        frame = self.subject.frame(last.tensor)
        evidence = Evidence(form, frame, self.tensors, self.outputs, "vreq8", last.tensor, expected, expected)
        return model_of(evidence, form)

    def form(self, program: str, planned: bool) -> Form:
        described = self.subject.program(program).form
        assert described is not None
        return described(self.subject.geometry, self.subject.plan if planned else None)


def case_of(workload: Workload, geometry: object, band_rows: int | None) -> Case:
    options = {} if band_rows is None else {"band_rows": band_rows}
    definition = workload.definition
    tensors = definition.make("full-range@5", geometry)
    outputs = definition.compute(geometry, tensors, "vreq8")
    return Case(Subject(workload, geometry, "a2a3", options), tensors, outputs)


@pytest.fixture(scope="module", params=GEOMETRIES)
def case(request: pytest.FixtureRequest) -> Case:
    return case_of(conv_pair.WORKLOAD, *GEOMETRIES[request.param])


def computed(model: Model) -> Hypothesis:
    """No fault, but all layers computed: nothing is taken from the golden."""
    return Hypothesis("none", tuple(layer.number for layer in model.layers))


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_model_without_a_fault_is_the_golden(program: str, case: Case) -> None:
    model = case.model(PROGRAMS[program])
    expected = model.evidence.expected
    view = View(model, np.arange(len(expected)))
    np.testing.assert_array_equal(computed(model).predict(view), expected)


@pytest.mark.parametrize("program", ["fused", "pass1", "pass2", "both passes"])
def test_without_a_plan_too(program: str, case: Case) -> None:
    model = case.model(PROGRAMS[program], planned=False)
    expected = model.evidence.expected
    view = View(model, np.arange(len(expected)))
    np.testing.assert_array_equal(computed(model).predict(view), expected)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_few_positions_are_predicted_as_among_all(program: str, case: Case) -> None:
    model = case.model(PROGRAMS[program])
    expected = model.evidence.expected
    few = np.array([0, 5, len(expected) // 2, len(expected) - 1])
    np.testing.assert_array_equal(computed(model).predict(View(model, few)), expected[few])


@pytest.mark.parametrize("planned", [True, False])
@pytest.mark.parametrize("geometry", CONVS)
def test_a_single_convolution_too(geometry: str, planned: bool) -> None:
    model = case_of(conv.WORKLOAD, *CONVS[geometry]).model(("conv",), planned=planned)
    expected = model.evidence.expected
    for positions in (np.arange(len(expected)), np.array([0, 5, len(expected) - 1])):
        view = View(model, positions)
        np.testing.assert_array_equal(computed(model).predict(view), expected[positions])
