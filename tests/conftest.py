"""Fixtures that tests of several rooms share."""

from __future__ import annotations

import os
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
