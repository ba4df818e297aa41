"""Kernels, strides and paddings of any shape: every program is exact on both socs, and proved."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from emulator.engine import run_program
from emulator.proof import Proof
from emulator.soc import SOCS
from golden.geometry import Conv, ConvGeometry, Geometry, GeometryError
from pipeline.ground.programs import typed_program
from pipeline.ground.subject import Subject
from pipeline.work.proof import proof_of
from workloads.conv_pair import BAND_ROWS
from workloads.registry import workload_named

pytestmark = pytest.mark.usefixtures("torch_installed")


@st.composite
def convs(draw: st.DrawFn, longest: int) -> Conv:
    """A convolution of kernels up to so many pixels; each side has a padding of its own."""
    rows, columns = draw(st.tuples(*[st.integers(1, longest)] * 2))
    above_below, sides = (draw(st.tuples(*[st.integers(0, size - 1)] * 2)) for size in (rows, columns))
    return Conv((rows, columns), draw(st.tuples(*[st.integers(1, 3)] * 2)), (*above_below, *sides))


@st.composite
def subjects(draw: st.DrawFn, longest: int) -> Subject:
    """A pair or one convolution of an image of one row or more, in bands of some height that fits."""
    height, width = draw(st.integers(1, 24)), draw(st.sampled_from([1, 2, 3, 5, 8, 13, 16, 17]))
    channels = st.sampled_from([32, 64, 96])
    pair, soc = draw(st.booleans()), draw(st.sampled_from(sorted(SOCS)))
    geometry: Geometry | ConvGeometry
    try:
        if pair:
            cin, cmid, cout = (draw(channels) for _ in range(3))
            geometry = Geometry(height, width, cin, cmid, cout, draw(convs(longest)), draw(convs(longest)))
        else:
            geometry = ConvGeometry(height, width, draw(channels), draw(channels), draw(convs(longest)))
    except GeometryError:
        assume(False)
        raise
    options = {BAND_ROWS: draw(st.integers(1, geometry.out_height))} if draw(st.booleans()) else {}
    subject = Subject(workload_named("conv-pair" if pair else "conv"), geometry, soc, options)
    assume(subject.plan_or_none is not None)
    return subject


def check(subject: Subject, profile: str) -> None:
    """All programs give the golden's output, and are proved."""
    workload, geometry = subject.workload, subject.geometry
    tensors = workload.definition.make(profile, geometry)
    golden = workload.definition.computed(geometry, tensors, "vreq8")
    arrays: dict[str, Any] = {**tensors.arrays("vreq8"), **golden}
    for entry in workload.programs:
        program = typed_program(subject, entry.name)
        assert subject.form(entry.name) is not None
        made = {name: make(geometry, subject.plan, arrays) for name, make in entry.host.items()}
        output = np.full(workload.output_of(entry.name, geometry, subject.plan)[0], -86, np.int8)
        given_ = {name: (arrays | made)[name] for name in entry.inputs}
        run_program(program, SOCS[subject.soc], {**given_, entry.output: output})
        expected = golden["mid"][: len(output)] if entry.output == "tile" else golden[entry.output]
        np.testing.assert_array_equal(output, expected, entry.name)
        assert proof_of(subject, entry.name, program) == Proof(output.size), entry.name


FEW = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
MANY = settings(FEW, max_examples=100)
SEEDS = st.integers(0, 99)


@FEW
@given(subject=subjects(5), seed=SEEDS)
def test_any_shape_is_exact_and_proved(subject: Subject, seed: int) -> None:
    check(subject, f"full-range@{seed}")


@pytest.mark.thorough
@MANY
@given(subject=subjects(9), profile=st.sampled_from(["full-range", "near-ties", "edges"]), seed=SEEDS)
def test_many_shapes_are_exact_and_proved(subject: Subject, profile: str, seed: int) -> None:
    check(subject, f"{profile}@{seed}")


def test_an_image_of_one_pixel_is_computed_from_its_padding_and_itself() -> None:
    geometry = Geometry(1, 1, 32, 32, 32, Conv((3, 5), 1, (1, 2, 4, 1)), Conv((2, 1), (2, 3), (1, 0, 0, 0)))
    assert (geometry.mid_height, geometry.mid_width, geometry.out_height) == (2, 2, 1)
    for soc in SOCS:
        check(Subject(workload_named("conv-pair"), geometry, soc), "full-range")


@pytest.mark.parametrize(
    ("right", "wrong"),
    [((0, 0, 6, 2), (0, 0, 5, 3)), ((0, 0, 6, 2), (0, 0, 2, 6)), ((0, 0, 4, 5), (0, 0, 5, 4))],
)
def test_a_wrong_padding_of_a_long_kernel_is_named_with_the_right_one(
    right: tuple[int, ...], wrong: tuple[int, ...]
) -> None:
    conv = Conv((1, sum(right) + 1), 1, cast(Any, right))
    subject = Subject(workload_named("conv"), ConvGeometry(6, 16, 32, 32, conv), "a2a3")
    bands = tuple(replace(band, x=replace(band.x, padding=wrong)) for band in subject.plan.bands)
    program = typed_program(subject, "conv", replace(subject.plan, bands=bands))
    (finding,) = proof_of(subject, "conv", program).findings
    assert finding.hint is not None
    assert (finding.hint.value, finding.hint.right) == (wrong, right)
