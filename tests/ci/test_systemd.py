"""The service and the timer for a host without CI."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNITS = ROOT / "ci" / "systemd"
SERVICE, TIMER = "conv-pair-nightly.service", "conv-pair-nightly.timer"


def verified(home: Path) -> subprocess.CompletedProcess[str]:
    """What systemd says of the units in a home folder."""
    return subprocess.run(
        ["systemd-analyze", "verify", "--user", "--man=no", str(home / SERVICE), str(home / TIMER)],
        env={**os.environ, "HOME": str(home), "XDG_RUNTIME_DIR": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="needs systemd-analyze: apt-get install systemd"
)
def test_the_units_are_what_systemd_takes(tmp_path: Path) -> None:
    for name in (SERVICE, TIMER):
        shutil.copy(UNITS / name, tmp_path)
    (tmp_path / "conv-pair-pipeline").mkdir()
    (tmp_path / "conv-pair-pipeline" / "ci").symlink_to(ROOT / "ci")
    good = verified(tmp_path)
    assert (good.returncode, good.stderr) == (0, "")
    (tmp_path / "conv-pair-pipeline" / "ci").unlink()
    assert "is not executable" in verified(tmp_path).stderr


def test_a_stop_leaves_time_for_a_report_and_a_night_for_its_deadline() -> None:
    """The deadline of `ci/nightly.sh`, which ends a run with a report, is 6 h."""
    lines = (UNITS / SERVICE).read_text().splitlines()
    assert "TimeoutStartSec=7h" in lines
    assert not any(line.startswith("KillMode") for line in lines)  # the run itself gets the signal too


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ("0", "<6>the night is good"),
        ("6", "<4>the environment could not run everything; no kernel was found wrong (exit code 6)"),
        ("1", "<3>the night is red (1)"),
        ("KILL", "<3>the night is red (KILL)"),
        ("", "<3>the night is red (unknown)"),
    ],
)
def test_the_journal_tells_red_and_the_environment_apart(status: str, told: str) -> None:
    ended = subprocess.run(
        [UNITS / "conclude.sh"], env={"EXIT_STATUS": status}, capture_output=True, text=True, check=True
    )
    assert ended.stdout == f"{told}\n"
