from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from golden.conv_pair import layers
from kernels.windows import Window
from pipeline.ground.subject import Subject
from workloads import conv_pair
from workloads.form import Form, FormError, Part

SUBJECT = Subject(
    conv_pair.WORKLOAD,
    conv_pair.WORKLOAD.example,
    "a2a3",
    {"band_rows": 4, "tile_positions2": 16, "k_step2": 32},
)
"""Mid and y 12 x 8, in three bands, each of several ACC tiles of y."""


def fused() -> Form:
    form = SUBJECT.form("fused")
    assert form is not None
    return form


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        (
            {"layer": replace(fused().last.layer, cin=40)},
            "convolution 2: it has 40 and 64 channels in 1 groups, dilation 1: must be what a program",
        ),
        (
            {"layer": replace(fused().last.layer, groups=2)},
            "convolution 2: it has .* in 2 groups, dilation 1: ",
        ),
        ({"order": (0,)}, r"convolution 2: order \[0\] must name each of its 3 parts once, from 0"),
        ({"order": (0, 1)}, r"convolution 2: order \[0, 1\] must name each of its 3 parts once, from 0"),
        ({"order": (0, 1, 1)}, r"convolution 2: order \[0, 1, 1\] must name each of its 3 parts once"),
        (
            {"tile": replace(fused().last.tile, steps=1)},
            r"convolution 2: a tile of 2 rows, 16 positions and K = 1 x \d+ must have rows of 8 positions",
        ),
        (
            {"tile": replace(fused().last.tile, positions=8)},
            "convolution 2: a tile of 2 rows, 8 positions and K = .* and steps that add up to 576",
        ),
        (
            {"parts": (Part(0, 0, fused().last.parts[0].window), *fused().last.parts[1:])},
            "convolution 2: a part has 0 rows: must be at least 1",
        ),
        (
            {"parts": (Part(0, 4, Window(9, 4, (1, 0, 1, 1), 0)), *fused().last.parts[1:])},
            r"convolution 2: a part reads rows 9\.\.12 of an image of 12",
        ),
    ],
)
def test_a_convolution_that_contradicts_itself_is_refused(changes: dict[str, Any], refusal: str) -> None:
    with pytest.raises(FormError, match=refusal):
        replace(fused().last, **changes)


def test_a_form_gives_each_row_of_its_output_once() -> None:
    first, second = fused().convolutions
    fewer = replace(second, parts=second.parts[:2], order=(0, 1))
    with pytest.raises(FormError, match="convolution 2: its parts give 8 rows of y, which has 12"):
        Form(fused().chain, (replace(first, parts=first.parts[:2], order=(0, 1)), fewer))
    gap = replace(second, parts=second.parts[::2], order=(0, 1))
    with pytest.raises(FormError, match="convolution 2: a part begins at row 8, not 4"):
        Form(fused().chain, (first, gap))


def test_a_map_in_l1_is_what_the_convolution_before_gives() -> None:
    first, second = fused().convolutions
    with pytest.raises(FormError, match="convolution 2: its map in L1 must have the rows that the parts"):
        Form(fused().chain, (replace(first, parts=first.parts[:2], order=(0, 1)), second))


def test_a_chain_of_three_is_told_to_have_no_form() -> None:
    one, two = layers(SUBJECT.geometry)
    with pytest.raises(
        FormError, match=r"a chain of 3 convolutions cannot have a form, .* at most 2: leave `form` out"
    ):
        Form((one, two, two), fused().convolutions)


@pytest.mark.parametrize("program", [program.name for program in conv_pair.WORKLOAD.programs])
def test_every_form_stands_without_a_plan_too(program: str) -> None:
    described = SUBJECT.program(program).form
    assert described is not None
    form = described(SUBJECT.geometry, None)
    assert all(one.order == (0,) for one in form.convolutions)
