"""The Jenkinsfile: its shell steps, and its way through a night, with stand-ins for Jenkins' own steps.

No Jenkins runs here: what its plugins make of `junit`, `archiveArtifacts` and `stash` is not tested.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import junitparser
import pytest

from .conftest import tells_the_night

ROOT = Path(__file__).parents[2]
FILE = ROOT / "ci" / "Jenkinsfile"
HARNESS = Path(__file__).with_name("jenkins.groovy")
SCRIPTS = re.findall("'''(.*?)'''", FILE.read_text(), re.DOTALL)
JAVA = shutil.which("java")

Shell = Callable[..., subprocess.CompletedProcess[str]]
Night = Callable[..., list[str]]


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_shell_step_is_sound(script: str) -> None:
    assert "${" not in script.replace("${NIGHTLY_WEBHOOK_FILE:+", "")  # Groovy pastes nothing into it
    command = [str(Path(sys.executable).parent / "shellcheck"), "--shell", "sh", "-"]
    text = script.replace("\\\\", "\\")
    ended = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout


@pytest.fixture
def night(shell: Shell) -> Night:
    """Run the Jenkinsfile; gives its events."""
    if JAVA is None or shutil.which("groovy") is None:
        pytest.skip("needs Groovy: apt-get install groovy")
    home = str(Path(os.path.realpath(JAVA)).parents[1])

    def run(**environment: str) -> list[str]:
        ended = shell(f"groovy {HARNESS} {FILE}", JAVA_HOME=home, **environment)
        events = [line for line in ended.stdout.splitlines() if line.startswith("@")]
        assert events, ended.stderr
        return events

    return run


def test_a_night_in_which_a_part_never_came_is_red_and_a_whole_one_is_not(
    ready: None, night: Night, checkout: Path
) -> None:
    events = night(NIGHTLY_CARDS="a2a3 a3")
    parts = ["emulator-1", "emulator-2", "emulator-3", "device-a2a3", "device-a3"]
    stages = [event.removeprefix("@stage ") for event in events if event.startswith("@stage ")]
    assert stages == ["plan", *parts, "report"]
    read = [event for event in events if event.startswith("@junit ")]
    assert read == [f"@junit reports/{name}/junit.xml" for name in parts[:-1]]  # there is no platform a3
    assert events[-1] == "@result FAILURE"
    merged = junitparser.JUnitXml.fromfile(str(checkout / "night" / "junit.xml"))
    assert (merged.tests, merged.failures, merged.errors) == (5, 0, 1)

    # Without it the parts that there are make a night.
    assert night(NIGHTLY_CARDS="a2a3")[-1] == "@result SUCCESS"
    assert (checkout / "night" / "news.md").read_text().startswith("## Passed: no job is red: 4 passed")
    assert tells_the_night(checkout / "night" / "dashboard", "no job is red: 4 passed", jobs=4)


def test_what_the_environment_kept_from_running_is_yellow(ready: None, night: Night, checkout: Path) -> None:
    script = checkout / "ci" / "nightly.sh"
    script.write_text(script.read_text() + "exit 6\n")
    events = night()
    unstable = [event for event in events if event.startswith("@unstable ")]
    assert len(unstable) == 4
    assert all("environment could not run" in event for event in unstable)
    assert events[-1] == "@result UNSTABLE"
