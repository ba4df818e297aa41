from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from golden import profiles
from golden.geometry import Conv, Geometry
from golden.reference import Reference, reference
from golden.specs import Tensors
from kernels.plan import Plan
from pipeline.diff.evidence import TWO_PASS, Evidence
from pipeline.diff.hypotheses.base import Hypothesis, View
from pipeline.diff.hypotheses.model import Model, model_of
from pipeline.ground.tiling import plan_for

pytestmark = pytest.mark.usefixtures("torch_installed")

GEOMETRIES = {
    "three bands": (Geometry(40, 32, 32, 64, 32, Conv(3, 2, 1), Conv(3, 1, 1)), 8),
    "ragged": (Geometry(45, 32, 32, 64, 32, Conv(3, 2, 1), Conv(3, 1, 1)), 5),
    "one band": (Geometry(24, 16, 64, 32, 64, Conv(3, 2, 1), Conv(3, 1, 1)), None),
    "second stride": (Geometry(35, 32, 64, 32, 96, Conv(3, 1, 1), Conv(3, 2, 1)), 7),
    "both strides": (Geometry(66, 64, 32, 64, 32, Conv(3, 2, 1), Conv(3, 2, 1)), 5),
    "kernel of 1": (Geometry(16, 16, 160, 32, 32, Conv(3, 1, 1), Conv(1, 1, 0)), 4),
}
PROGRAMS = {
    "fused": "y",
    "pass2": "y",
    TWO_PASS: "y",
    "pass1": "mid",
    "first-tile-load": "tile",
    "first-tile-packed": "tile",
}


@dataclass(frozen=True, eq=False)
class Case:
    geometry: Geometry
    plan: Plan
    tensors: Tensors
    right: Reference

    def model(self, program: str, *, planned: bool = True) -> Model:
        tensor = PROGRAMS[program]
        tile = self.right.mid[: self.plan.conv1.positions]
        return model_of(
            Evidence(
                self.geometry,
                self.plan if planned else None,
                self.tensors,
                "vreq8",
                program,
                tensor,
                {"y": self.right.y, "mid": self.right.mid, "tile": tile}[tensor],
                self.right.mid,
                self.right.y,
            )
        )


@pytest.fixture(scope="module", params=GEOMETRIES)
def case(request: pytest.FixtureRequest) -> Case:
    geometry, band_rows = GEOMETRIES[request.param]
    tensors = profiles.make("full-range@5", geometry)
    return Case(geometry, plan_for(geometry, "a2a3", band_rows), tensors, reference(geometry, tensors))


def computed(model: Model) -> Hypothesis:
    """No fault, but all layers computed: nothing is taken from the golden."""
    return Hypothesis("none", tuple(layer.number for layer in model.layers))


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_model_without_a_fault_is_the_golden(program: str, case: Case) -> None:
    model = case.model(program)
    expected = model.evidence.expected
    view = View(model, np.arange(len(expected)))
    np.testing.assert_array_equal(computed(model).predict(view), expected)


@pytest.mark.parametrize("program", ["fused", "pass1", "pass2", TWO_PASS])
def test_without_a_plan_too(program: str, case: Case) -> None:
    model = case.model(program, planned=False)
    expected = model.evidence.expected
    view = View(model, np.arange(len(expected)))
    np.testing.assert_array_equal(computed(model).predict(view), expected)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_few_positions_are_predicted_as_among_all(program: str, case: Case) -> None:
    model = case.model(program)
    expected = model.evidence.expected
    few = np.array([0, 5, len(expected) // 2, len(expected) - 1])
    np.testing.assert_array_equal(computed(model).predict(View(model, few)), expected[few])
