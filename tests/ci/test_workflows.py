"""The workflows: what a linter says of them, and their shell steps run in order as a runner would."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import junitparser
import pytest
import yaml

from .conftest import HISTORY, tells_the_night

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROGRAMS = Path(sys.executable).parent
LINTER = [str(PROGRAMS / "zizmor"), "--offline", "--strict-collection", "--no-progress"]

CARDS = r"\$\{\{ (?:join\()?fromJSON\(vars\.NIGHTLY_CARDS \|\| '(.*?)'\)(?:, ' '\))? \}\}"
"""The platforms whose cards the repository has runners for, as they stand in the workflow."""

NEEDED = r"\$\{\{ needs\.plan\.outputs\.(\w+)(?: \|\| (\w+))? \}\}"
"""What a job before gave, or else what stands in its place."""

Shell = Callable[..., subprocess.CompletedProcess[str]]
Job = Mapping[str, Any]


ONLY_SHARD = '<properties><property name="shard" value="1/1" />'


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


@pytest.mark.parametrize("schema", ["vendor.github-workflows", "custom.github-workflows-require-timeout"])
def test_the_workflows_are_what_github_takes(schema: str) -> None:
    command = [str(PROGRAMS / "check-jsonschema"), "--builtin-schema", schema, *map(str, WORKFLOWS)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout


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
    for name, job in workflow["jobs"].items():
        # Who publishes runs no code of ours.
        may = {"pages": "write", "id-token": "write"} if name == "pages" else None
        assert job.get("permissions") == may
        assert not may or all("run" not in step for step in job["steps"])
        assert job["timeout-minutes"]


def wanted(step: Mapping[str, Any], code: int, outputs: Mapping[str, str]) -> bool:
    """Whether a runner would run a step, after one before it failed with a code or 0."""
    condition = step.get("if")
    always = {"always()": True, "always() && steps.run.outputs.code == '6'": outputs.get("code") == "6"}
    return code == 0 if condition is None else always[condition]


def filled(text: object, values: Mapping[str, Any]) -> str:
    """What a runner makes of a value.

    By the values of the matrix, of jobs before it and, as `cards`, of the repository's variable.
    """
    cards = re.sub(CARDS, lambda found: " ".join(json.loads(values.get("cards") or found[1])), str(text))
    needed = re.sub(NEEDED, lambda found: values.get(found[1], found[2] or ""), cards)
    needed = re.sub(r"\$\{\{ secrets\.(\w+) \}\}", lambda found: values.get(found[1], ""), needed)
    return re.sub(r"\$\{\{ matrix\.(\w+) \}\}", lambda found: str(values[found[1]]), needed)


@dataclass(frozen=True)
class Played:
    """How a job went: the exit code of its first step that failed, which steps ran, what it gave."""

    code: int
    steps: list[str]
    outputs: Mapping[str, str]
    said: str


def play(job: Job, values: Mapping[str, Any], shell: Shell, summary: Path) -> Played:
    """Run a job's shell steps in order."""
    code, ran, said = 0, [], ""
    file = summary.parent / "outputs"
    file.write_text("")
    outputs: dict[str, str] = {}
    for step in job["steps"]:
        if "run" in step and wanted(step, code, outputs):
            environment = {name: filled(value, values) for name, value in step.get("env", {}).items()}
            given = {"GITHUB_STEP_SUMMARY": str(summary), "GITHUB_OUTPUT": str(file)}
            ended = shell(step["run"], **environment, **given, GITHUB_ACTIONS="true")
            code = code or ended.returncode
            ran.append(step["name"])
            said += ended.stdout
            outputs = dict(line.split("=", 1) for line in file.read_text().splitlines())
    return Played(code, ran, outputs, said)


def combinations(job: Job, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The values that a job's matrix takes, one after another; no job here has more than one."""
    matrix = job["strategy"]["matrix"]
    if isinstance(matrix, str):
        assert matrix == "${{ fromJSON(needs.plan.outputs.shards) }}"
        return list(json.loads(values["shards"])["include"])
    ((name, listed),) = matrix.items()
    return [{name: value} for value in (filled(listed, {}).split() if isinstance(listed, str) else listed)]


def upload(job: Job, values: Mapping[str, Any], checkout: Path, store: Path) -> None:
    """Do what `actions/upload-artifact` does."""
    shutil.move(checkout / kept(job)["path"], store / filled(kept(job)["name"], values))


def kept(job: Job) -> Mapping[str, str]:
    """What a job keeps as an artefact, whatever comes."""
    steps = [step for step in job["steps"] if "/upload-artifact@" in step.get("uses", "")]
    (step,) = (step for step in steps if step["name"] == "Keep the report")
    assert {step["if"] for step in steps} == {"always()"}
    assert step["with"]["if-no-files-found"] == "error"
    found: Mapping[str, str] = step["with"]
    return found


def test_a_pull_request_is_linted(shell: Shell, checkout: Path, tmp_path: Path) -> None:
    assert play(jobs("pull-request")["lint"], {}, shell, tmp_path / "summary.md").code == 0
    assert (checkout / "sessions").read_text() == "nox lint\n"


@pytest.mark.parametrize(("workflow", "name"), [("pull-request", "tests"), ("nightly", "portability")])
@pytest.mark.parametrize("good", [True, False])
def test_tests_leave_a_report_also_where_they_fail(
    workflow: str, name: str, good: bool, shell: Shell, checkout: Path, tmp_path: Path
) -> None:
    (checkout / "test_something.py").write_text(f"def test_something():\n    assert {good}\n")
    job = jobs(workflow)[name]
    assert play(job, {"python": "3.13"}, shell, tmp_path / "summary.md").code == (0 if good else 1)
    upload(job, {"python": "3.13"}, checkout, tmp_path)
    report = junitparser.JUnitXml.fromfile(str(tmp_path / f"{name}-3.13" / "tests.xml"))
    assert [(suite.tests, suite.failures) for suite in report] == [(1, 0 if good else 1)]


def test_the_night_runs_the_tests_on_every_python_that_has_a_session() -> None:
    others = runpy.run_path(str(ROOT / "noxfile.py"))["OTHER_PYTHONS"]
    assert combinations(jobs("nightly")["portability"], {}) == [{"python": python} for python in others]


def test_the_compile_lane_of_a_pull_request(shell: Shell, checkout: Path, tmp_path: Path) -> None:
    job = jobs("pull-request")["compile"]
    assert play(job, {}, shell, tmp_path / "summary.md").code == 0
    assert "1 passed" in (tmp_path / "summary.md").read_text()
    upload(job, {}, checkout, tmp_path)
    assert junitparser.JUnitXml.fromfile(str(tmp_path / "compile" / "junit.xml")).tests == 1


@pytest.fixture
def night(parts: Path, shell: Shell, checkout: Path, tmp_path: Path) -> Mapping[str, Any]:
    """A night's parts, each in the folder of its artefact, where the last job finds them; and the plan."""
    store = checkout / "parts"
    shutil.copytree(parts, store)
    plan = play(jobs("nightly")["plan"], {}, shell, tmp_path / "summary.md")
    assert plan.code == 0
    # One of them comes as its job makes it.
    job, values = jobs("nightly")["emulator"], combinations(jobs("nightly")["emulator"], plan.outputs)[0]
    assert play(job, values, shell, tmp_path / "summary.md").code == 0
    shutil.rmtree(store / filled(kept(job)["name"], values))
    upload(job, values, checkout, store)
    return plan.outputs


@pytest.mark.thorough
def test_a_whole_night_becomes_one_report(
    night: Mapping[str, Any], shell: Shell, checkout: Path, tmp_path: Path
) -> None:
    job = jobs("nightly")["report"]
    summary = tmp_path / "merged.md"
    assert json.loads(night["shards"]) == {
        "include": [{"part": part, "shard": f"{part}/3"} for part in (1, 2, 3)]  # there are three jobs
    }
    assert play(job, night, shell, summary).code == 0
    report = junitparser.JUnitXml.fromfile(str(checkout / "night" / "junit.xml"))
    assert (report.tests, report.failures, report.errors) == (4, 0, 0)
    assert summary.read_text().startswith("```text\n")
    assert "## Passed: no job is red: 4 passed" in summary.read_text()
    assert {path.name for path in (checkout / "night").iterdir()} == {
        "junit.xml",
        "merge.txt",
        "news.md",
        "results.json",
    }
    assert tells_the_night(checkout / "site", "no job is red: 4 passed", jobs=4)
    assert (checkout / HISTORY).exists()  # what the next step keeps for the next night
    # What the parts know of each output reaches the night's results.
    merged = json.loads((checkout / "night" / "results.json").read_text())
    assert all(stage["diffs"] for one in merged["jobs"] for stage in one["stages"])

    for step, where in (("Nights before", "restore"), ("Remember the night", "save")):
        (cache,) = (each for each in job["steps"] if each.get("name") == step)
        assert f"actions/cache/{where}@" in cache["uses"]
        assert cache["with"]["path"] == HISTORY
        assert cache["if"].startswith("always()")  # a red night is remembered too

    # A part that never came.
    shutil.move(checkout / "parts" / "emulator-3", tmp_path / "emulator-3")
    summary.unlink()
    played = play(job, night, shell, summary)
    assert played.code == 1
    assert "The environment cannot run" not in played.steps
    report = junitparser.JUnitXml.fromfile(str(checkout / "night" / "junit.xml"))
    assert report.errors > 0
    assert "emulator-3" in summary.read_text()
    shutil.move(tmp_path / "emulator-3", checkout / "parts" / "emulator-3")

    # Cards that the repository says it has runners for are asked for, and others are not.
    assert combinations(jobs("nightly")["device"], night) == [{"platform": "a2a3"}]
    # A history that cannot be used changes nothing else.
    unusable = "postgresql://ann:secret@127.0.0.1:1/nights"
    cards = {**night, "cards": '["a2a3", "a5"]', "NIGHTLY_HISTORY": unusable}
    played = play(job, cards, shell, summary)
    assert (played.code, played.steps[-1]) == (1, "News and pages")
    assert "secret" not in played.said + summary.read_text()
    assert tells_the_night(checkout / "site", "parts/device-a5/junit.xml: cannot be read", jobs=4)
    assert "parts/device-a5/junit.xml" in summary.read_text()


def test_a_night_without_any_part_is_red(shell: Shell, checkout: Path, tmp_path: Path) -> None:
    """Nor is there a plan: the job that makes it has failed."""
    summary = tmp_path / "merged.md"
    assert play(jobs("nightly")["report"], {}, shell, summary).code == 4
    assert "nothing to merge" in summary.read_text()
    assert jobs("nightly")["report"]["if"] == "always()"
    assert (checkout / "site" / "index.html").read_text() == "This night has no report.\n"


def test_a_red_run_still_writes_its_summary(
    torch_installed: None, shell: Shell, checkout: Path, tmp_path: Path
) -> None:
    matrix = (checkout / "matrix.yaml").read_text()
    (checkout / "matrix.yaml").write_text(
        matrix.replace("a2a3: {backend: emulator", "a2a3: {backend: nothing")
    )
    summary = tmp_path / "summary.md"
    played = play(jobs("nightly")["device"], {"platform": "a2a3"}, shell, summary)
    assert played.code == 4
    assert "The environment cannot run" not in played.steps
    assert "Failed: no report was written (exit code 4)" in summary.read_text()


def words_of_the_environment(played: Played) -> bool:
    """Whether a job that is red with code 6 says so in a step of its own."""
    told = "::error title=The environment cannot run::" in played.said
    return played.code == 6 and played.steps[-1] == "The environment cannot run" and told


def test_a_pull_request_that_the_environment_cannot_compile_is_red_in_its_own_words(
    shell: Shell, checkout: Path, tmp_path: Path, unable: Callable[[Path], None]
) -> None:
    unable(checkout)
    assert words_of_the_environment(play(jobs("pull-request")["compile"], {}, shell, tmp_path / "summary.md"))


def test_a_night_in_which_only_the_environment_failed_is_one_of_these(
    shell: Shell, checkout: Path, tmp_path: Path, unable: Callable[[Path], None]
) -> None:
    unable(checkout)
    job = jobs("nightly")["device"]
    assert words_of_the_environment(play(job, {"platform": "a2a3"}, shell, tmp_path / "summary.md"))
    (checkout / "parts").mkdir()
    for name in ("emulator-1", "device-a2a3"):
        shutil.copytree(checkout / "reports", checkout / "parts" / name)
    for part in (checkout / "parts").iterdir():
        text = (part / "junit.xml").read_text()
        (part / "junit.xml").write_text(text.replace("<properties>", ONLY_SHARD, 1))
    played = play(jobs("nightly")["report"], {"count": "1"}, shell, tmp_path / "summary.md")
    assert words_of_the_environment(played)
