"""Checkouts in which the scripts of `ci/` and the workflows can be run without installing anything."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

MATRIX = """\
geometries:
  tiny:
    {height: 16, width: 16, cin: 32, cmid: 32, cout: 32,
     conv1: {kernel: 3, stride: 1, padding: 1}, conv2: {kernel: 3, stride: 1, padding: 1}}
platforms:
  emu-a2a3: {backend: emulator, soc: a2a3}
  emu-a5: {backend: emulator, soc: a5}
  cann-a2a3: {backend: emulator, soc: a2a3}
  a2a3: {backend: emulator, soc: a2a3}
  a5: {backend: emulator, soc: a5}
lanes:
  compile:
    include: [{platforms: [emu-a2a3], geometries: [tiny], kernels: [fused]}]
  device:
    include:
      - platforms: [emu-a2a3, emu-a5, cann-a2a3, a2a3, a5]
        geometries: [tiny]
        kernels: [fused]
        profiles: [small]
"""
"""The platforms that the workflows name, all of them emulated."""

NOX = """\
#!/usr/bin/env bash
# Nox without its environment: the pipeline's command behind a session, in the tests' own interpreter.
[ "$1" = -s ] || exit 64
session=$2
[ "$3" = -- ] && shift 3
case $session in
  device) exec "$INTERPRETER" -m pipeline run "$@" ;;
  compile) exec "$INTERPRETER" -m pipeline compile "$@" ;;
  report | notify) exec "$INTERPRETER" -m pipeline "$session" "$@" ;;
  tests | portability-*) exec "$INTERPRETER" -m pytest "$@" ;;
esac
echo "nox $session" >> sessions
"""

PIP = """\
#!/usr/bin/env bash
# python3, of which the steps want nothing but to install Nox: it is there.
[ "$1 $2 $3" = "-m pip install" ]
"""

PYTHON = """\
#!/usr/bin/env bash
exec "$INTERPRETER" "$@"
"""

JUNIT2HTML = """\
#!/usr/bin/env bash
exec "$INTERPRETER" -m junit2htmlreport "$@"
"""

Shell = Callable[..., subprocess.CompletedProcess[str]]


def made(folder: Path, goldens: Path) -> Path:
    """A checkout with a tiny matrix and a stand-in for Nox; the pipeline is the real one."""
    programs, environment = folder / ".venv" / "bin", folder / ".nox" / "environment" / "bin"
    programs.mkdir(parents=True)
    environment.mkdir(parents=True)
    shutil.copytree(ROOT / "ci", folder / "ci")
    (folder / "matrix.yaml").write_text(MATRIX)
    (folder / "test_something.py").write_text("def test_something():\n    assert True\n")
    for program, text in (
        (programs / "nox", NOX),
        (programs / "python3", PIP),
        (environment / "python", PYTHON),
        (environment / "junit2html", JUNIT2HTML),
    ):
        program.write_text(text)
        program.chmod(0o755)
    (folder / "out").mkdir()
    (folder / "out" / "goldens").symlink_to(goldens)
    return folder


def shell_in(checkout: Path) -> Shell:
    """Runs text as a workflow's step is run: by bash, in the checkout, with the runner's options."""

    def run(text: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", text],
            cwd=checkout,
            env={
                **os.environ,
                "PATH": f"{checkout / '.venv' / 'bin'}:{os.environ['PATH']}",
                "PYTHONPATH": str(ROOT),
                "INTERPRETER": sys.executable,
                "PIPELINE_LOCKS": str(checkout / "locks"),
                # No repository: a file saved or committed meanwhile would make it another commit's night.
                "GIT_DIR": str(checkout / "none"),
                **environment,
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
        )

    return run


@pytest.fixture
def checkout(tmp_path: Path, goldens: Path) -> Path:
    """A checkout of the test's own, see `made`."""
    return made(tmp_path / "checkout", goldens)


@pytest.fixture
def shell(checkout: Path) -> Shell:
    """Runs a step in the checkout, see `shell_in`."""
    return shell_in(checkout)


@pytest.fixture(scope="session")
def parts(torch_installed: None, tmp_path_factory: pytest.TempPathFactory, goldens: Path) -> Path:
    """The reports of a night's parts, each in a folder of the part's name, made by the real script once."""
    folder = tmp_path_factory.mktemp("night") / "checkout"
    shell = shell_in(made(folder, goldens))
    emulated = "--platform emu-a2a3 --platform emu-a5 --platform cann-a2a3"
    words = {f"emulator-{number}": f"{emulated} --shard {number}/3" for number in (1, 2, 3)}
    for name, arguments in {**words, "device-a2a3": "--platform a2a3"}.items():
        ended = shell(f"ci/nightly.sh parts/{name} {arguments}")
        assert ended.returncode == 0, ended.stderr
        # Each part is on a host of its own: how long another's jobs took must not divide its jobs.
        shutil.rmtree(folder / "out" / "runs")
        (folder / "out" / "history.sqlite").unlink()
    return folder / "parts"


@pytest.fixture
def ready(parts: Path, checkout: Path) -> None:
    """The script of the night has done its work before: it copies the reports of a part."""
    script = checkout / "ci" / "nightly.sh"
    script.write_text(f'#!/usr/bin/env bash\nmkdir -p reports && cp -r "{parts}/$(basename "$1")" reports\n')


@pytest.fixture(scope="session")
def unable() -> Callable[[Path], None]:
    """Lets no platform of a checkout be available here, and each be required."""

    def make(checkout: Path) -> None:
        matrix = checkout / "matrix.yaml"
        cards = "{backend: pypto, kind: card, required: true,"
        matrix.write_text(matrix.read_text().replace("{backend: emulator,", cards))

    return make


HISTORY = "out/history.sqlite"
"""What a CI keeps from one night to the next."""


def tells_the_night(site: Path, verdict: str, jobs: int) -> bool:
    """Whether pages that are published are the dashboard of a merged night, with its report and results."""
    with (site / "jobs.csv").open() as file:
        listed = len(list(csv.DictReader(file)))
    pages = len(list((site / "jobs").glob("*.html")))
    names = {path.name for path in site.iterdir()}
    told = verdict in (site / "index.html").read_text()
    return told and listed == pages == jobs and names >= {"junit.xml", "results.json", "news.md"}
