"""An environment with the stand-in for PyPTO, and one without anything."""

from __future__ import annotations

import json
import shutil
import sysconfig
import venv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from golden.geometry import Conv, Geometry
from pipeline.engines.base import Request
from pipeline.ground.jobs import Platform, WorkloadName
from pipeline.ground.subject import Subject
from workloads.registry import workload_named

DATA = Path(__file__).parents[3] / "data"


@dataclass(frozen=True)
class StandIn:
    """`python` has the stand-in; `bin` is a folder for executables; `record` is where calls are written."""

    python: Path
    bin: Path
    record: Path

    def environment(self, **orders: object) -> dict[str, str]:
        """An environment in which the pipeline finds it, told what to do (see its `_orders.py`)."""
        return {
            "PATH": f"{self.bin}:/usr/bin:/bin",
            "PIPELINE_PYTHON": str(self.python),
            "PYPTO_STAND_IN": json.dumps({"record": str(self.record), **orders}),
        }

    def calls(self) -> list[dict[str, Any]]:
        """The calls recorded so far."""
        return [json.loads(line) for line in self.record.read_text().splitlines()]

    def add(self, name: str, script: str = "exit 0") -> Path:
        """Put an executable on the environment's PATH."""
        path = self.bin / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has NumPy and nothing else: what PyPTO's own need not bring."""
    home = tmp_path_factory.mktemp("bare") / "env"
    venv.EnvBuilder(symlinks=True).create(home)
    installed = Path(sysconfig.get_path("purelib"))
    site = Path(sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)}))
    for package in installed.iterdir():
        if package.name.startswith("numpy"):
            (site / package.name).symlink_to(package)
    return home / "bin" / "python"


@pytest.fixture(scope="session")
def stand_in_python(tmp_path_factory: pytest.TempPathFactory, bare_python: Path) -> Path:
    """The Python of an environment that has the stand-in as well."""
    home = tmp_path_factory.mktemp("stand-in") / "env"
    shutil.copytree(bare_python.parents[1], home, symlinks=True)
    (site,) = home.glob("lib/python*/site-packages")
    for package in (DATA / "pypto-stand-in").iterdir():
        if package.is_dir():
            shutil.copytree(package, site / package.name)
    return home / "bin" / "python"


@pytest.fixture
def stand_in(stand_in_python: Path, tmp_path: Path) -> StandIn:
    """The stand-in, for one test."""
    return StandIn(stand_in_python, tmp_path / "bin", tmp_path / "calls.jsonl")


@pytest.fixture(scope="session")
def geometry() -> Geometry:
    """A pair of one band: 24 x 16 pixels, 64 channels."""
    return Geometry(24, 16, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1))


@pytest.fixture
def request_of(tmp_path: Path, geometry: Geometry) -> Callable[..., Request]:
    """`request_of(program, platform, ...)`: a request with a folder of its own."""

    def make(
        program: str,
        platform: Platform,
        *,
        workload: str = "conv-pair",
        shapes: Any = geometry,
        plan_options: Mapping[str, int] | None = None,
        device: int | None = None,
    ) -> Request:
        folder = tmp_path / "request"
        folder.mkdir()
        subject = Subject(workload_named(workload), shapes, platform.soc, plan_options or {})
        return Request(program, WorkloadName(workload), subject, platform, folder, device)

    return make
