"""GitLab's pipelines: what GitLab's schema says of them, and their scripts run in order as a runner would.

No GitLab runs here: that Pages are published from a child pipeline is not tested.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import junitparser
import pytest
import yaml

from .conftest import HISTORY, tells_the_night

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(sys.executable).parent
PARENT: Mapping[str, Any] = yaml.safe_load((ROOT / ".gitlab-ci.yml").read_text())
ENVIRONMENT_CANNOT_RUN = {"exit_codes": [6]}

Shell = Callable[..., subprocess.CompletedProcess[str]]


def refused(path: Path) -> str:
    """What GitLab's schema says against a file."""
    command = [str(PROGRAMS / "check-jsonschema"), "--builtin-schema", "vendor.gitlab-ci"]
    transformed = [*command, "--data-transform", "gitlab-ci", str(path)]
    ended = subprocess.run(transformed, capture_output=True, text=True, check=False)
    return ended.stdout if ended.returncode else ""


@pytest.fixture
def child(shell: Shell, checkout: Path) -> Callable[..., Mapping[str, Any]]:
    """The child pipeline of a night, as the parent's job makes it."""

    def make(**variables: str) -> Mapping[str, Any]:
        given = {**PARENT["variables"], **variables}
        for line in PARENT["plan"]["script"]:
            ended = shell(line, **given)
            assert ended.returncode == 0, ended.stderr
        (made,) = PARENT["plan"]["artifacts"]["paths"]
        assert {"artifact": made, "job": "plan"} in PARENT["night"]["trigger"]["include"]
        assert refused(checkout / made) == ""
        pipeline: Mapping[str, Any] = yaml.safe_load((checkout / made).read_text())
        return pipeline

    return make


def parts_of(pipeline: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {name: job for name, job in pipeline.items() if re.match("(emulator|device)-", name)}


def play(job: Mapping[str, Any], shell: Shell) -> int:
    """Run a job; what comes after the script does not change its exit code."""
    code = shell("\n".join(job["script"]), **job.get("variables", {})).returncode
    assert shell("\n".join(job.get("after_script", ()))).returncode == 0
    return code


def test_the_pipeline_is_what_gitlab_takes(tmp_path: Path) -> None:
    assert refused(ROOT / ".gitlab-ci.yml") == ""
    assert PARENT["night"]["trigger"]["strategy"] == "depend"  # a red night is a red pipeline
    (tmp_path / "wrong.yml").write_text(
        (ROOT / ".gitlab-ci.yml").read_text().replace("exit_codes: [6]", "x: 6")
    )
    assert refused(tmp_path / "wrong.yml")


def test_the_scripts_are_sound(child: Callable[..., Mapping[str, Any]]) -> None:
    command = [str(PROGRAMS / "shellcheck"), "--shell", "bash", "-"]
    jobs = [PARENT["compile"], PARENT["plan"], *child(NIGHTLY_PAGES="true").values()]
    for job in jobs:
        for script in ("script", "after_script"):
            text = "\n".join(job.get(script, ())) if isinstance(job, dict) else ""
            ended = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
            assert ended.returncode == 0, ended.stdout


def test_every_job_that_runs_kernels_is_bounded_and_its_environment_is_a_warning(
    child: Callable[..., Mapping[str, Any]],
) -> None:
    night = child(NIGHTLY_CARDS="a2a3 a5", NIGHTLY_PAGES="true")
    assert list(parts_of(night)) == ["emulator-1", "emulator-2", "emulator-3", "device-a2a3", "device-a5"]
    for job in (PARENT["compile"], night["report"], *parts_of(night).values()):
        assert job["allow_failure"] == ENVIRONMENT_CANNOT_RUN
        assert job["timeout"]
        assert job["artifacts"]["when"] == "always"
    assert [job.get("tags") for job in parts_of(night).values()][-2:] == [["npu", "a2a3"], ["npu", "a5"]]
    for name in ("report", "pages"):
        assert night[name]["when"] == "always"
    assert "pages" not in child()


@pytest.mark.thorough
def test_a_whole_night_becomes_one_report(
    ready: None, child: Callable[..., Mapping[str, Any]], shell: Shell, checkout: Path
) -> None:
    night = child(NIGHTLY_PAGES="true")
    assert [play(job, shell) for job in parts_of(night).values()] == [0, 0, 0, 0]
    assert play(night["report"], shell) == 0
    report = junitparser.JUnitXml.fromfile(str(checkout / "night" / "junit.xml"))
    assert (report.tests, report.failures, report.errors) == (4, 0, 0)
    assert (checkout / "night" / "news.md").read_text().startswith("## Passed: no job is red: 4 passed")
    assert tells_the_night(checkout / "public", "no job is red: 4 passed", jobs=4)
    assert [checkout / path for path in night["report"]["cache"]["paths"]] == [checkout / HISTORY]
    assert (checkout / HISTORY).exists()
    assert "public" in night["report"]["artifacts"]["paths"]
    assert play(night["pages"], shell) == 0

    (checkout / "reports" / "emulator-2" / "junit.xml").unlink()
    assert play(night["report"], shell) == 1


def test_what_a_report_attaches_is_kept_where_it_says(
    torch_installed: None, child: Callable[..., Mapping[str, Any]], shell: Shell, checkout: Path
) -> None:
    job = parts_of(child())["device-a2a3"]
    (run,) = job["script"]
    assert shell(f"{run} --inject bias-missing-1", **job["variables"]).returncode == 1
    kept = job["artifacts"]["paths"]
    (report,) = checkout.glob(job["artifacts"]["reports"]["junit"])
    attached = re.findall(r"\[\[ATTACHMENT\|(.*?)\]\]", report.read_text())
    assert attached
    for path in attached:
        assert (checkout / path).is_file()
        assert any(fnmatch(path, f"{pattern}/*") for pattern in kept)
