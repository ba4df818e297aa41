from __future__ import annotations

import numpy as np
import pytest

from benchmarks.mutants.catalogue.cases import conv_tiling, pair_tiling
from golden.geometry import Conv, ConvGeometry, Geometry
from pipeline.faults.host import spoiled_inputs, spoiled_output
from pipeline.ground.subject import Subject
from workloads import conv, conv_pair
from workloads.faults import FAULTS, no_place

PAIR = Subject(
    conv_pair.WORKLOAD, Geometry(24, 16, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1)), "a2a3", pair_tiling(12)
)
CONV = Subject(conv.WORKLOAD, ConvGeometry(16, 16, 64, 32, Conv(3, 1, 1)), "a2a3", conv_tiling(16))

pytestmark = pytest.mark.usefixtures("torch_installed")


@pytest.mark.parametrize(("subject", "program"), [(PAIR, "fused"), (PAIR, "pass2"), (CONV, "conv")])
def test_a_fault_without_a_place_changes_nothing_and_none_changes_what_it_is_given(
    subject: Subject, program: str
) -> None:
    form = subject.form(program)
    assert form is not None
    tensors = subject.definition.make("full-range@7", subject.geometry)
    arrays = tensors.arrays("vreq8")
    before = {name: array.copy() for name, array in arrays.items()}
    output = np.arange(-64, 64, dtype=np.int8).repeat(form.last.layer.cout).reshape(-1, form.last.layer.cout)
    output = np.resize(output, (form.last.layer.out_height * form.last.layer.out_width, output.shape[1]))
    for name, fault in FAULTS.items():
        spoiled = spoiled_inputs(fault, form, tensors, "vreq8", arrays)
        if no_place(fault, form):
            assert all(spoiled[each] is arrays[each] for each in arrays), name
            assert spoiled_output(fault, form, output) is output, name
        assert all(np.array_equal(arrays[each], before[each]) for each in arrays), name


def test_the_names_of_a_single_convolution_have_no_number() -> None:
    form = CONV.form("conv")
    assert form is not None
    tensors = CONV.definition.make("full-range@7", CONV.geometry)
    arrays = tensors.arrays("vreq8")
    spoiled = spoiled_inputs(FAULTS["bias-missing-1"], form, tensors, "vreq8", arrays)
    assert spoiled.keys() == arrays.keys()
    assert not spoiled["bias"].any()
    assert all(spoiled[name] is arrays[name] for name in arrays if name != "bias")
