"""What a wrong output is blamed on: jobs of edited copies of the kernels, and of right ones on a device."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks.mutants.catalogue import MUTANTS
from benchmarks.mutants.mutant import Edit, copied
from emulator.blame import Task
from emulator.engine import run_program
from emulator.proof import Proof, prove
from golden.geometry import Conv, Geometry
from golden.specs import Tensors
from pipeline.diff.compare import compare
from pipeline.diff.evidence import Evidence
from pipeline.ground.jobs import Lane, State, WorkloadName
from pipeline.ground.results import BLAMED, DIAGNOSIS, PROVED, WRONG_STEP, JobContext, Result
from pipeline.ground.settings import Settings
from pipeline.matrix.expand import COMPARED
from pipeline.report.overview import overview
from pipeline.report.text import likely
from pipeline.results.excuses import entry
from pipeline.results.fingerprint import fingerprint
from pipeline.run.artefacts import relocated
from pipeline.run.journal import Record
from pipeline.work import stages
from pipeline.work.causes import cause_of
from pipeline.work.proof import Verdict
from pipeline.work.replay import account, replay
from workloads.base import Frame
from workloads.faults import FAULTS

pytestmark = pytest.mark.usefixtures("torch_installed")

BANDS = Geometry(24, 16, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1))
"""Three bands of 4 output rows, each of two ACC tiles."""

DECLARATION = """
import re
from dataclasses import replace
from workloads.conv_pair import WORKLOAD as PAIR
from {package}.planner import tile_bands
from {package}.tiles import Written

TILES = Written(16, 64), Written(16, 32)

WORKLOAD = replace(
    PAIR,
    definition=replace(PAIR.definition, name="mine"),
    plan=lambda geometry, limits, options: tile_bands(geometry, limits, 4, written=TILES),
    programs=tuple(
        replace(program, factory=re.sub("^kernels", "{package}", program.factory))
        for program in PAIR.programs
    ),
    tensor_level=None,
)
"""
Do = Callable[..., Result]
Image = npt.NDArray[np.int8]


def context(folder: Path, goldens: Path) -> JobContext:
    return JobContext(folder, None, goldens)


@pytest.fixture
def edited(samples: Any, tmp_path: Path, goldens: Path) -> Iterator[Do]:
    """Does a job with a copy of the kernels in which a mutant's edits, or others, are made."""
    before, package = set(sys.modules), f"kernels_{tmp_path.name}".replace("-", "_")
    sys.path.insert(0, str(tmp_path))

    def do(what: str | tuple[Edit, ...], lane: Lane = Lane.DEVICE, kernel: str = "fused") -> Result:
        (edits,) = [each.edits for each in MUTANTS if each.name == what] if isinstance(what, str) else [what]
        copied(tmp_path, edits)
        shutil.move(tmp_path / "kernels", tmp_path / package)
        for path in (tmp_path / package).glob("*.py"):
            path.write_text(
                re.sub(r"^from kernels\b", f"from {package}", path.read_text(), flags=re.MULTILINE)
            )
        mine = tmp_path / "mine.py"
        mine.write_text(DECLARATION.format(package=package))
        job = replace(samples["conv-pair"], geometry=BANDS).job(
            lane, kernel, "full-range@7", workload=WorkloadName("mine", str(mine))
        )
        return stages.execute(job, context(tmp_path / "job", goldens))

    yield do
    sys.path.remove(str(tmp_path))
    for name in set(sys.modules) - before:
        if name.startswith(package):
            del sys.modules[name]


@pytest.fixture
def on_device(samples: Any, tmp_path: Path, goldens: Path, monkeypatch: pytest.MonkeyPatch) -> Do:
    """Does a job of a right program on a device that changes the output [rows, columns, channels]."""

    def do(change: Callable[[Image], object], kernel: str = "fused", **job: Any) -> Result:
        monkeypatch.setattr("pipeline.engines.emulator.run_program", changing(change))
        asked = samples["conv-pair"].job(Lane.DEVICE, kernel, "full-range@7", **job)
        return stages.execute(asked, context(tmp_path / "device", goldens))

    return do


def changing(change: Callable[[Image], object]) -> Callable[..., Any]:
    def spoiled(program: Any, soc: Any, arrays: Mapping[str, Any], variant: str) -> Any:
        report = run_program(program, soc, arrays, variant)
        change(arrays["y"].reshape(12, 8, 64))
        return report

    return spoiled


def flip(image: Image) -> None:
    image[5, 3, 17] ^= 64


def known_names(text: str) -> set[str]:
    """The faults of the list that a text names."""
    return {name for name in FAULTS if re.search(rf"(?<![\w-]){name}(?![\w-])", text)}


# -- the program is wrong


def blamed_of(result: Result) -> str:
    """What a job blames; message, facts and stage must say the same, and no fault of the list be named."""
    assert result.state is State.MISMATCH
    blamed = result.facts[BLAMED]
    wrong = next(stage for stage in result.stages if stage.state is State.MISMATCH)
    assert result.message.endswith(f"; {wrong.facts[BLAMED]}")
    assert result.facts[DIAGNOSIS].startswith("the program is wrong: ")
    assert likely(result.facts[DIAGNOSIS]).startswith("the program is wrong: ")
    assert result.causes == ()
    assert not known_names(result.facts[DIAGNOSIS] + result.facts[WRONG_STEP] + result.message)
    place = re.fullmatch(r"(?:tile\.)?\w+ of \w+ at (\w+\.py:\d+)( < \w+\.py:\d+)*", blamed)
    assert place
    assert place[1] in result.facts[DIAGNOSIS]
    (group,) = overview([result]).broken
    assert (group.cause, group.why) == (blamed, result.facts[DIAGNOSIS])
    return blamed


PLAN_FAULTS = ("plan, window: the start is clipped one row early", "plan, x window: one x row short")
"""Each of these was taken for a known fault with certainty."""


@pytest.mark.parametrize(
    ("name", "kernel", "step"),
    [
        ("fused, store into mid: tiles in reverse order", "fused", "fused: tile.fixpipe_requant of mid"),
        (
            "conv2, K loop: the filter's K offset lags one step behind",
            "fused",
            "fused: tile.extract of y",
        ),
        *((name, "fused", "fused: ") for name in PLAN_FAULTS),
        ("pass2, interior and last bands: mid is read one row higher", "two-pass", "pass2: load of y"),
    ],
)
def test_a_wrong_line_is_blamed_in_its_program(name: str, kernel: str, step: str, edited: Do) -> None:
    result = edited(name, kernel=kernel)
    blamed_of(result)
    assert result.facts[WRONG_STEP].startswith(step)


@pytest.fixture
def proofs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the programs that are walked."""
    walked: list[str] = []

    def counted(task: Task) -> Proof:
        walked.append(task.program.name)
        return prove(task)

    monkeypatch.setattr("pipeline.work.proof.prove", counted)
    return walked


def test_a_job_that_passes_proves_nothing(
    proofs: list[str], samples: Any, tmp_path: Path, goldens: Path
) -> None:
    job = samples["conv-pair"].job(Lane.DEVICE, "two-pass")
    assert stages.execute(job, context(tmp_path, goldens)).state is State.PASSED
    assert proofs == []


def test_the_compare_lane_blames_the_program_that_is_wrong_and_clears_the_others(
    edited: Do, proofs: list[str]
) -> None:
    """Its stages alone would say hand-over: fused is wrong, and all others are right."""
    result = edited("fused, gather of x: the plane stride is one x row short", Lane.COMPARE, COMPARED)
    blamed = blamed_of(result)
    others = "first-tile-load, first-tile-packed, first-tile-fused-alloc, pass1, pass2"
    assert result.facts[WRONG_STEP] == f"fused: {blamed} (proved: {others})"
    wrong = {stage.name for stage in result.stages if stage.state is State.MISMATCH}
    assert wrong == {"fused", "two-pass-vs-fused"}
    assert [stage.facts.get(PROVED, "").startswith("no: ") for stage in result.stages] == [True, *[False] * 7]
    assert len(proofs) == len(set(proofs)) == 6


def test_what_goes_through_two_programs_is_blamed_on_the_first_that_is_wrong(edited: Do) -> None:
    result = edited(
        "pass1, interior bands: x starts at band * step, not (band - 1) * step", kernel="two-pass"
    )
    one, two = result.stages
    assert (one.state, two.state) == (State.MISMATCH, State.MISMATCH)
    assert two.facts[BLAMED] == one.facts[BLAMED] == blamed_of(result)
    assert two.facts[DIAGNOSIS].startswith("the program is wrong: pass1: ")
    assert (one.facts[PROVED][:4], two.facts[PROVED]) == ("no: ", "yes")
    assert result.facts[WRONG_STEP].endswith(" (proved: pass2)")


@pytest.mark.parametrize("lane", [Lane.DEVICE, Lane.COMPILE])
def test_a_wrong_program_that_reads_what_was_never_written_is_blamed_as_well(lane: Lane, edited: Do) -> None:
    unfilled = Edit("fused_conv2d.py", "[mid_tile * band_mid_tile, 0]", "[0, 0]")
    result = edited((unfilled,), lane)
    assert (result.state, result.stages[0].state) == (State.COMPILE_ERROR, State.COMPILE_ERROR)
    assert "never written" in result.message
    assert result.facts[DIAGNOSIS].startswith("the program is wrong: ")
    assert " at " in result.facts[BLAMED]


def test_a_blamed_line_is_the_kind_of_the_failure_without_its_numbers(edited: Do) -> None:
    """An entry that excuses it names its fingerprint: a line of a program is no cause of the list."""
    result = edited("fused, store into mid: tiles in reverse order")
    found = fingerprint(result)
    assert found.startswith("mismatch fused tile.")
    assert " of mid at fused_conv2d.py:#" in found
    lines = list(entry(replace(result, facts={**result.facts, "fingerprint": found})))
    assert not any(line.startswith("  #") for line in lines)
    assert any(line.startswith("    fingerprint: ") for line in lines)


# -- the program is right


def test_a_flipped_bit_is_not_the_programs(on_device: Do) -> None:
    result = on_device(flip)
    assert result.state is State.MISMATCH
    assert result.facts[DIAGNOSIS].startswith("the program is right: toolchain or device; none of ")
    assert result.stages[0].facts[PROVED] == "yes"
    assert result.facts[WRONG_STEP] == "outside the programs (proved: fused)"
    assert (result.causes, result.facts.get(BLAMED)) == ((), None)
    (group,) = overview([result]).broken
    assert group.heading() == "1 mismatch"
    assert group.why == result.facts[DIAGNOSIS]


def given_by(fault: str, samples: Any, folder: Path, goldens: Path) -> Image:
    """What fused gives with a fault."""
    job = samples["conv-pair"].job(Lane.DEVICE, "fused", "full-range@7")
    stages.execute(job, replace(context(folder, goldens), settings=Settings(inject=fault)))
    return np.load(folder / "fused" / "actual-y.npy").reshape(12, 8, 64)


@pytest.mark.parametrize("fault", ["k-step-skipped-1", "no-padding-left-2"])
def test_what_looks_like_a_fault_of_the_program_is_said_to_look_like_it(
    fault: str, on_device: Do, samples: Any, tmp_path: Path, goldens: Path
) -> None:
    given = given_by(fault, samples, tmp_path / "faulty", goldens)
    result = on_device(lambda image: image.__setitem__(..., given))
    assert result.facts[DIAGNOSIS].startswith("the program is right: toolchain or device; ")
    assert f"; the output looks like {fault}: " in result.facts[DIAGNOSIS]
    assert result.causes == ()
    assert result.facts[WRONG_STEP] == "outside the programs (proved: fused)"


@pytest.mark.parametrize(("fault", "step"), [("offset-unsigned-2", "requant2"), ("x-nhwc", "layout")])
def test_arithmetic_and_what_the_host_packs_are_named_of_a_right_program(
    fault: str, step: str, on_device: Do, samples: Any, tmp_path: Path, goldens: Path
) -> None:
    given = given_by(fault, samples, tmp_path / "faulty", goldens)
    result = on_device(lambda image: image.__setitem__(..., given))
    assert result.causes == (fault,)
    assert result.stages[0].facts[PROVED] == "yes"
    assert result.facts[WRONG_STEP] == f"{step} (as the diagnosis says)"


def test_without_a_proof_the_list_is_asked_and_the_reason_is_told(
    on_device: Do, samples: Any, tmp_path: Path, goldens: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise ZeroDivisionError("no luck")

    given = given_by("k-step-skipped-1", samples, tmp_path / "faulty", goldens)
    monkeypatch.setattr("pipeline.work.proof.verdict_on", fail)
    result = on_device(lambda image: image.__setitem__(..., given))
    assert result.state is State.MISMATCH
    assert result.causes == ("k-step-skipped-1",)
    assert "\nfused: proved: no: the proof failed: ZeroDivisionError: " in result.details


# -- both, and later


def test_what_is_wrong_beside_a_wrong_line_is_the_devices(
    edited: Do, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program is wrong in its last band, rows 8 to 11; the device in row 5."""
    monkeypatch.setattr("pipeline.engines.emulator.run_program", changing(flip))
    result = edited("fused, last band: starts two x rows too high")
    (diff,) = result.stages[0].diffs
    beside = f"; 1 of {diff.mismatches} mismatches are where it is right: toolchain or device"
    assert result.facts[DIAGNOSIS].endswith(beside)


def test_an_output_of_another_shape_is_not_held_against_the_places_that_are_wrong() -> None:
    actual, expected = np.zeros((40, 32), np.int8), np.zeros((48, 32), np.int8)
    diff = compare("y", actual, expected, width=8, band_rows=3, sentinel=None)
    given = Evidence(None, Frame(8, 3), Tensors((), {}), {}, "vreq8", "y", actual, expected)
    found = cause_of(given, diff, {"fused": Verdict("no: so", State.REFUTED, "so")})
    assert found.line == "cause unknown: the output does not have the shape and dtype of the golden"


def test_a_replay_keeps_to_the_proof_of_the_program_that_ran(
    on_device: Do, tmp_path: Path, goldens: Path
) -> None:
    """The kernel was wrong then and is right today: that its output is wrong is not the device's fault."""
    result = relocated(on_device(flip), tmp_path / "device", tmp_path)
    (stage,) = result.stages
    then = {
        PROVED: "no: 9 of 6144 elements are wrong",
        BLAMED: "a line",
        DIAGNOSIS: "the program is wrong: so",
    }
    result = replace(result, stages=(replace(stage, facts={**stage.facts, **then}),))
    record = Record(
        "r1", "", (result.job,), {}, Settings(), {}, {result.job.id: result}, exit_code=0, notes=()
    )
    again = replay(record, tmp_path, result.job.id, goldens)
    assert (again.facts[DIAGNOSIS], again.facts[BLAMED]) == ("the program is wrong: so", "a line")
    assert "\ndiagnosis: the program is wrong: so\n" in account(again)
