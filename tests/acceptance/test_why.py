"""From a mismatch to why: difference, diagnosis, replay, repetition, two engines, night after night."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from matplotlib.image import imread

pytestmark = pytest.mark.usefixtures("torch_installed")

Pipeline = Callable[..., Any]
Report = Callable[[Path], Mapping[str, Any]]
LastRun = Callable[[], Path]

WORDS = ("--platform", "emu-a2a3", "--geometry", "bands", "--profile", "small")
KERNELS = ("--kernel", "fused", "--kernel", "two-pass")
FUSED = "device/emu-a2a3/bands/fused/small"


def facts(out: str) -> dict[str, str]:
    lines = (line.partition("=") for line in out.splitlines())
    return {key: value for key, equals, value in lines if equals and re.fullmatch(r"[\w.-]+", key)}


def attached(out: str) -> list[Path]:
    return [Path(path) for path in re.findall(r"^\[\[ATTACHMENT\|(.*)]]$", out, re.MULTILINE)]


@pytest.mark.usefixtures("drawn")
def test_a_mismatch_brings_its_difference_as_data_and_pictures(
    pipeline: Pipeline, report: Report, last_run: LastRun
) -> None:
    assert pipeline("run", *WORDS, "--kernel", "fused", "--inject", "no-padding-bottom-2-last").code == 1
    case = report(last_run() / "junit.xml")[FUSED]
    files = {path.name: path for path in attached(case.out)}
    assert all(path.is_absolute() and path.is_file() for path in files.values())
    data = json.loads(files["diff.json"].read_bytes())
    assert f"y: {data['mismatches']} of {data['count']} elements differ" in case.message
    (band,) = data["divisions"]["band"]["wrong"]
    assert band["name"] == "band 2 (last) rows 16..23"
    assert [region["name"] for region in data["divisions"]["row"]["wrong"]] == ["row 23"]
    assert "all mismatches lie in: " in case.body
    assert "last ACC tiles of bands" in case.body
    for name in ("rows-columns.png", "channels.png"):
        assert imread(files[name], format="png").size


@pytest.mark.usefixtures("drawn")
def test_attachments_are_relative_to_the_checkout_where_gitlab_reads_them(
    pipeline: Pipeline, report: Report, last_run: LastRun, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GitLab resolves them against CI_PROJECT_DIR, also for a pipeline that runs in a folder below it."""
    words = ("run", *WORDS, "--kernel", "fused", "--inject", "no-padding-bottom-2-last")
    monkeypatch.delenv("CI_PROJECT_DIR", raising=False)
    assert pipeline(*words, "--attachments", "relative").code == 1
    files = attached(report(last_run() / "junit.xml")[FUSED].out)
    assert {"diff.json", "inputs.npz", "listing.txt"} <= {path.name for path in files}
    assert files[0].suffix == ".png"
    assert all(path.parts[0] == "out" and path.is_file() for path in files)
    monkeypatch.setenv("CI_PROJECT_DIR", str(workspace.parent))
    assert pipeline("report", "show", "--junit", "again.xml", "--attachments", "relative").code == 1
    again = attached(report(Path("again.xml"))[FUSED].out)
    assert again == [Path(workspace.name) / path for path in files]
    assert pipeline("report", "show", "--junit", "again.xml").code == 1
    assert attached(report(Path("again.xml"))[FUSED].out) == [path.absolute() for path in files]


def test_one_cause_is_one_group_and_is_known_the_next_night(
    pipeline: Pipeline, report: Report, last_run: LastRun
) -> None:
    words = ("run", *WORDS, *KERNELS, "--inject", "offset-sign-1")
    assert pipeline(*words).code == 1
    first = last_run()
    text = (first / "summary.md").read_text()
    assert "### 2 jobs, one cause: `offset-sign-1`, platform `emu-a2a3`\n" in text
    assert "- since: `new in this run`\n" in text
    tonight = pipeline(*words)
    assert f"since: run {first.name}\n" in tonight.out
    for case in report(last_run() / "junit.xml").values():
        assert facts(case.out)["since"] == first.name
        assert facts(case.out)["fingerprint"].endswith("offset-sign-1")
    # Another fault is another failure, and a rerun of one job does not age the other.
    assert pipeline("run", *WORDS, "--kernel", "fused", "--inject", "bias-missing-1").code == 1
    assert facts(report(last_run() / "junit.xml")[FUSED].out)["since"] == "new"
    assert pipeline(*words).code == 1
    since = {job: facts(case.out)["since"] for job, case in report(last_run() / "junit.xml").items()}
    assert since == {FUSED: "new", "device/emu-a2a3/bands/two-pass/small": first.name}
    assert f"run {first.name}; 1 of 2 jobs new in this run" in (last_run() / "summary.md").read_text()


def test_the_command_of_a_failed_case_repeats_it(
    pipeline: Pipeline, report: Report, last_run: LastRun, workspace: Path
) -> None:
    """With an overlay whose name needs quotes, other bands, and the numbers of a certain night."""
    overlay = workspace / "to night.yaml"
    overlay.write_text(
        "geometries: {bands: {band_rows: 4}}\n"
        "lanes: {device: {include: [{platforms: [emu-a2a3], geometries: [bands], kernels: [fused],"
        " profiles: ['full-range@nightly']}]}}\n"
    )
    words = ("--matrix", "to night.yaml", "--date", "2026-03-10", "--inject", "k-step-twice-2")
    assert pipeline("run", "--id", "*nightly", *words).code == 1
    (job, case), *_ = report(last_run() / "junit.xml").items()
    assert job == "device/emu-a2a3/bands/fused/full-range@nightly"
    command = shlex.split(facts(case.out)["reproduce"])
    assert command[1:3] == ["-m", "pipeline"]
    broken = last_run()
    assert pipeline(*command[3:]).code == 1
    assert last_run() != broken
    again = report(last_run() / "junit.xml")
    assert list(again) == [job]
    assert again[job].body == case.body
    # A run that is taken up passes the same words on.
    assert pipeline("run", "--failed", "last").code == 1
    assert facts(report(last_run() / "junit.xml")[job].out)["reproduce"] == facts(case.out)["reproduce"]


def test_given_tensors_are_part_of_the_command(
    pipeline: Pipeline, report: Report, last_run: LastRun, cases: Path
) -> None:
    words = ("--platform", "emu-a2a3", "--geometry", "pair-24x16", "--stage", "tile")
    inputs = ("--inputs", cases / "conv-pair-24x16-ties.npz")
    assert pipeline("compare", *words, *inputs, "--inject", "bias-missing-1").code == 1
    cases_before = report(last_run() / "junit.xml")
    commands = {facts(case.out)["reproduce"] for case in cases_before.values()}
    assert len(commands) == 1
    (command,) = commands
    assert pipeline(*shlex.split(command)[3:]).code == 1
    again = report(last_run() / "junit.xml")
    assert {job: case.body for job, case in again.items()} == {
        job: case.body for job, case in cases_before.items()
    }
    # The tensors are kept with the job, too.
    kept = next(last_run().rglob("inputs.npz"))
    words = (*words, "--inject", "bias-missing-1")
    assert pipeline("compare", *words, "--inputs", kept).code == 1
    assert report(last_run() / "junit.xml")["compare/emu-a2a3/pair-24x16/inputs/fused"].body == (
        again["compare/emu-a2a3/pair-24x16/inputs/fused"].body
    )


def test_a_mismatch_is_replayed_and_anything_else_refused(
    pipeline: Pipeline, report: Report, last_run: LastRun, refused: Callable[..., str]
) -> None:
    assert pipeline("run", *WORDS, *KERNELS, "--inject", "map-corrupted").code == 1
    case = report(last_run() / "junit.xml")[FUSED]
    replayed = pipeline("replay", last_run().name, FUSED)
    assert (replayed.code, replayed.err) == (1, "")
    assert case.message in replayed.out
    assert f"diagnosis: {facts(case.out)['diagnosis']}\n" in replayed.out
    assert "map-corrupted" in facts(case.out)["diagnosis"]
    assert facts(case.out)["injected"] == "map-corrupted"
    two_pass = "device/emu-a2a3/bands/two-pass/small"
    spared = report(last_run() / "junit.xml")[two_pass]
    assert spared.kind == "skipped"
    assert spared.message.startswith(
        "fault map-corrupted was not injected: this program gathers no feature map "
    )
    assert "injected" not in facts(spared.out)
    assert refused("replay", "last", two_pass).endswith("it ended as skipped")
    assert "no result of job `device/x`; write one of `device/emu-a2a3/" in refused(
        "replay", "last", "device/x"
    )
    assert "no run 'x'" in refused("replay", "x", FUSED)


def test_two_engines_are_held_against_one_another(
    pipeline: Pipeline, report: Report, last_run: LastRun, workspace: Path
) -> None:
    (workspace / "both.yaml").write_text(
        "lanes: {device: {include: [{platforms: [emu-a5], geometries: [bands], kernels: [fused],"
        " profiles: [small]}]}}\n"
    )
    words = ("compare", "--matrix", "both.yaml", "--engines", "emu-a5,emu-a2a3")
    job = "compare/emu-a5+emu-a2a3/bands/small"
    assert pipeline(*words).code == 0
    names = list(report(last_run() / "junit.xml"))
    assert names[:4] == [
        job,
        f"{job}/fused-on-emu-a5",
        f"{job}/fused-on-emu-a2a3",
        f"{job}/fused-emu-a5-vs-emu-a2a3",
    ]
    assert pipeline(*words, "--inject", "bias-missing-2").code == 1
    cases = report(last_run() / "junit.xml")
    assert list(cases) == names
    assert cases[job].message.startswith("odd one out: emu-a5 in fused, pass2; ")
    assert cases[f"{job}/fused-on-emu-a2a3"].kind == "passed"
    assert "differ from that of fused-on-emu-a2a3" in cases[f"{job}/fused-emu-a5-vs-emu-a2a3"].message
    command = facts(cases[job].out)["reproduce"]
    assert pipeline(*shlex.split(command)[3:]).code == 1
    assert report(last_run() / "junit.xml")[job].message == cases[job].message


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--engines", "emu-a5"), "write two platforms"),
        (("--engines", "emu-a5,abacus"), "no platform 'abacus'"),
        (("--engines", "emu-a5,emu-a2a3", "--stage", "tile"), "--stage does not go with --engines"),
        (
            ("--engines", "emu-a5,emu-a2a3", "--kernel", "all"),
            "--kernel has no place here; it is an option of list, compile, run",
        ),
        (("--engines", "a2a3,emu-a2a3", "--inject", "band-up"), "faults are injected on the emulator only"),
    ],
)
def test_engines_that_make_no_sense_are_refused(
    words: tuple[str, ...], said: str, refused: Callable[..., str]
) -> None:
    assert said in refused("compare", *words)


def test_the_command_of_a_failed_case_names_the_places_that_were_named(
    pipeline: Pipeline, workspace: Path
) -> None:
    (workspace / "mine.json").write_text("{}")
    (workspace / "other").symlink_to("out")
    words = (*WORDS, "--kernel", "fused", "--inject", "k-step-twice-2")
    usual = pipeline("run", *words, "--output", workspace / "out")
    assert "again: " in usual.out
    assert "--output" not in usual.out
    named = pipeline("run", *words, "--output", "other", "--references", "mine.json")
    assert f"--references {workspace / 'mine.json'} --output {workspace / 'other'}\n" in named.out
    written = ("--output", "other", "--references", "new.json", "--update-references")
    assert "--references" not in pipeline("run", *words, *written).out
