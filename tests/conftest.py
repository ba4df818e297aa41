"""Fixtures that tests of several rooms share."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

# Tensors here are small: threads of several workers would only wait for one another. Set before torch is
# imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A busy machine is no failure.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def cases() -> Path:
    """The given cases: beside the checkout where they are there, else the copies kept with the tests."""
    beside = ROOT.parent / "shared" / "cases"
    return beside if beside.is_dir() else ROOT / "tests" / "data" / "cases"


@pytest.fixture(scope="session")
def goldens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One golden cache for all tests, as the nights of a checkout share one."""
    return tmp_path_factory.mktemp("goldens")


@pytest.fixture(scope="session")
def torch_installed() -> None:
    """Goldens are computed with torch; where it is not installed, a test that needs one is skipped."""
    if find_spec("torch") is None:
        pytest.skip("computing a golden needs torch, which is not installed")
