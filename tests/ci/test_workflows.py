"""The workflows: what a linter says of them, and their shell steps run in order as a runner would."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import junitparser
import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROGRAMS = Path(sys.executable).parent
LINTER = [str(PROGRAMS / "zizmor"), "--offline", "--strict-collection", "--no-progress"]

CARDS = r"\$\{\{ (?:join\()?fromJSON\(vars\.NIGHTLY_CARDS \|\| '(.*?)'\)(?:, ' '\))? \}\}"
"""The platforms whose cards the repository has runners for, as they stand in the workflow."""

Shell = Callable[..., subprocess.CompletedProcess[str]]
Job = Mapping[str, Any]


def jobs(name: str) -> Mapping[str, Job]:
    found: Mapping[str, Job] = yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yml").read_text())[
        "jobs"
    ]
    return found


def shell_steps() -> Iterator[Any]:
    for path in WORKFLOWS:
        for job, facts in jobs(path.stem).items():
            for step in facts["steps"]:
                if "run" in step:
                    yield pytest.param(step["run"], id=f"{path.stem}-{job}-{step['name']}")


def test_the_linter_has_nothing_to_say() -> None:
    ended = subprocess.run([*LINTER, str(ROOT / ".github")], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_linter_would_say_something(tmp_path: Path) -> None:
    for wrong, right in (
        ("runs_on", "runs-on"),
        ("checkout@v5", "checkout@08c6903cd8c0fde910a37f88322edcfb5dd907a8"),
    ):
        text = WORKFLOWS[0].read_text()
        assert right in text
        (tmp_path / "wrong.yml").write_text(text.replace(right, wrong))
        ended = subprocess.run([*LINTER, str(tmp_path / "wrong.yml")], capture_output=True, check=False)
        assert ended.returncode != 0


@pytest.mark.parametrize("text", list(shell_steps()))
def test_a_step_is_sound_shell(text: str) -> None:
    assert "${{" not in text  # values come by the environment: none is pasted into a command
    command = [str(PROGRAMS / "shellcheck"), "--shell", "bash", "-"]
    ended = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_job_is_bounded_and_may_only_read(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["defaults"]["run"]["shell"] == "bash"  # which sets pipefail
    assert workflow["concurrency"]
    for job in workflow["jobs"].values():
        assert "permissions" not in job
        assert job["timeout-minutes"]


def wanted(step: Mapping[str, Any], failed: bool) -> bool:
    """Whether a runner would run a step, after one before it failed or not."""
    assert step.get("if", "always()") == "always()"
    return not failed or "if" in step


def filled(text: object, values: Mapping[str, Any]) -> str:
    """What a runner makes of a value by those of the matrix and, as `cards`, the repository's variable."""
    cards = re.sub(CARDS, lambda found: " ".join(json.loads(values.get("cards") or found[1])), str(text))
    return re.sub(r"\$\{\{ matrix\.(\w+) \}\}", lambda found: str(values[found[1]]), cards)


def play(job: Job, values: Mapping[str, Any], shell: Shell, summary: Path) -> int:
    """Run a job's shell steps in order; its exit code is that of the first step that failed."""
    code = 0
    for step in job["steps"]:
        if "run" in step and wanted(step, code != 0):
            environment = {name: filled(value, values) for name, value in step.get("env", {}).items()}
            ended = shell(step["run"], **environment, GITHUB_STEP_SUMMARY=str(summary))
            code = code or ended.returncode
    return code


def combinations(job: Job) -> list[dict[str, Any]]:
    """The values that a job's matrix takes, one after another; no job here has more than one."""
    ((name, values),) = job["strategy"]["matrix"].items()
    return [{name: value} for value in (filled(values, {}).split() if isinstance(values, str) else values)]


def upload(job: Job, values: Mapping[str, Any], checkout: Path, store: Path) -> None:
    """Do what `actions/upload-artifact` does."""
    (step,) = (step for step in job["steps"] if "upload-artifact" in step.get("uses", ""))
    assert step["if"] == "always()"
    assert step["with"]["if-no-files-found"] == "error"
    shutil.move(checkout / step["with"]["path"], store / filled(step["with"]["name"], values))


def test_a_pull_request_is_linted(shell: Shell, checkout: Path, tmp_path: Path) -> None:
    assert play(jobs("pull-request")["lint"], {}, shell, tmp_path / "summary.md") == 0
    assert (checkout / "sessions").read_text() == "nox lint\n"


@pytest.mark.parametrize(("workflow", "name"), [("pull-request", "tests"), ("nightly", "portability")])
@pytest.mark.parametrize("good", [True, False])
def test_tests_leave_a_report_also_where_they_fail(
    workflow: str, name: str, good: bool, shell: Shell, checkout: Path, tmp_path: Path
) -> None:
    (checkout / "test_something.py").write_text(f"def test_something():\n    assert {good}\n")
    job = jobs(workflow)[name]
    assert play(job, {"python": "3.13"}, shell, tmp_path / "summary.md") == (0 if good else 1)
    upload(job, {"python": "3.13"}, checkout, tmp_path)
    report = junitparser.JUnitXml.fromfile(str(tmp_path / f"{name}-3.13" / "tests.xml"))
    assert [(suite.tests, suite.failures) for suite in report] == [(1, 0 if good else 1)]


def test_the_night_runs_the_tests_on_every_python_that_has_a_session() -> None:
    others = runpy.run_path(str(ROOT / "noxfile.py"))["OTHER_PYTHONS"]
    assert combinations(jobs("nightly")["portability"]) == [{"python": python} for python in others]


def test_the_compile_lane_of_a_pull_request(shell: Shell, checkout: Path, tmp_path: Path) -> None:
    job = jobs("pull-request")["compile"]
    assert play(job, {}, shell, tmp_path / "summary.md") == 0
    assert "1 passed" in (tmp_path / "summary.md").read_text()
    upload(job, {}, checkout, tmp_path)
    assert junitparser.JUnitXml.fromfile(str(tmp_path / "compile" / "junit.xml")).tests == 1


@pytest.fixture
def night(torch_installed: None, shell: Shell, checkout: Path, tmp_path: Path) -> Path:
    """A night's parts, each in the folder of its artefact, where the last job finds them."""
    store = checkout / "parts"
    store.mkdir()
    for name in ("emulator", "device"):
        job = jobs("nightly")[name]
        for values in combinations(job):
            assert play(job, values, shell, tmp_path / "summary.md") == 0
            upload(job, values, checkout, store)
            # Each part is on a runner of its own: how long another's jobs took must not divide its jobs.
            shutil.rmtree(checkout / "out" / "runs")
    return store


def test_a_whole_night_becomes_one_report(night: Path, shell: Shell, checkout: Path, tmp_path: Path) -> None:
    job = jobs("nightly")["report"]
    summary = tmp_path / "merged.md"
    assert play(job, {}, shell, summary) == 0
    report = junitparser.JUnitXml.fromfile(str(checkout / "night" / "junit.xml"))
    assert (report.tests, report.failures, report.errors) == (8, 0, 0)
    assert summary.read_text().startswith("```text\n")

    # A part that never came: one shard, or the cards' host.
    for missing in ("emulator-3", "device-a2a3"):
        shutil.move(night / missing, tmp_path / missing)
        summary.unlink()
        assert play(job, {}, shell, summary) == 1
        report = junitparser.JUnitXml.fromfile(str(checkout / "night" / "junit.xml"))
        assert report.errors > 0
        assert missing in summary.read_text()
        shutil.move(tmp_path / missing, night / missing)

    # Cards that the repository says it has runners for are asked for, and others are not.
    assert combinations(jobs("nightly")["device"]) == [{"platform": "a2a3"}]
    assert play(job, {"cards": '["a2a3", "a5"]'}, shell, summary) == 1
    assert "parts/device-a5/junit.xml" in summary.read_text()
    device = jobs("nightly")["device"]
    assert play(device, {"platform": "a5"}, shell, summary) == 0
    upload(device, {"platform": "a5"}, checkout, night)
    assert play(job, {"cards": '["a2a3", "a5"]'}, shell, summary) == 0


def test_a_night_without_any_part_is_red(shell: Shell, checkout: Path, tmp_path: Path) -> None:
    summary = tmp_path / "merged.md"
    assert play(jobs("nightly")["report"], {}, shell, summary) == 4
    assert "nothing to merge" in summary.read_text()
    assert jobs("nightly")["report"]["if"] == "always()"


def test_a_red_run_still_writes_its_summary(
    torch_installed: None, shell: Shell, checkout: Path, tmp_path: Path
) -> None:
    matrix = (checkout / "matrix.yaml").read_text()
    (checkout / "matrix.yaml").write_text(
        matrix.replace("a2a3: {backend: emulator", "a2a3: {backend: nothing")
    )
    summary = tmp_path / "summary.md"
    assert play(jobs("nightly")["device"], {"platform": "a2a3"}, shell, summary) == 4
    assert "Failed: no report was written (exit code 4)" in summary.read_text()
