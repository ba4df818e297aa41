"""The backend with the real package, where `PIPELINE_TEST_PYPTO_PYTHON` names an interpreter that has it.

Compile-only, without PTOAS: the package's own parser, passes and code generation. No kernel runs here.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from golden.geometry import Conv, Geometry
from pipeline.engines.base import CompileError, Request
from pipeline.engines.identity import Framework
from pipeline.engines.pypto import toolchain
from pipeline.engines.pypto.engine import PyptoEngine
from pipeline.engines.pypto.messages import Fault, Order, Reply, decode_reply, encode
from pipeline.ground.jobs import Metric, Platform, PlatformKind, Source

VARIABLE = "PIPELINE_TEST_PYPTO_PYTHON"
PYTHON = os.environ.get(VARIABLE, "")
WORKER = Path(__file__).parents[3] / "data" / "pypto-public" / "worker.py"
NEEDED = ("tile.img2col", "tile.fixpipe_requant", "tile.fixpipe_store")

pytestmark = pytest.mark.skipif(not PYTHON, reason=f"{VARIABLE} names no Python with hw-native-sys PyPTO")


@pytest.fixture
def environment() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "PIPELINE_PYTHON": PYTHON}


@pytest.fixture
def order(tmp_path: Path) -> Order:
    small = Geometry(16, 16, 32, 32, 32, Conv(3, 1, 1), Conv(3, 1, 1))
    return Order("gemm", small, "a2a3", "a2a3", None, tmp_path, assemble=False)


@pytest.fixture
def perform(environment: dict[str, str]) -> Callable[[Order], Reply]:
    """Have the worker do an order under the real package's interpreter."""

    def work(order: Order) -> Reply:
        order.folder.mkdir(exist_ok=True)
        path = order.folder / "order.json"
        path.write_text(encode(order))
        said = subprocess.run(
            [PYTHON, str(WORKER), str(path)],
            env=toolchain.child_environment(environment),
            capture_output=True,
            text=True,
            check=True,
        )
        return decode_reply(said.stdout.strip().rpartition("\n")[2])

    return work


def test_it_is_identified_and_its_missing_operators_are_named(environment: dict[str, str]) -> None:
    installed = toolchain.inquire(environment)
    assert installed.framework is Framework.HW_NATIVE_SYS
    assert {"load", "move", "tile.extract", "tile.matmul_acc"} <= set(installed.operators)
    missing = [f"pl.{name}" for name in NEEDED if name not in installed.operators]
    found = toolchain.available(
        Platform("a5", "pypto", "a5", kind=PlatformKind.CARD), ["fused"], True, environment
    )
    assert found.reason == (f"{installed.description} has no {', '.join(missing)}" if missing else "")


@pytest.mark.parametrize(("soc", "l0c"), [("a2a3", 131072), ("a5", 262144)])
def test_a_kernel_of_public_operators_compiles(
    perform: Callable[[Order], Reply], order: Order, soc: str, l0c: int
) -> None:
    reply = perform(replace(order, soc=soc, platform=soc))
    assert reply.failure is None
    assert {"build/kernels/aic/gemm.pto", "build/orchestration/main.cpp"} <= set(reply.artefacts)
    assert all((order.folder / name).is_file() for name in reply.artefacts)
    assert not (order.folder / "build" / "passes_dump").exists()
    # 256 rows of x and a 32 x 32 filter in int8, a row of bias.
    peak = Metric("l1_peak", 256 * 32 + 32 * 32 + 32 * 4, "B", Source.COMPILER, 524_288)
    assert peak in reply.metrics
    used, _, limit = reply.facts["l0c_peak"].partition(" of ")
    assert limit == str(l0c)
    assert int(used) >= 16 * 32 * 4  # PyPTO may hold two of the tiles


def test_a_compilation_is_the_same_again(perform: Callable[[Order], Reply], order: Order) -> None:
    first = perform(replace(order, folder=order.folder / "first"))
    again = perform(replace(order, folder=order.folder / "again"))
    assert first.facts["pto_sha256"] == again.facts["pto_sha256"]


def test_a_memory_over_capacity_is_refused_with_the_bytes(
    perform: Callable[[Order], Reply], order: Order
) -> None:
    large = Geometry(192, 96, 32, 32, 32, Conv(3, 1, 1), Conv(3, 1, 1))
    reply = perform(replace(order, geometry=large))
    assert reply.failure is not None
    assert reply.failure.fault is Fault.REFUSED
    assert reply.failure.text.startswith("ValueError: Mat buffer usage (")
    assert "exceeds platform limit (524288 bytes)" in reply.failure.text


def test_our_kernels_are_refused_where_an_operator_is_missing_at_the_line_that_needs_it(
    environment: dict[str, str], tmp_path: Path
) -> None:
    if set(NEEDED) <= set(toolchain.inquire(environment).operators):
        pytest.skip("this PyPTO has every operator")
    geometry = Geometry(24, 16, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1))
    request = Request("fused", geometry, Platform("a2a3", "pypto", "a2a3", kind=PlatformKind.CARD), tmp_path)
    with pytest.raises(CompileError, match=r"^(fused_conv2d|blocks)\.py:\d+: InvalidOperationError: "):
        PyptoEngine(environment).compile(request)
