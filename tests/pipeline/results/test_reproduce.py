from __future__ import annotations

import shlex
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from pipeline.commands.options import parser
from pipeline.ground.jobs import Job, Lane, Platform, State, WorkloadName
from pipeline.ground.results import REPRODUCE, Result
from pipeline.ground.settings import Settings
from pipeline.results.reproduce import command_line, interpreter, with_resume
from pipeline.run.listener import RunSummary

EMULATED = Platform("emu-a2a3", "emulator", "a2a3")
JOB = Job(
    "device/emu-a2a3/mc62/fused/full-range@7",
    Lane.DEVICE,
    EMULATED,
    WorkloadName("conv-pair"),
    "mc62",
    {},
    "fused",
    "full-range@7",
    60.0,
)
PREFIX = "python -m pipeline "


@pytest.mark.parametrize(
    ("job", "settings", "words"),
    [
        (
            JOB,
            Settings(),
            "run --platform emu-a2a3 --geometry mc62 --kernel fused --profile full-range@7",
        ),
        (
            replace(JOB, profile="small@20260310", written_profile="small@nightly"),
            Settings(matrix=("a.yaml", "b.yaml")),
            "run --platform emu-a2a3 --geometry mc62 --kernel fused --profile small@nightly "
            "--matrix a.yaml --matrix b.yaml --date 2026-03-10",
        ),
        (
            replace(JOB, lane=Lane.COMPILE, kernel="two-pass", profile=None),
            Settings(),
            "compile --platform emu-a2a3 --geometry mc62 --kernel two-pass",
        ),
        (
            replace(JOB, lane=Lane.COMPILE, profile="small@20260310"),
            Settings(),
            "compile --platform emu-a2a3 --geometry mc62 --kernel fused",
        ),
        (
            replace(JOB, lane=Lane.COMPILE, profile="small@20260310", written_profile="small@nightly"),
            Settings(),
            "compile --platform emu-a2a3 --geometry mc62 --kernel fused --date 2026-03-10",
        ),
        (
            replace(JOB, lane=Lane.COMPARE, kernel="all", profile="ties"),
            Settings(inject="offset-sign-1", stage="tile", output="/tmp/o", references="/tmp/r.json"),
            "compare --platform emu-a2a3 --geometry mc62 --profile ties --inject offset-sign-1 --stage tile "
            "--references /tmp/r.json --output /tmp/o",
        ),
        (
            JOB,
            Settings(date=date(2026, 3, 9), repeat=5, retries=0),
            "run --platform emu-a2a3 --geometry mc62 --kernel fused --profile full-range@7 "
            "--date 2026-03-09 --repeat 5 --retries 0",
        ),
        (
            replace(JOB, profile="inputs"),
            Settings(inputs="/home/me/my tensors.npz"),
            "run --platform emu-a2a3 --geometry mc62 --kernel fused --inputs '/home/me/my tensors.npz'",
        ),
        (
            replace(
                JOB,
                lane=Lane.COMPARE,
                kernel="all",
                profile="ties",
                other=replace(EMULATED, name="emu-a5"),
            ),
            Settings(),
            "compare --engines emu-a2a3,emu-a5 --geometry mc62 --profile ties",
        ),
        (
            replace(
                JOB,
                lane=Lane.COMPARE,
                kernel="all",
                profile="ties",
                other=replace(EMULATED, name="emu-a5"),
                other_first=True,
            ),
            Settings(),
            "compare --engines emu-a5,emu-a2a3 --geometry mc62 --profile ties",
        ),
    ],
)
def test_a_job_is_told_as_the_command_line_that_runs_it(
    job: Job, settings: Settings, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "python")
    assert command_line(job, settings) == PREFIX + words
    parser().parse_args(shlex.split(words))


def test_the_device_that_a_run_chose_is_part_of_the_command() -> None:
    words = shlex.split(command_line(JOB, Settings(repeat=2), device=3))
    assert words[-4:] == ["--devices", "3", "--repeat", "2"]
    parser().parse_args(words[3:])


def test_names_of_files_are_quoted_for_the_shell() -> None:
    overlay = "it's; rm -rf $HOME.yaml"
    words = shlex.split(command_line(JOB, Settings(matrix=(overlay,))))
    assert words[words.index("--matrix") + 1] == overlay


def test_this_python_is_named_as_one_would_type_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "environment" / "bin" / "python"))
    assert interpreter() == str(tmp_path / "environment" / "bin" / "python")
    monkeypatch.chdir(tmp_path)
    assert interpreter() == "environment/bin/python"
    assert command_line(JOB, Settings()).startswith(interpreter())


@pytest.mark.parametrize(
    ("output", "lane", "words"),
    [
        ("out", Lane.DEVICE, "run --resume r1"),
        ("out", Lane.COMPARE, "compare --resume r1"),
        ("my nights", Lane.COMPILE, "compile --resume r1 --output '{}/my nights'"),
    ],
)
def test_what_was_interrupted_is_told_with_what_finishes_its_run(
    output: str, lane: Lane, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.executable", "python")
    crashed = Result(JOB, State.CRASHED, facts={REPRODUCE: "again"})
    results = (crashed, Result(replace(JOB, lane=lane), State.INTERRUPTED, facts={"own": "kept"}))
    summary = with_resume(RunSummary("r1", tmp_path / output / "runs" / "r1", results, 2, 1.0))
    line = PREFIX + words.format(tmp_path)
    assert [result.facts for result in summary.results] == [crashed.facts, {"own": "kept", REPRODUCE: line}]
    parser().parse_args(shlex.split(line)[3:])
