"""The backend with the real package, where `PIPELINE_TEST_PYPTO_PYTHON` names an interpreter that has it.

Compile-only, without PTOAS: the package's own parser, passes and code generation. No kernel runs here.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from golden.geometry import GemmGeometry
from pipeline.engines.base import CompileError, Request
from pipeline.engines.identity import Framework
from pipeline.engines.pypto import toolchain
from pipeline.engines.pypto.engine import PyptoEngine
from pipeline.ground.jobs import Platform, PlatformKind, WorkloadName
from workloads.registry import workload_named

VARIABLE = "PIPELINE_TEST_PYPTO_PYTHON"
PYTHON = os.environ.get(VARIABLE, "")
NEEDED = ("tile.img2col", "tile.fixpipe_requant", "tile.fixpipe_store")

WIDE = """\
from dataclasses import replace
from workloads.gemm import WORKLOAD as GEMM

WORKLOAD = replace(
    GEMM,
    definition=replace(GEMM.definition, name="wide"),
    plan=lambda geometry, limits, options: GEMM.plan(geometry, replace(limits, l1=2 * limits.l1), options),
)
"""

PRODUCT = GemmGeometry(256, 64, 32)
MakeRequest = Callable[..., Request]

pytestmark = pytest.mark.skipif(not PYTHON, reason=f"{VARIABLE} names no Python with hw-native-sys PyPTO")


def cards(soc: str) -> Platform:
    return Platform(soc, "pypto", soc, kind=PlatformKind.CARD)


@pytest.fixture
def environment() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "PIPELINE_PYTHON": PYTHON}


@pytest.fixture
def product_of(request_of: Callable[..., Request]) -> Callable[..., Request]:
    """A request of the matrix product for a chip's cards."""

    def make(soc: str = "a2a3", geometry: GemmGeometry = PRODUCT) -> Request:
        return request_of("gemm", cards(soc), workload="gemm", shapes=geometry)

    return make


def test_it_is_identified_and_its_missing_operators_are_named(environment: dict[str, str]) -> None:
    installed = toolchain.inquire(environment)
    assert installed.framework is Framework.HW_NATIVE_SYS
    assert {"load", "move", "tile.extract", "tile.matmul_acc"} <= set(installed.operators)
    missing = [f"pl.{name}" for name in NEEDED if name not in installed.operators]
    found = toolchain.available(cards("a5"), workload_named("conv-pair"), ["fused"], True, environment)
    assert found.reason == (f"{installed.description} has no {', '.join(missing)}" if missing else "")


@pytest.mark.parametrize(("soc", "l0c"), [("a2a3", 131072), ("a5", 262144)])
def test_a_matrix_product_is_available_and_compiles(
    environment: dict[str, str], product_of: MakeRequest, soc: str, l0c: int
) -> None:
    assert toolchain.available(cards(soc), workload_named("gemm"), ["gemm"], True, environment)
    request = product_of(soc)
    compiled = PyptoEngine(environment).compile(request)
    left = {str(path.relative_to(request.folder)) for path in compiled.artefacts}
    assert {"build/kernels/aic/gemm.pto", "build/orchestration/main.cpp"} <= left
    assert all(path.is_file() for path in compiled.artefacts)
    assert not (request.folder / "build" / "passes_dump").exists()
    # All of a, 256 x 64, and of b, 64 x 32, in int8; an ACC tile in int32. PyPTO may hold two of a tile.
    plan = request.subject.plan
    least = {"l1": 256 * 64 + 64 * 32, "l0c": plan.tile_m * plan.tile_n * 4}
    peaks = {metric.name: metric for metric in compiled.metrics}
    for memory, size in (("l1", 524288), ("l0c", l0c)):
        assert peaks[f"{memory}_peak"].limit == size
        assert peaks[f"{memory}_peak"].value >= least[memory]


def test_a_compilation_is_the_same_again(environment: dict[str, str], product_of: MakeRequest) -> None:
    request = product_of()
    facts = []
    for name in ("first", "again"):
        folder = request.folder / name
        folder.mkdir()
        facts.append(PyptoEngine(environment).compile(replace(request, folder=folder)).facts)
    assert facts[0] == facts[1]


def test_a_memory_over_capacity_is_refused_with_the_bytes(
    environment: dict[str, str], request_of: MakeRequest, tmp_path: Path
) -> None:
    """A user's workload plans for a chip with twice the L1."""
    file = tmp_path / "wide.py"
    file.write_text(WIDE)
    request = replace(
        request_of("gemm", cards("a2a3"), workload="gemm", shapes=GemmGeometry(16384, 64, 32)),
        workload=WorkloadName("wide", str(file)),
    )
    with pytest.raises(CompileError) as caught:
        PyptoEngine(environment).compile(request)
    text = str(caught.value)
    assert text.startswith("ValueError: Mat buffer usage (")
    assert "exceeds platform limit (524288 bytes)" in text


def test_our_kernels_are_refused_where_an_operator_is_missing_at_the_line_that_needs_it(
    environment: dict[str, str], request_of: MakeRequest
) -> None:
    if set(NEEDED) <= set(toolchain.inquire(environment).operators):
        pytest.skip("this PyPTO has every operator")
    with pytest.raises(CompileError, match=r"^(fused_conv2d|blocks)\.py:\d+: InvalidOperationError: "):
        PyptoEngine(environment).compile(request_of("fused", cards("a2a3")))
