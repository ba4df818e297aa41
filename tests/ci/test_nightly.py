from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import junitparser
import pytest

pytestmark = pytest.mark.usefixtures("torch_installed")

Shell = Callable[..., subprocess.CompletedProcess[str]]

FAILS = "#!/usr/bin/env bash\nexit 7\n"
SAYS_NOTHING = "#!/usr/bin/env bash\nexit 0\n"

TELLS = """\
#!/usr/bin/env bash
# Says what it is called with; the run leaves a report and is red, and nobody can be told of it.
env > "environment-$2"
echo "$*" > "words-$2"
[ "$2" = device ] || exit 6
echo '<property name="run" value="20260310-040000-0000000001" /><property name="x" value="1" />' > "$5"
exit 1
"""


def test_a_night_leaves_a_report_and_a_summary(shell: Shell, checkout: Path) -> None:
    ended = shell("ci/nightly.sh reports --platform a2a3")
    assert ended.returncode == 0, ended.stderr
    report = junitparser.JUnitXml.fromfile(str(checkout / "reports" / "junit.xml"))
    assert (report.tests, report.failures, report.errors) == (1, 0, 0)
    assert (checkout / "reports" / "summary.md").read_text().startswith("## Passed: no job is red: 1 passed")


def test_without_a_folder_each_night_has_its_own(shell: Shell, checkout: Path) -> None:
    assert shell("cd ci && ./nightly.sh", NIGHTLY_SESSION="compile").returncode == 0
    (night,) = (checkout / "out" / "nights").iterdir()
    assert {path.name for path in night.iterdir()} == {
        "junit.xml",
        "summary.md",
        "results.json",
        "news.md",
    }


def test_the_folder_is_where_the_caller_says(shell: Shell, checkout: Path) -> None:
    ended = shell("mkdir elsewhere && cd elsewhere && ../ci/nightly.sh mine", NIGHTLY_SESSION="compile")
    assert ended.returncode == 0
    assert (checkout / "elsewhere" / "mine" / "junit.xml").exists()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("--inject bias-missing-1 --platform a2a3 --kernel fused", 1),
        ("--deadline 0.02 --platform a2a3", 2),
        ("--platform a3", 4),
        ("--platfrom a2a3", 4),
    ],
)
def test_the_pipelines_exit_code_is_the_nights(words: str, code: int, shell: Shell) -> None:
    assert shell(f"ci/nightly.sh reports {words}").returncode == code


def test_a_deadline_that_is_none_is_refused(shell: Shell) -> None:
    assert shell("ci/nightly.sh reports", NIGHTLY_DEADLINE="abc").returncode == 4


@pytest.mark.parametrize(("nox", "code"), [(FAILS, 7), (SAYS_NOTHING, 3)])
def test_last_nights_report_is_never_tonights(nox: str, code: int, shell: Shell, checkout: Path) -> None:
    """Set-up dies, or ends as if all were well and leaves nothing: red, and nothing old is found."""
    (checkout / "reports").mkdir()
    for name in ("junit.xml", "summary.md", "results.json", "news.md"):
        (checkout / "reports" / name).write_text("of last night")
    (checkout / ".venv" / "bin" / "nox").write_text(nox)
    ended = shell("ci/nightly.sh reports --platform a2a3")
    assert ended.returncode == code
    assert f"no report was written (exit code {code})" in ended.stderr
    assert [path.name for path in (checkout / "reports").iterdir()] == ["summary.md"]
    assert "Failed: no report was written" in (checkout / "reports" / "summary.md").read_text()


def test_nox_is_installed_where_there_is_none(shell: Shell, checkout: Path) -> None:
    """The stand-in for python3 knows `-m pip install` alone, so making the environment fails: that is red."""
    (checkout / ".venv" / "bin" / "nox").unlink()
    ended = shell("ci/nightly.sh reports")
    assert ended.returncode != 0
    assert "no report was written" in ended.stderr


def test_the_news_change_no_verdict_and_no_job_knows_where_they_go(shell: Shell, checkout: Path) -> None:
    (checkout / ".venv" / "bin" / "nox").write_text(TELLS)
    given = {"PIPELINE_WEBHOOK": "https://hooks.example/s3cret", "GITHUB_ACTIONS": "true"}
    ended = shell("cd ci && NIGHTLY_WEBHOOK_FILE=hook ./nightly.sh ../reports --output there", **given)
    assert ended.returncode == 1
    assert "not everybody was told of this night, see above; exit code 1 is that of the run" in ended.stderr
    said = [(checkout / f"words-{session}").read_text() for session in ("device", "notify")]
    assert "s3cret" not in ended.stdout + ended.stderr + "".join(said)
    assert "s3cret" not in (checkout / "environment-device").read_text()
    assert "PIPELINE_WEBHOOK=https://hooks.example/s3cret\n" in (checkout / "environment-notify").read_text()
    assert said[1] == (
        "-s notify -- 20260310-040000-0000000001 --output there "
        f"--markdown {checkout}/reports/news.md --annotations --webhook {checkout}/ci/hook\n"
    )


def test_an_address_that_kernels_would_see_is_refused(shell: Shell, checkout: Path) -> None:
    ended = shell("ci/nightly.sh reports", NIGHTLY_WEBHOOK="https://hooks.example/s3cret")
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (4, "", 1)
    assert "NIGHTLY_WEBHOOK_FILE" in ended.stderr
    assert "s3cret" not in ended.stderr
    assert not (checkout / "reports").exists()


def test_a_night_without_a_report_is_not_told_as_that_of_another_run(shell: Shell, checkout: Path) -> None:
    (checkout / ".venv" / "bin" / "nox").write_text(FAILS)
    assert shell("ci/nightly.sh reports").returncode == 7
    assert not (checkout / "reports" / "news.md").exists()


@pytest.mark.parametrize(
    "words",
    [
        "--baseline reports/junit.xml",
        "--baseline=reports/results.json --platform a2a3",
        "--baseline ./reports",
        "--baseline linked.json",
    ],
)
def test_a_night_does_not_remove_its_own_baseline(words: str, shell: Shell, checkout: Path) -> None:
    (checkout / "reports").mkdir()
    for name in ("junit.xml", "results.json"):
        (checkout / "reports" / name).write_text("of last night")
    (checkout / "linked.json").symlink_to("reports/results.json")
    ended = shell(f"ci/nightly.sh reports {words}")
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (4, "", 1)
    assert "this night's files take the place of it" in ended.stderr
    left = {path.name: path.read_text() for path in (checkout / "reports").iterdir()}
    assert left == {"junit.xml": "of last night", "results.json": "of last night"}
