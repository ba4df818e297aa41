"""Fixtures that tests of several rooms share."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Tensors here are small: threads of several workers would only wait for one another. Set before torch is
# imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The tests must not write to a user's own history.
os.environ.pop("PIPELINE_HISTORY", None)

# A busy machine is no failure.
settings.register_profile("no deadline", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no deadline")

ROOT = Path(__file__).resolve().parents[1]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests come first: else one worker would still do them when the others have ended."""
    items.sort(key=lambda item: item.path != ROOT / "tests" / "test_recipes.py")
    if os.environ.get("WITHOUT_THOROUGH_TESTS"):
        left_out = pytest.mark.skip(reason="takes long: nox -s tests runs it, .ci/run does not")
        for item in items:
            if item.get_closest_marker("thorough"):
                item.add_marker(left_out)


@pytest.fixture(scope="session")
def cases() -> Path:
    """The given cases: beside the checkout where they are there, else the copies kept with the tests."""
    beside = ROOT.parent / "shared" / "cases"
    return beside if beside.is_dir() else ROOT / "tests" / "data" / "cases"


ROUNDINGS: tuple[tuple[int, float, int, int, int, int], ...] = (
    (8388607, 2.0**-24, 1, 2, 2, 1),  # 1.5 - 2**-24 is no fp32 number: the sum becomes 1.5
    (37748737, 2.0**-23, 0, 4, 4, 5),  # 4.5 * 2**23 + 1 is none: the accumulator becomes 4.5 * 2**23
    (38074442, float.fromhex("0x1.3b8p-19"), 0, 89, 89, 89),  # 89.4999985; 90 if the accumulator rounds away
    (12445173, float.fromhex("0x1.844p-22"), 0, 4, 4, 5),
    (969066810, float.fromhex("0x1.97cp-27"), 1, 12, 12, 13),
    (3651698, float.fromhex("0x1.08cp-14"), -231, 0, -1, -1),
    (-179168754, float.fromhex("0x1.a68p-22"), 79, 8, 9, 9),
    (92021392, float.fromhex("0x1.198p-20"), -80, 16, 17, 17),
    (-40399346, float.fromhex("0x1.5e8p-19"), 96, -10, -9, -10),
    (27748233, float.fromhex("0x1.f10p-18"), -218, -12, -13, -12),
)


@pytest.fixture(scope="session", params=ROUNDINGS, ids=str)
def rounding(request: pytest.FixtureRequest) -> tuple[int, float, int, Mapping[str, int]]:
    """Accumulator, scale, offset, and what `vreq8`, `fma` and `exact` make of them.

    In each, some step of `vreq8` rounds across a tie, or would if it rounded otherwise. The values are those
    of exact arithmetic, by hand or by `in_fractions`.
    """
    acc, scale, offset, *values = request.param
    return acc, scale, offset, dict(zip(("vreq8", "fma", "exact"), values, strict=True))


@pytest.fixture(scope="session")
def in_fractions() -> Callable[[int, float, int, str], int]:
    """What `vreq8`, `fma` and `exact` round to, not saturated, in exact arithmetic."""

    def fp32(value: Fraction) -> Fraction:
        if not value:
            return value
        exponent = math.frexp(value)[1]  # a double is near enough, except just below a power of two
        exponent -= abs(value) < Fraction(2) ** (exponent - 1)
        last = Fraction(2) ** max(exponent - 24, -149)
        return round(value / last) * last

    def rounded(acc: int, scale: float, offset: int, variant: str) -> int:
        if variant == "exact":
            return round(acc * Fraction(scale) + offset)
        product = fp32(Fraction(acc)) * Fraction(scale)
        return round(fp32((product if variant == "fma" else fp32(product)) + offset))

    return rounded


@pytest.fixture(scope="session")
def goldens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One golden cache for all tests and workers, as the nights of a checkout share one."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "goldens"
    folder.mkdir(exist_ok=True)
    return folder


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
            if type(self).__module__.partition(".")[0] in (
                "emulator",
                "golden",
                "kernels",
                "workloads",
                "pipeline",
            ):
                assert not REPR.search(str(self)), f"a refusal holds a repr: {self}"

        return read

    with pytest.MonkeyPatch.context() as patch:
        for parent in (KernelError, UserError, LayoutError):
            patch.setattr(parent, "__init__", reading(parent.__init__))
        yield
