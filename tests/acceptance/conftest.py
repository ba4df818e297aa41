"""The pipeline as its users meet it: a folder with a matrix, a command line, files that come out of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import junitparser
import matplotlib  # noqa: F401 (imported before the stand-in can be found)
import pytest

from pipeline.commands.cli import main

ROOT = Path(__file__).parents[2]
NO_PICTURES = str(ROOT / "tests" / "data" / "no-pictures")

MATRIX = """\
geometries:
  pair-24x16:
    {height: 24, width: 16, cin: 64, cmid: 64, cout: 64,
     tile_positions1: 16, k_step1: 64, tile_positions2: 16, k_step2: 32,
     conv1: {kernel: 3, stride: 2, padding: 1}, conv2: {kernel: 3, stride: 1, padding: 1}}
  bands:
    {height: 48, width: 32, cin: 32, cmid: 32, cout: 32,
     band_rows: 8, tile_positions1: 16, k_step1: 32, tile_positions2: 16, k_step2: 32,
     conv1: {kernel: 3, stride: 2, padding: 1}, conv2: {kernel: 3, stride: 1, padding: 1}}
platforms:
  emu-a2a3: {backend: emulator, soc: a2a3, devices: [0, 1]}
  emu-a5: {backend: emulator, soc: a5, devices: [0, 1]}
  a2a3: {backend: pypto, kind: card, soc: a2a3, devices: [0]}
lanes:
  compile:
    include:
      - platforms: [emu-a2a3, emu-a5]
        geometries: [pair-24x16, bands]
        kernels: &kernels [fused, two-pass, first-tile-load, first-tile-packed, first-tile-fused-alloc]
  device:
    timeout: 2m
    include:
      - platforms: [emu-a2a3, a2a3]
        geometries: [pair-24x16, bands]
        kernels: *kernels
        profiles: [small, ties]
  compare:
    timeout: 2m
"""

TWO, ONE = "devices: [0, 1]", "devices: [0]"

STAGES = (
    "fused",
    "first-tile-load",
    "first-tile-packed",
    "first-tile-fused-alloc",
    "pass1",
    "pass2-on-golden-mid",
    "pass2-on-own-mid",
    "two-pass-vs-fused",
)


@dataclass(frozen=True)
class Outcome:
    """What a command gave back."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class ReadCase:
    """One test case as a consumer of JUnit reads it; `kind` is the outcome's tag, or `passed`."""

    kind: str
    message: str
    body: str
    out: str
    properties: Mapping[str, str]


Pipeline = Callable[..., Outcome]
Report = Callable[[Path], Mapping[str, ReadCase]]


@pytest.fixture
def workspace(tmp_path: Path, goldens: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with a matrix in it, to work in; device locks and golden cache are the tests' own.

    Emulated platforms have one device here, so that a job that fails is not tried on a second one, and the
    pictures of a mismatch are empty.
    """
    monkeypatch.syspath_prepend(NO_PICTURES)
    monkeypatch.setenv("PYTHONPATH", NO_PICTURES)
    folder = tmp_path / "workspace"
    (folder / "out").mkdir(parents=True)
    (folder / "out" / "goldens").symlink_to(goldens)
    (folder / "matrix.yaml").write_text(MATRIX.replace(TWO, ONE))
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PIPELINE_LOCKS", str(tmp_path / "locks"))
    # No repository: a file saved or committed meanwhile would make it another commit's run.
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "none"))
    for name in ("PIPELINE_PYTHON", "PIPELINE_HISTORY", "TASK_DEVICE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIPELINE_HISTORY", "off")  # writing it takes as long as the run of a job
    return folder


@pytest.fixture
def recorded(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are written to the history of their folder."""
    monkeypatch.delenv("PIPELINE_HISTORY")


@pytest.fixture
def drawn(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pictures of a mismatch are drawn."""
    sys.path.remove(NO_PICTURES)
    monkeypatch.delenv("PYTHONPATH")


@pytest.fixture
def two_devices(workspace: Path) -> None:
    """Emulated platforms have two devices."""
    (workspace / "matrix.yaml").write_text(MATRIX)


@pytest.fixture
def pipeline(workspace: Path, capsys: pytest.CaptureFixture[str]) -> Pipeline:
    """`python -m pipeline` with these words, in this process."""

    def call(*words: object) -> Outcome:
        capsys.readouterr()
        try:
            code = main([str(word) for word in words])
        except SystemExit as leaving:  # argparse's way out
            code = int(leaving.code or 0)
        written = capsys.readouterr()
        return Outcome(code, written.out, written.err)

    return call


@pytest.fixture
def refused(pipeline: Pipeline) -> Callable[..., str]:
    """Call what must be refused with exit code 4; gives its only line."""

    def call(*words: object) -> str:
        outcome = pipeline(*words)
        assert (outcome.code, outcome.out) == (4, "")
        line = outcome.err.removesuffix("\n")
        assert line
        assert line.isprintable()
        return line

    return call


@pytest.fixture
def start(workspace: Path) -> Callable[..., subprocess.Popen[str]]:
    """Start `python -m pipeline` in a process of its own."""

    def call(
        *words: object, folder: Path = workspace, source: Path = ROOT, stdout: int = subprocess.PIPE
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "pipeline", *map(str, words)],
            cwd=folder,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(source), *filter(None, [os.environ.get("PYTHONPATH")])]),
            },
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
        )

    return call


@pytest.fixture(scope="session")
def report() -> Report:
    """Read a JUnit file with a consumer's library: its cases by job id, its totals checked."""

    def read(path: Path) -> Mapping[str, ReadCase]:
        parsed = junitparser.JUnitXml.fromfile(str(path))
        cases: dict[str, ReadCase] = {}
        for suite in parsed:
            properties = {each.name: each.value for each in suite.properties()}  # type: ignore[no-untyped-call]
            for case in suite:
                (outcome,) = case.result or (None,)
                kind = "passed" if outcome is None else type(outcome).__name__.lower()
                message, body = (outcome.message, outcome.text or "") if outcome is not None else ("", "")
                assert case.name not in cases
                cases[case.name] = ReadCase(kind, message, body, case.system_out or "", properties)
        kinds = [case.kind for case in cases.values()]
        assert parsed.tests == len(kinds)
        assert parsed.failures == kinds.count("failure")
        assert parsed.errors == kinds.count("error")
        assert sum(suite.skipped for suite in parsed) == kinds.count("skipped")
        return cases

    return read


@pytest.fixture
def last_run(workspace: Path) -> Callable[[], Path]:
    """The folder of the workspace's latest run."""
    return lambda: max((workspace / "out" / "runs").iterdir())


@pytest.fixture(scope="session")
def stages() -> tuple[str, ...]:
    """The comparison stages, in order."""
    return STAGES
