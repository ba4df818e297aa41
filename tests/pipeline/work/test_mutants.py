"""Mistakes in copies of the kernels are refuted or refused, reorderings are proved, and the judge is right.

Whether an edit changes results is decided by numbers. `nox -s mutants` judges the whole catalogue.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks.mutants.catalogue import MUTANTS, equivalent, pairs
from benchmarks.mutants.catalogue.cases import INTERIOR, fault
from benchmarks.mutants.judge import HintSaid, Outcome, Said, Target, mended, truth_of
from benchmarks.mutants.lines import Chain, edited, fed, items
from benchmarks.mutants.mutant import KERNELS, CatalogueError, Edit, copied, edited_texts
from benchmarks.mutants.verdict import Judged, Verdict, mistakes_of
from emulator.program import For, Program
from kernels.plan import Plan
from pipeline.ground.programs import typed_program
from pipeline.ground.subject import Subject
from workloads.registry import workload_named

ROOT = KERNELS.parent

JUDGED = (
    "fused, gather of x: the plane stride is one x row short",
    "plan, window: the shift is not brought back into step with the stride",
    "pass2, a helper: the accumulator is passed under its first name after it went on under another",
    "fused, the last band gathers nothing and reads the feature map of the band before",
    "fused, interior bands: the loop ends one too early",
    "fused, moves: the second bias table is filled from the first bias",
    "fused, main: scales are swapped",
    "conv2, K loop: every step begins a new sum",
    "planes, the last plane is not added",
    "pass1, store: tiles in reverse order",
    "first-tile-fused-alloc: main swaps filters",
    "plan, rows held: rounded down to whole fractals",
    "conv, main: x and the filter are swapped",
    "gemm, main: a and b are swapped",
    "two at once, fused: bias1 from bias2, scale2 from scale1",
    "two at once, pass1: interior bands one x row lower, the last two rows too high",
    "equivalent, fused: the last band in place of the first, which then mends it",
    "equivalent, fused: one feature map serves all bands, each gathers the whole of it",
    "equivalent, pass1: the third plane is added before the second",
    "equivalent, pass2, a helper: the accumulator goes on under a new name each time",
    "equivalent, plan: pass1's bands are half as high",
    "equivalent, gemm: blocks from the last",
    "equivalent, conv: tiles of y from the end",
)
"""One of each kind: what is edited, in which program, for which geometry."""


ONCE_MISLEADING = (
    "rectangles, window: the padding on the left is that on the right",
    "rectangles, window: the padding above is that below",
)
"""Each made a gather that is right look wrong, or had a hint of padding that no window reads."""


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """What is said of them by a process that has not imported the kernels."""
    pytest.importorskip("torch")
    file = tmp_path_factory.mktemp("mutants") / "verdicts.json"
    command = [sys.executable, "-m", "benchmarks.mutants", *JUDGED, *ONCE_MISLEADING, "--json", str(file)]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    return {verdict["name"]: verdict for verdict in msgspec.json.decode(file.read_bytes())}


@pytest.mark.thorough
@pytest.mark.parametrize("name", JUDGED)
def test_a_mistake_is_detected_and_a_reordering_is_proved(name: str, verdicts: Mapping[str, Any]) -> None:
    verdict = verdicts[name]
    assert not verdict["mistakes"]
    outcomes = [program["outcome"] for program in verdict["programs"].values()]
    assert outcomes
    for outcome in outcomes:
        if verdict["equivalent"]:
            assert (outcome["numbers"], outcome["refused"], outcome["wrong"]) == (0, "", 0)
        elif not outcome["refused"]:
            assert outcome["wrong"] >= (outcome["numbers"] or 1) > 0
            assert outcome["numbers"] != 0
            assert outcome["said"]


@pytest.mark.thorough
@pytest.mark.parametrize("name", ONCE_MISLEADING)
def test_a_right_line_that_only_a_wrong_one_led_to_is_not_named(
    name: str, verdicts: Mapping[str, Any]
) -> None:
    programs = verdicts[name]["programs"]
    assert len(programs) == 6
    for program in programs.values():
        assert program["pinned"]
        assert not program["misleading"]


def test_every_edit_of_the_catalogue_applies() -> None:
    for mutant in MUTANTS:
        for text in edited_texts(mutant.edits).values():
            ast.parse(text)
    assert not [name for name, count in Counter(mutant.name for mutant in MUTANTS).items() if count > 1]


def test_faults_of_a_mutant_apply_alone_and_keep_the_lines_of_each_other() -> None:
    for mutant in pairs.MUTANTS:
        for edits in mutant.faults:
            for file, text in edited_texts(edits).items():
                assert text.count("\n") == (KERNELS / file).read_text().count("\n")


def test_the_catalogue_is_as_wide_as_it_must_be() -> None:
    assert sum(not mutant.equivalent for mutant in MUTANTS) >= 24 + 90
    assert len(pairs.MUTANTS) >= 10
    assert len(equivalent.MUTANTS) >= 15
    assert len({mutant.case.workload for mutant in MUTANTS}) == 3


def test_an_edit_that_does_not_apply_is_refused() -> None:
    with pytest.raises(CatalogueError, match="0 times, not 1"):
        edited_texts([Edit("plan.py", "no such text", "")])


# -- the judge


@pytest.fixture(scope="module")
def subject() -> Subject:
    return Subject(workload_named(INTERIOR.workload), INTERIOR.geometry, "a2a3", INTERIOR.options)


@pytest.fixture(scope="module")
def right(subject: Subject) -> Program:
    return typed_program(subject, "fused")


@pytest.fixture(scope="module")
def last_band_higher(subject: Subject) -> Program:
    """Its last band reads x two rows further up than it must."""
    plan: Plan = subject.plan
    *bands, last = plan.bands
    last = replace(last, x=replace(last.x, row=last.x.row - 2))
    return typed_program(subject, "fused", replace(plan, bands=(*bands, last)))


@pytest.fixture(scope="module")
def step_short(subject: Subject) -> Program:
    """Its conv2 leaves the last K step out."""
    plan: Plan = subject.plan
    return typed_program(
        subject, "fused", replace(plan, conv2=replace(plan.conv2, steps=plan.conv2.steps - 1))
    )


def line_of(text: str, file: str = "fused_conv2d.py") -> int:
    """The one line of a kernel's source that begins with a text."""
    lines = (KERNELS / file).read_text().splitlines()
    (found,) = (number for number, line in enumerate(lines, 1) if line.strip().startswith(text))
    return found


@pytest.fixture(scope="module")
def last_gather() -> Chain:
    inner = line_of("feature_map = pl.tile.gather_row(")
    return (("fused_conv2d.py", inner), ("fused_conv2d.py", line_of("y = last_of_y(")))


def test_a_number_feeds_the_calls_whose_operands_it_changes(
    right: Program, last_band_higher: Program, last_gather: Chain
) -> None:
    assert fed(right, last_band_higher) == {last_gather}
    assert fed(right, right) == set()


def test_a_bound_feeds_the_loop_and_the_calls_that_use_its_variable(
    right: Program, step_short: Program
) -> None:
    found = {chain[0] for chain in fed(right, step_short)}
    loop = line_of("for conv2_k in", "blocks.py")
    assert ("blocks.py", loop) in found
    assert found <= {("blocks.py", line) for line in range(loop, loop + 25)}
    assert not {line for _, line in found} & {line_of("conv2_acc = pl.tile.matmul_acc(", "blocks.py")}


def test_a_line_is_pinned_if_it_its_caller_or_what_it_feeds_is_the_edited_one(last_gather: Chain) -> None:
    helper, caller = last_gather
    target = Target(frozenset({("plan.py", 1)}), frozenset({last_gather}))
    assert target.pins(last_gather)
    assert target.pins((caller,))
    assert not target.pins((helper, ("fused_conv2d.py", 1)))
    assert not target.pins((helper,))
    assert not target.pins(())
    assert Target(frozenset({caller}), frozenset()).pins((helper, caller))
    assert not Target(frozenset({caller}), frozenset()).exact((helper, caller))


@pytest.fixture
def copy(tmp_path: Path) -> Callable[..., Path]:
    return lambda *edits: copied(tmp_path, edits)


def test_a_statement_of_several_lines_is_edited_as_a_whole(copy: Callable[..., Path]) -> None:
    folder = copy(Edit("fused_conv2d.py", "dst_offset=[0, plane * band_c0]", "dst_offset=[0, 0]"))
    first = line_of("feature_map = pl.tile.gather_row(")
    assert edited(folder) == {("fused_conv2d.py", line) for line in range(first, first + 7)}


def test_of_a_removed_call_the_statements_around_it_are_edited(copy: Callable[..., Path]) -> None:
    call = "y = last_of_y(x, f1, b1, s1, f2, b2, s2, y, last_x, last_y)"
    gone = Edit("fused_conv2d.py", f"            if several:\n                {call}\n", "")
    found = {line for _, line in edited(copy(gone))}
    assert {line_of("if interior:"), line_of("for band in pl.range"), line_of("y = inner_of_y(")} <= found
    assert line_of("y = first_of_y(") not in found


def test_a_hint_is_true_if_its_value_gives_the_right_operand_in_every_round(
    right: Program, last_band_higher: Program, last_gather: Chain
) -> None:
    hint = HintSaid("src_offset", "last_x", "fused_conv2d.py", line_of("y = last_of_y("), 43)
    assert truth_of(hint, last_gather, right, right)
    assert not truth_of(hint, last_gather, right, last_band_higher)
    assert not truth_of(replace(hint, operand="no_such"), last_gather, right, right)


def test_a_hint_can_be_about_the_bound_of_a_loop(right: Program, step_short: Program) -> None:
    loop = line_of("for conv2_k in", "blocks.py")
    hint = HintSaid("stop", "conv2_steps", "blocks.py", loop, 18)
    for line in (loop, line_of("conv2_acc = pl.tile.matmul_acc(", "blocks.py")):
        assert truth_of(hint, (("blocks.py", line),), right, right)
        assert not truth_of(hint, (("blocks.py", line),), right, step_short)


def test_a_hints_value_takes_the_place_of_its_text_in_its_line(copy: Callable[..., Path]) -> None:
    folder = copy()
    line = line_of("y = last_of_y(")
    hint = HintSaid("src_offset", "last_x", "fused_conv2d.py", line, 43)
    assert mended(folder, hint)
    text = (folder / "kernels" / "fused_conv2d.py").read_text().splitlines()
    assert text[line - 1].strip() == "y = last_of_y(x, f1, b1, s1, f2, b2, s2, y, 43, last_y)"
    assert not mended(folder, hint)


def test_an_operand_has_a_value_in_every_round(right: Program) -> None:
    interior = [item for item in items(right) if [loop.variable for loop in item.loops] == ["band", "plane"]]
    (gather,) = (item for item in interior if not isinstance(item.statement, For))
    assert gather.values("dst_offset") == {
        (band, plane): (0, 32 * plane) for band in (1, 2) for plane in (0, 1)
    }


# -- the verdict

RIGHT, PROVED = Outcome(touched=False, numbers=0), Outcome(touched=True, numbers=0)
WRONG, MISSED = Outcome(touched=True, numbers=5, wrong=9), Outcome(touched=True, numbers=5)
REFUSED = Outcome(touched=True, numbers=None, refused="AccessError: ...")


@pytest.mark.parametrize(
    ("same", "fused", "pass2", "mistakes"),
    [
        (False, WRONG, RIGHT, 0),
        (False, MISSED, RIGHT, 0),
        (False, REFUSED, RIGHT, 0),
        (False, PROVED, RIGHT, 1),
        (False, WRONG, WRONG, 1),
        (True, PROVED, RIGHT, 0),
        (True, PROVED, PROVED, 1),
        (True, WRONG, RIGHT, 1),
        (True, RIGHT, RIGHT, 2),
    ],
)
def test_the_catalogue_is_judged_by_numbers_alone(
    same: bool, fused: Outcome, pass2: Outcome, mistakes: int
) -> None:
    mutant = replace(fault("a mutant", ("fused",), "plan.py", "", ""), equivalent=same)
    assert len(mistakes_of(mutant, {"fused": fused, "pass2": pass2})) == mistakes


SAID = Said((("blocks.py", 1),), "tile.extract", "words")


@pytest.mark.parametrize(
    ("equivalent", "judged", "word"),
    [
        (False, Judged(WRONG, pinned=True), "pinned"),
        (False, Judged(WRONG), "unpinned"),
        (False, Judged(WRONG, pinned=True, misleading=(SAID,)), "misleading"),
        (False, Judged(REFUSED), "refused"),
        (False, Judged(MISSED), "UNDETECTED"),
        (True, Judged(PROVED), "proved"),
        (True, Judged(replace(PROVED, wrong=3)), "UNPROVED"),
        (True, Judged(replace(PROVED, refused="UndecidedError: ...")), "UNPROVED"),
    ],
)
def test_a_verdict_has_its_word(equivalent: bool, judged: Judged, word: str) -> None:
    verdict = Verdict("a mutant", equivalent, 1, {"fused": judged})
    assert verdict.word == word
    assert verdict.good == word.islower()


def test_a_mutant_is_as_good_as_the_worst_of_its_programs() -> None:
    def verdict(other: Judged) -> str:
        return Verdict("a mutant", False, 1, {"fused": Judged(WRONG, pinned=True), "pass2": other}).word

    assert verdict(Judged(REFUSED)) == "pinned"
    assert verdict(Judged(WRONG)) == "unpinned"
    assert verdict(Judged(MISSED)) == "UNDETECTED"
    assert verdict(Judged(WRONG, misleading=(SAID,))) == "misleading"
