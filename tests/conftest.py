"""Fixtures that tests of several rooms share."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

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


REPR = re.compile(
    r"\b[A-Z]\w*\(\w+=|<[\w.]+(?:: | object\b| at 0x)|<(?:class|function|module) "
    r"|\b(?:dtype|array|np\.\w+|frozenset|mappingproxy|\w*Path)\(|\b(?:DType|Space|Role)\.\w|\(\d+,\)"
)
"""Dataclasses, members of enums, objects, NumPy's dtypes and scalars, shapes of one dimension."""


@pytest.fixture(scope="session", autouse=True)
def no_refusal_holds_a_repr() -> Iterator[None]:
    """Every refusal that a test provokes in these packages is read: one that holds a repr fails that test."""
    from emulator.errors import KernelError
    from golden.errors import UserError
    from golden.layout import LayoutError

    def reading(init: Callable[..., None]) -> Callable[..., None]:
        def read(self: Exception, *arguments: Any) -> None:
            init(self, *arguments)
            if type(self).__module__.partition(".")[0] in ("emulator", "golden", "kernels"):
                assert not REPR.search(str(self)), f"a refusal holds a repr: {self}"

        return read

    with pytest.MonkeyPatch.context() as patch:
        for parent in (KernelError, UserError, LayoutError):
            patch.setattr(parent, "__init__", reading(parent.__init__))
        yield
