"""Fixtures that tests of several rooms share."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def cases() -> Path:
    """The given cases: beside the checkout where they are there, else the copies kept with the tests."""
    beside = ROOT.parent / "shared" / "cases"
    return beside if beside.is_dir() else ROOT / "tests" / "data" / "cases"
