"""PyPTO's own interpreter has the standard library, NumPy and what PyPTO brings, and nothing of ours."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pipeline.engines.process import child_environment
from workloads.registry import SHIPPED, workload_named

EVERY_MODULE = [
    "pipeline.engines.pypto.worker",
    "pipeline.engines.pypto.inquiry",
    *SHIPPED.values(),
    *sorted(
        {
            str(program.factory).partition(":")[0]
            for name in SHIPPED
            for program in workload_named(name).programs
        }
    ),
]


@pytest.mark.parametrize("module", EVERY_MODULE)
def test_what_the_child_imports_needs_numpy_alone(module: str, bare_python: Path) -> None:
    said = subprocess.run(
        [bare_python, "-c", f"import {module}"],
        env=child_environment({"PATH": "/usr/bin:/bin"}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (said.returncode, said.stderr) == (0, "")


@pytest.mark.parametrize("package", ["msgspec", "torch", "yaml", "pypto"])
def test_the_bare_environment_has_nothing_else(package: str, bare_python: Path) -> None:
    said = subprocess.run(
        [bare_python, "-c", f"import {package}"], env={}, capture_output=True, text=True, check=False
    )
    assert f"No module named '{package}'" in said.stderr
