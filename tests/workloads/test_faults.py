from __future__ import annotations

import re

import pytest

from golden.geometry import Conv, ConvGeometry, Geometry
from pipeline.ground.subject import Subject
from workloads import conv, conv_pair
from workloads.faults import (
    FAULTS,
    STEPS,
    FaultError,
    band_class,
    can_show,
    fault_named,
    no_place,
    shifted_bands,
)
from workloads.form import Form

BANDED = Geometry(45, 32, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1))
SINGLE = Geometry(24, 16, 32, 32, 32, Conv(3, 2, 1), Conv(3, 1, 1))
POINTWISE = Geometry(32, 16, 64, 64, 64, Conv(1, 1, 0), Conv(1, 1, 0))


SMALL_TILES = {"tile_positions1": 16, "k_step1": 32, "tile_positions2": 16, "k_step2": 32}
"""Bands have several ACC tiles and K steps."""


def form_of(program: str, geometry: Geometry, band_rows: int, **others: int) -> Form:
    options = {"band_rows": band_rows, **SMALL_TILES, **others}
    form = Subject(conv_pair.WORKLOAD, geometry, "a2a3", options).form(program)
    assert form is not None
    return form


def shown(name: str, geometry: Geometry, band_rows: int, **others: int) -> str:
    return can_show(fault_named(name), form_of("fused", geometry, band_rows, **others))


def test_an_id_is_its_family_and_convolution() -> None:
    for name, fault in FAULTS.items():
        assert name == fault.id
        assert fault.step in STEPS
        number = re.search(rf"^{re.escape(fault.family)}-([12])(-first|-interior|-last)?$", name)
        assert fault.conv == (int(number[1]) if number else 0)
        assert band_class(fault) == (number[2][1:] if number and number[2] else "")


def test_every_fault_says_what_it_does_and_no_two_say_the_same() -> None:
    assert len({fault.what for fault in FAULTS.values()}) == len(FAULTS)
    assert all("\n" not in fault.what for fault in FAULTS.values())


def test_every_step_has_a_fault() -> None:
    assert {fault.step for fault in FAULTS.values()} == set(STEPS)


def test_an_unknown_fault_is_refused_in_a_line_with_the_closest() -> None:
    with pytest.raises(FaultError) as refusal:
        fault_named("half-away1")
    assert str(refusal.value) == (
        "unknown fault 'half-away1': the closest known name is `half-away-1`; "
        "python -m pipeline list --faults has them all"
    )


def test_no_name_is_called_close_to_a_fault_that_is_far_from_all() -> None:
    with pytest.raises(FaultError) as refusal:
        fault_named("no-such-fault")
    assert str(refusal.value) == (
        "unknown fault 'no-such-fault': python -m pipeline list --faults has them all"
    )


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("planes-swapped-1", "conv1's input has one C1 plane of channels, where both orders are the same"),
        ("nz-as-nd-mid", "mid has one C1 plane of channels, where both orders are the same"),
        ("no-padding-right-1", "conv1's windows never pass the right edge"),
        ("no-padding-left-2-interior", "there is no band between a first and a last"),
        ("no-padding-left-2-last", "a single band: the same as no-padding-left-2"),
        ("band-up", "no band can move and stay in the image"),
        ("halo-stale", "no band reads mid rows that the band before has read"),
    ],
)
def test_what_a_single_band_of_32_channels_hides(name: str, reason: str) -> None:
    assert shown(name, SINGLE, 12) == reason
    assert shown(name, BANDED, 5) == (reason if name == "no-padding-right-1" else "")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("k-order-ckhkw-1", "conv1 has a kernel of 1"),
        ("no-padding-top-2-first", "conv2 has no padding"),
        ("k-step-skipped-1", "conv1's K loop has a single step"),
        ("k-step-twice-2", ""),
        ("halo-stale", "no band reads mid rows that the band before has read"),
        ("band-down", ""),
    ],
)
def test_what_kernels_of_1_hide(name: str, reason: str) -> None:
    assert shown(name, POINTWISE, 8, k_step1=64) == reason


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("planes-swapped-1", "conv's input has one C1 plane of channels, where both orders are the same"),
        ("k-order-ckhkw-1", "conv has a kernel of 1"),
        ("no-padding-left-1", "conv has no padding"),
        ("k-step-skipped-1", "conv's K loop has a single step"),
        ("acc-not-reset-1", "a band holds a single ACC tile of conv"),
    ],
)
def test_a_single_convolution_has_no_number_and_no_channels_that_the_host_packed(
    name: str, reason: str
) -> None:
    form = Subject(conv.WORKLOAD, ConvGeometry(4, 4, 3, 5, Conv(1, 1, 0)), "a2a3").form("conv")
    assert form is not None
    assert can_show(fault_named(name), form) == reason


def test_a_band_holds_a_single_tile() -> None:
    assert shown("acc-not-reset-2", SINGLE, 2) == "a band holds a single ACC tile of conv2"
    assert shown("acc-not-reset-1", SINGLE, 2) == ""


def test_other_tables_need_as_many_channels() -> None:
    wider = Geometry(24, 16, 32, 32, 64, Conv(3, 2, 1), Conv(3, 1, 1))
    assert shown("other-table-1", wider, 12) == "the convolutions differ in output channels"
    assert shown("other-bias-2", SINGLE, 12) == ""


@pytest.mark.parametrize(
    ("program", "name", "reason"),
    [
        ("first-tile-load", "bias-missing-2", "this program has no second convolution"),
        ("pass2", "offset-sign-1", "this program has no first convolution"),
        ("pass1", "nz-as-nd-mid", "this program has no second convolution"),
        (
            "pass1",
            "map-corrupted",
            "this program gathers no feature map beside the other tiles that stay in L1",
        ),
        (
            "pass2",
            "map-corrupted",
            "this program gathers no feature map beside the other tiles that stay in L1",
        ),
        ("first-tile-fused-alloc", "map-corrupted", ""),
        ("pass2", "band-up", "this program does not read x"),
        ("pass2", "x-nhwc", "this program does not read x"),
        ("pass2", "k-order-ckhkw-2", ""),
        ("pass2", "halo-stale", ""),
        ("pass1", "unwritten", "this program does not give the whole of y"),
        ("first-tile-packed", "nd-as-nz-y", "this program does not give the whole of y"),
        ("pass2", "unwritten", ""),
        ("pass1", "bias-missing-1", ""),
    ],
)
def test_a_program_has_a_place_for_the_faults_of_what_it_does(program: str, name: str, reason: str) -> None:
    assert no_place(fault_named(name), form_of(program, BANDED, 5)) == reason


def test_the_fused_program_has_a_place_for_every_fault() -> None:
    form = form_of("fused", BANDED, 5)
    assert [name for name, fault in FAULTS.items() if no_place(fault, form)] == []


def test_a_single_convolution_has_the_faults_of_the_first_but_those_of_another() -> None:
    geometry = ConvGeometry(40, 32, 64, 96, Conv(5, 1, 2))
    form = Subject(conv.WORKLOAD, geometry, "a2a3", {"band_rows": 4, "tile_positions": 32}).form("conv")
    assert form is not None
    for name, fault in FAULTS.items():
        second = fault.conv == 2 or fault.step == "hand-over"
        assert no_place(fault, form) == ("this program has no second convolution" if second else ""), name
        other = fault.family in ("other-table", "other-bias")
        assert can_show(fault, form) == ("there is no other convolution" if other else ""), name


@pytest.mark.parametrize(("name", "moved"), [("band-up", (1, 2, 3, 4)), ("band-down", (1, 2, 3))])
def test_bands_move_as_far_as_the_image_reaches(name: str, moved: tuple[int, ...]) -> None:
    (first, _) = form_of("fused", BANDED, 5).convolutions
    windows = [part.window for part in first.parts]
    assert shifted_bands(fault_named(name), BANDED.height, windows) == moved
