from __future__ import annotations

from dataclasses import replace

import pytest

from golden.geometry import MC62
from pipeline.ground.cuts import Band, cuts_of
from pipeline.ground.subject import Subject
from workloads.base import Frame, Workload, WorkloadError
from workloads.registry import SHIPPED, workload_named
from workloads.tiling import CONTRACT

PAIR = workload_named("conv-pair")


def test_the_cuts_of_mc62_are_the_specs() -> None:
    """8 bands of 18 rows of y, 20 rows of mid for each, 41 rows of x for those; tiles of 112 positions."""
    mid, y = cuts_of(Subject(PAIR, MC62, "a2a3", CONTRACT), "fused")
    assert (y.output, y.height, y.width, y.source, y.source_height) == ("y", 144, 56, "mid", 144)
    assert [(band.row, band.rows) for band in y.bands] == [(row, 18) for row in range(0, 144, 18)]
    assert y.bands[1] == Band(18, 18, 17, 20)
    assert (y.tile_rows, y.positions, y.step * y.steps) == (2, 112, 9 * 64)
    assert (mid.output, mid.source, mid.source_height) == ("mid", "x", 288)
    assert mid.bands[1] == Band(17, 20, 33, 41)


def test_bands_have_turns_where_they_are_not_computed_from_top_to_bottom() -> None:
    (mid,) = cuts_of(Subject(PAIR, MC62, "a2a3", CONTRACT), "pass1")
    assert sorted(mid.turns) == list(range(1, 9))
    assert mid.turns[0] > mid.turns[1]


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_program_says_how_it_cuts_its_output(name: str) -> None:
    workload = workload_named(name)
    subject = Subject(workload, workload.example, "a2a3")
    for program in workload.programs:
        *_, last = cuts_of(subject, program.name)
        assert last.output == program.tensor
        rows = [row for band in last.bands for row in range(band.row, band.row + band.rows)]
        (positions, *_), _ = workload.output_of(program.name, workload.example, subject.plan)
        assert rows == list(range(positions // last.width))


def without_form(frame: object) -> Workload:
    programs = tuple(replace(program, form=None) for program in PAIR.programs)
    return replace(PAIR, programs=programs, frame=frame)


def test_a_program_without_a_form_is_cut_as_its_frame_says() -> None:
    workload = without_form(lambda tensor, geometry, plan: Frame(56, 100))
    (y,) = cuts_of(Subject(workload, MC62, "a2a3"), "fused")
    assert (y.output, y.source, y.bands) == ("y", "", (Band(0, 100), Band(100, 44)))


def test_a_wrong_declaration_has_no_cuts_and_refuses_no_kernel() -> None:
    def broken(tensor: str, geometry: object, plan: object) -> Frame:
        raise WorkloadError("mine.py:3: no frame")

    assert cuts_of(Subject(without_form(broken), MC62, "a2a3"), "fused") == ()
