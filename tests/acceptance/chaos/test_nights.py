"""The script of ten nights, narrowed to few jobs; the session `chaos` runs it, for it takes minutes."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
GEOMETRIES = ("conv-5x5", "gemm-128", "gemm-tall", "pair-24x16")
KERNELS = ("conv", "gemm", "fused")
PROFILES = ("small", "full-range@7")


@pytest.mark.skipif("CHAOS_JOBS" not in os.environ, reason="takes minutes: nox -s chaos runs it")
@pytest.mark.skipif(find_spec("pypto") is None, reason="needs CANN PyPTO: a night is one in which it is gone")
@pytest.mark.usefixtures("torch_installed")
def test_ten_nights_are_answered_as_they_were_made(tmp_path: Path) -> None:
    filters = {"--geometry": GEOMETRIES, "--kernel": KERNELS, "--profile": PROFILES}
    words = [word for option, names in filters.items() for name in names for word in (option, name)]
    command = [sys.executable, "-m", "benchmarks.nights", str(tmp_path / "nights"), *words]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.count("ok    exit code") == 10
    assert "WRONG" not in ended.stdout
