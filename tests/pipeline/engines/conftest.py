"""What tests of the engines share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pipeline.engines.process import HELPERS


@pytest.fixture(scope="module", autouse=True)
def no_helper_is_left() -> Iterator[None]:
    """A module ends the processes that its engines keep, as a job does: other tests look for children."""
    yield
    HELPERS.close()
