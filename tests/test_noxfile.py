"""The sessions, run by Nox on stand-ins for the programs that they call."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

RECORDS = """\
#!/usr/bin/env bash
echo "${0##*/} $*" >> calls
[ -z "$EXIT_CODES" ] || exit "$(sed -n "$(wc -l < calls)p" <<< "$EXIT_CODES")"
"""
ENDS_IN_ITS_OWN_TIME = """\
#!/usr/bin/env bash
trap 'sleep 1; echo ended > ended; exit 2' INT
echo ready
while true; do sleep 0.05; done
"""

TELL = """\
import runpy, types
noxfile = runpy.run_path("noxfile.py")
noxfile["warn_of_gpu_build"](types.SimpleNamespace(warn=print))
"""

INSTALL = """\
import json, os, runpy, sys, types
from nox.command import CommandFailed
calls = []
def run(*command, external, success_codes=()):
    calls.append(command)
    if os.environ.get("REACHES") == "nothing":
        raise CommandFailed
noxfile = runpy.run_path("noxfile.py")
session = types.SimpleNamespace(run=run, warn=lambda line: calls.append([line]))
noxfile[sys.argv[1]](session)
print(json.dumps(calls))
"""

Nox = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The noxfile beside an environment that is up to date and whose programs only record their calls."""
    for name in ("noxfile.py", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    made_from = (ROOT / "pyproject.toml").read_bytes() + sys.version.encode()
    programs = tmp_path / ".nox" / "environment" / "bin"
    programs.mkdir(parents=True)
    (programs.parent / "made-from").write_text(hashlib.sha256(made_from).hexdigest())
    for name in ("python", "zizmor", "shellcheck"):
        (programs / name).write_text(RECORDS)
        (programs / name).chmod(0o755)
    return tmp_path


@pytest.fixture
def nox(checkout: Path) -> Nox:
    def start(*words: str, exit_codes: Sequence[int] = ()) -> subprocess.Popen[str]:
        """Nox, with the exit codes of the programs that it calls one after another."""
        return subprocess.Popen(
            [sys.executable, "-m", "nox", "--no-error-on-missing-interpreters", *words],
            cwd=checkout,
            env={**os.environ, "EXIT_CODES": "\n".join(map(str, exit_codes))},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            # A job in the background of a script is started with SIGINT ignored, and hands that on.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    return start


def ended(process: subprocess.Popen[str]) -> int:
    out, _ = process.communicate(timeout=60)
    assert "Traceback" not in out
    return process.returncode


@pytest.mark.parametrize(
    ("words", "call"),
    [
        (["device"], "python -m pipeline run"),
        (["device", "--", "--geometry", "mc62"], "python -m pipeline run --geometry mc62"),
        (["compile", "--", "--jobs", "1"], "python -m pipeline compile --jobs 1"),
        (["compare", "--", "--stage", "tile"], "python -m pipeline compare --stage tile"),
        (["report"], "python -m pipeline report show"),
        (["history", "--", "new"], "python -m pipeline history new"),
        (["report", "--", "merge", "a", "b"], "python -m pipeline report merge a b"),
        (["tests", "--", "tests/golden"], "python -m pytest -n auto --dist worksteal tests/golden"),
        (["typecheck"], "python -m mypy"),
        (["bench", "--", "list_start"], "python -m benchmarks.list_start"),
        (["mutants", "--", "gather"], "python -m benchmarks.mutants gather"),
        (["nights", "--", "folder"], "python -m benchmarks.nights folder"),
        (["cluster", "--", "-x"], "python -m pytest tests/pipeline/run/cluster -x"),
    ],
)
def test_arguments_reach_what_a_session_calls(words: list[str], call: str, nox: Nox, checkout: Path) -> None:
    assert ended(nox("-s", *words)) == 0
    assert (checkout / "calls").read_text() == f"{call}\n"


def test_lint_covers_code_workflows_and_scripts(nox: Nox, checkout: Path) -> None:
    assert ended(nox("-s", "lint")) == 0
    calls = [line.split() for line in (checkout / "calls").read_text().splitlines()]
    assert [call[0] for call in calls] == ["python", "python", "zizmor", "shellcheck"]
    assert [call[2] for call in calls[:2]] == ["ruff", "ruff"]
    scripts = {str(script.relative_to(ROOT)) for script in (ROOT / "ci").rglob("*.sh")}
    assert {"ci/nightly.sh", "ci/slurm.sh"} < scripts
    assert {*calls[3][1:]} == {*scripts, ".ci/run"}


@pytest.mark.parametrize("session", ["compile", "device", "compare", "report"])
@pytest.mark.parametrize("code", [1, 2, 6])
def test_the_pipelines_exit_code_is_noxs(session: str, code: int, nox: Nox) -> None:
    assert ended(nox("-s", session, exit_codes=[code])) == code


@pytest.mark.parametrize(
    ("codes", "worst"), [((6, 0), 6), ((6, 1), 1), ((1, 6), 1), ((1, 2), 2), ((3, 1), 3), ((0, 5), 5)]
)
def test_a_red_session_keeps_none_from_running_and_the_worst_exit_code_is_noxs(
    codes: tuple[int, int], worst: int, nox: Nox, checkout: Path
) -> None:
    process = nox("-s", "device", "compare", exit_codes=codes)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == worst
    calls = ["python -m pipeline run", "python -m pipeline compare"]
    assert (checkout / "calls").read_text().splitlines() == calls
    for name, code in zip(("device", "compare"), codes, strict=True):
        assert (f"{name} (exit code {code})" in out) == (code != 0)


def test_a_pipeline_that_was_killed_is_told_as_one_that_failed(nox: Nox, checkout: Path) -> None:
    (checkout / ".nox" / "environment" / "bin" / "python").write_text("#!/usr/bin/env bash\nkill -9 $$\n")
    assert ended(nox("-s", "device", "compare")) == 3


def test_failing_tests_fail_the_session(nox: Nox) -> None:
    assert ended(nox("-s", "tests", exit_codes=[1])) == 1


def test_ctrl_c_lets_the_pipeline_end(nox: Nox, checkout: Path) -> None:
    (checkout / ".nox" / "environment" / "bin" / "python").write_text(ENDS_IN_ITS_OWN_TIME)
    process = nox("-s", "device")
    assert process.stdout
    assert any(line == "ready\n" for line in process.stdout)
    os.killpg(process.pid, signal.SIGINT)
    assert ended(process) != 0
    assert (checkout / "ended").exists()


@pytest.mark.parametrize(("needs", "warnings"), [("nvidia-cudnn-cu13", 1), ("sympy", 0)])
def test_a_gpu_build_of_torch_is_told_loudly(needs: str, warnings: int, checkout: Path) -> None:
    installed = (
        checkout / ".nox" / "environment" / "lib" / "python3.11" / "site-packages" / "torch-9.dist-info"
    )
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text(f"Name: torch\nVersion: 9.0\nRequires-Dist: {needs}\n")
    told = subprocess.run(
        [sys.executable, "-c", TELL], cwd=checkout, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert len(told) == warnings
    assert all("torch 9.0 is a GPU build" in line and "PIPELINE_TORCH_INDEX" in line for line in told)


@pytest.mark.parametrize("named", ["", "https://mirror.example/cpu"])
def test_the_cpu_build_of_torch_is_asked_for_first_and_nobody_waits_for_it(
    named: str, checkout: Path
) -> None:
    index = named or "https://download.pytorch.org/whl/cpu"
    asked, *rest = _installed(checkout, PIPELINE_TORCH_INDEX=named)
    assert rest == []
    assert asked[asked.index("--index-url") + 1] == index
    assert asked[asked.index("--retries") + 1] == "0"
    assert "--timeout" in asked
    pinned = next(
        line for line in (ROOT / "pyproject.toml").read_text().split('"') if line.startswith("torch==")
    )
    assert asked[-1] == pinned
    # A host that cannot reach it goes on with its own index.
    again, (warning,) = _installed(checkout, PIPELINE_TORCH_INDEX=named, REACHES="nothing")
    assert again == asked
    assert index in warning
    assert "PIPELINE_TORCH_INDEX" in warning


def test_a_new_environment_has_the_cpu_build_before_all_else(checkout: Path) -> None:
    """What is there already stays: the packages come from the default index, which has GPU builds."""
    own = checkout / ".nox" / "environment"
    (own / "made-from").unlink()
    (own / "lib" / "python3" / "site-packages").mkdir(parents=True)
    make, cpu_build, packages, compiled = _installed(checkout, "environment")
    assert make[1:] == ["-m", "venv", "--clear", str(own.relative_to(checkout))]
    assert "--index-url" in cpu_build
    assert cpu_build[-1].startswith("torch==")
    assert "--index-url" not in packages
    assert packages[-2:] == ["-e", ".[dev]"]
    assert "compileall" in compiled
    assert _installed(checkout, "environment") == [], "it is up to date"


def _installed(checkout: Path, session: str = "install_cpu_build", **environment: str) -> list[list[str]]:
    """The commands and warnings of a session's function, called with a stand-in for the session."""
    told = subprocess.run(
        [sys.executable, "-c", INSTALL, session],
        cwd=checkout,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    calls: list[list[str]] = json.loads(told.stdout)
    return calls
