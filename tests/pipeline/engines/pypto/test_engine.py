"""The engine with the stand-in: what it asks of PyPTO, and what it makes of the answers. No device test."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from golden import conv_pair, gemm
from golden.cache import Wanted, golden_for
from golden.geometry import C0, GemmGeometry, Geometry
from golden.specs import Array
from pipeline.engines.base import CompileError, InfrastructureError, Request
from pipeline.engines.pypto.engine import PyptoEngine, PyptoError
from pipeline.ground.jobs import Job, Lane, Platform, PlatformKind, State, WorkloadName
from pipeline.ground.memory import SENTINEL, sentinel_of
from pipeline.ground.results import Blame, JobContext, Metric, Source
from pipeline.work.stages import execute

CARDS = Platform("a5", "pypto", "a5", devices=(3,), kind=PlatformKind.CARD)
SIMULATOR = Platform("a2a3sim", "pypto", "a2a3", kind=PlatformKind.SIMULATOR)
ROWS = {"bias": np.int32, "scale": np.uint64}
MakeRequest = Callable[..., Request]
CODE = """\
1 function(s) failed to compile:

  Function  | Error
  ----------+--------------------------------------------------------------
  fused     | ptoas compilation failed: {}
  ----------+--------------------------------------------------------------
"""
OLD = """\
ptoas at '/opt/ptoas/bin/ptoas' is version 0.55, but PyPTO requires PTOAS >= v0.61.
Install PTOAS v0.61 or newer from https://github.com/hw-native-sys/PTOAS/releases"""


@pytest.fixture
def arrays(geometry: Geometry) -> dict[str, Array]:
    """Inputs of the fused program; their values do not matter to the stand-in."""
    c, planes = geometry.cmid, geometry.cin // C0
    tables = {f"{name}{number}": np.zeros((1, c), dtype) for number in (1, 2) for name, dtype in ROWS.items()}
    filters = {"filter1": geometry.depth1, "filter2": geometry.depth2}
    return {
        "x": np.zeros((planes * geometry.height * geometry.width, C0), np.int8),
        **{name: np.zeros((depth, c), np.int8) for name, depth in filters.items()},
        **tables,
    }


@pytest.fixture
def wanted(geometry: Geometry, tmp_path: Path) -> Path:
    """A file with some output of the fused program."""
    path = tmp_path / "y.npy"
    shape = (geometry.out_height * geometry.out_width, geometry.cout)
    np.save(path, np.random.default_rng(3).integers(-128, 128, shape).astype(np.int8))
    return path


def test_compiling_asks_for_the_platforms_backend(stand_in: Any, request_of: MakeRequest) -> None:
    request = request_of("fused", CARDS)
    compiled = PyptoEngine(stand_in.environment()).compile(request)
    (call,) = stand_in.calls()
    assert call["program"] == "FusedConv2d"
    assert (call["backend_type"], call["platform"], call["skip_ptoas"]) == ("Ascend950", "a5", True)
    assert {str(path.relative_to(request.folder)) for path in compiled.artefacts} == {
        "build/kernels/aic/fused.pto",
        "build/orchestration/main.cpp",
        "pypto.log",
    }
    assert all(path.is_file() for path in compiled.artefacts)
    assert compiled.facts["pypto"] == "hw-native-sys PyPTO 0.1.0 (commit 0123456789ab)"
    assert compiled.facts["ptoas"] == "none: kernels are left as .pto"
    assert len(compiled.facts["pto_sha256"]) == 64
    assert "No module named 'pypto.tools'" in compiled.facts["memory"]


def test_compiling_hands_over_to_ptoas_where_it_is(stand_in: Any, request_of: MakeRequest) -> None:
    stand_in.add("ptoas", "echo 'ptoas v0.57'")
    compiled = PyptoEngine(stand_in.environment()).compile(request_of("pass1", SIMULATOR))
    (call,) = stand_in.calls()
    assert (call["backend_type"], call["platform"], call["skip_ptoas"]) == ("Ascend910B", "a2a3sim", False)
    assert [path.name for path in compiled.artefacts if path.suffix == ".cpp"] == ["pass1.cpp", "main.cpp"]
    assert compiled.facts["ptoas"] == "v0.57"


def test_each_kernel_has_a_process_of_its_own(stand_in: Any, request_of: MakeRequest) -> None:
    engine = PyptoEngine(stand_in.environment())
    request = request_of("fused", CARDS)
    for name, platform in (("a", CARDS), ("b", SIMULATOR)):  # one process refuses a second backend
        folder = request.folder / name
        folder.mkdir()
        subject = replace(request.subject, soc=platform.soc)
        engine.compile(replace(request, subject=subject, platform=platform, folder=folder))
    first, second = stand_in.calls()
    assert first["pid"] != second["pid"]


@pytest.mark.parametrize(
    ("orders", "error", "message"),
    [
        (
            {"refuse_class": "Unknown pl.tile operation: x"},
            CompileError,
            r"^fused_conv2d\.py:\d+: InvalidOperationError: Unknown pl\.tile operation: x \(Check .*\)$",
        ),
        (
            {"refuse_compile": "Mat buffer usage (9 bytes) exceeds platform limit (8 bytes)\nCheck failed"},
            CompileError,
            r"^ValueError: Mat buffer usage \(9 bytes\) exceeds platform limit \(8 bytes\)$",
        ),
        (
            {"refuse_compile": "no addresses [/k/blocks.py:33:9]\n\nC++ Traceback:\n x"},
            CompileError,
            r"^blocks\.py:33: ValueError: no addresses \[/k/blocks\.py:33:9\]$",
        ),
        (
            {"refuse_code": CODE.format("loc(\"/b/ptoas/fused.pto\":62:203): error: expected ')'")},
            CompileError,
            r"to compile: ptoas compilation failed: loc\(.*fused\.pto\":62:203\): error: expected '\)'$",
        ),
        ({"refuse_code": CODE.format("")}, InfrastructureError, "^a tool of the toolchain crashed or hung: "),
        (
            {"refuse_compile": OLD},
            InfrastructureError,
            r"^parts of the toolchain .* do not fit each other: ValueError: ptoas at .* is version 0\.55, but"
            r" PyPTO requires PTOAS >= v0\.61\.$",
        ),
        (
            {"refuse_class": "No such file or directory: pl.tile.x"},
            CompileError,
            r"^fused_conv2d\.py:\d+: InvalidOperationError: ",
        ),
        ({"die": True}, InfrastructureError, "^PyPTO's process was ended by SIGSEGV while it compiled$"),
    ],
)
def test_what_compiling_ends_with_is_told_apart(
    stand_in: Any, request_of: MakeRequest, orders: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        PyptoEngine(stand_in.environment(**orders)).compile(request_of("fused", CARDS))
    assert re.search(message, str(caught.value).splitlines()[0])
    assert "C++ Traceback" not in str(caught.value)
    if isinstance(caught.value, InfrastructureError):
        assert caught.value.blames is Blame.HOST
    if isinstance(caught.value, CompileError):
        assert "pypto.log" in [path.name for path in caught.value.artefacts if path.is_file()]


def test_bands_that_cannot_be_tiled_are_refused_before_pypto_starts(
    stand_in: Any, request_of: MakeRequest
) -> None:
    with pytest.raises(CompileError, match="band_rows is 100: the output has 12 rows"):
        PyptoEngine(stand_in.environment()).compile(
            request_of("fused", CARDS, plan_options={"band_rows": 100})
        )
    assert not stand_in.record.exists()


def test_a_run_writes_the_output_in_place(
    stand_in: Any, request_of: MakeRequest, arrays: dict[str, Array], wanted: Path
) -> None:
    stand_in.add("ptoas", "echo 'ptoas 0.57'")
    engine = PyptoEngine(stand_in.environment(output=str(wanted)))
    executed = engine.run(request_of("fused", CARDS, device=3), arrays)
    assert np.array_equal(executed.outputs["y"], np.load(wanted))
    metrics = {metric.name: metric for metric in executed.metrics}
    model = executed.facts["device_model"]
    assert metrics["device_us"] == Metric("device_us", 120.5, "us", Source.DEVICE_CLOCK, model=model)
    assert metrics["timed_rounds"].value == 20
    assert model
    compiled, run, timed = stand_in.calls()
    assert compiled["skip_ptoas"] is False
    assert (run["platform"], run["device_id"]) == ("a5", 3)
    assert run["before"] == [SENTINEL]
    assert run["args"] == [
        ["torch.int8", 768, 32],
        ["torch.int8", 576, 64],
        ["torch.int32", 1, 64],
        ["torch.int64", 1, 64],
        ["torch.int8", 576, 64],
        ["torch.int32", 1, 64],
        ["torch.int64", 1, 64],
        ["torch.int8", 96, 64],
    ]
    assert (timed["platform"], timed["device_id"], timed["rounds"], timed["warmup"]) == ("a5", 3, 20, 3)


@pytest.mark.parametrize(
    ("orders", "error", "message"),
    [
        (
            {"refuse_run": "run failed: 507018\nstream 3"},
            InfrastructureError,
            "RuntimeError: run failed: 507018",
        ),
        ({"refuse_benchmark": "run failed: 507899"}, InfrastructureError, "run failed: 507899"),
        ({"refuse_run": "g++-15: error: 5070181 lines"}, PyptoError, "g++-15: error"),
        ({"refuse_run": "Segmentation fault (core dumped)"}, PyptoError, "RuntimeError: Segmentation fault"),
        ({"die_running": True}, PyptoError, "PyPTO's process was ended by SIGSEGV"),
    ],
)
def test_a_sick_device_is_no_fault_of_the_kernel(
    stand_in: Any,
    request_of: MakeRequest,
    arrays: dict[str, Array],
    orders: dict[str, Any],
    error: type[Exception],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stand_in.add("ptoas", "echo 'ptoas 0.57'")
    engine = PyptoEngine(stand_in.environment(**orders))
    with pytest.raises(error) as caught:
        engine.run(request_of("fused", CARDS, device=3), arrays)
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    if isinstance(caught.value, InfrastructureError):
        assert caught.value.blames is Blame.DEVICE
    assert orders.get("die_running") or next(iter(orders.values())) in capsys.readouterr().out


def test_a_run_that_the_host_stops_says_nothing_about_the_kernel(
    stand_in: Any, request_of: MakeRequest, arrays: dict[str, Array]
) -> None:
    stale = "Stale PTO-ISA runtime binaries: current pto_isa.pin requires 8f3, but installed runtimes were"
    stand_in.add("ptoas", "echo 'ptoas 0.57'")
    engine = PyptoEngine(stand_in.environment(refuse_run=f"{stale} built for 1c2.\nReinstall simpler"))
    with pytest.raises(InfrastructureError, match=f"RuntimeError: {stale} built for 1c2") as caught:
        engine.run(request_of("fused", CARDS, device=3), arrays)
    assert caught.value.blames is Blame.HOST


def test_a_run_on_cards_without_a_card_is_refused(stand_in: Any, request_of: MakeRequest) -> None:
    with pytest.raises(InfrastructureError, match="platform a5 runs on a card, but was given none"):
        PyptoEngine(stand_in.environment()).run(request_of("fused", CARDS), {})


def test_a_run_without_the_assembler_is_refused(stand_in: Any, request_of: MakeRequest) -> None:
    with pytest.raises(InfrastructureError, match="running kernels needs PTOAS; set PTOAS_ROOT"):
        PyptoEngine(stand_in.environment()).run(request_of("fused", SIMULATOR), {})


def job_on_simulator(workload: str, geometry: object, kernel: str) -> Job:
    shapes = msgspec.to_builtins(geometry)
    name = WorkloadName(workload)
    return Job("device/sim/1", Lane.DEVICE, SIMULATOR, name, "g", shapes, kernel, "small", 60.0)


def test_a_job_on_the_simulator_goes_through_the_stages(
    stand_in: Any, geometry: Geometry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Right outputs pass; where the runtime writes nothing, the sentinel shows."""
    pytest.importorskip("torch", reason="the golden needs it")
    golden = golden_for(Wanted(conv_pair.DEFINITION, geometry, "small", "vreq8"), tmp_path / "cache")
    stand_in.add("ptoas", "echo 'ptoas 0.57'")
    job = job_on_simulator("conv-pair", geometry, "fused")
    np.save(tmp_path / "y.npy", golden.outputs["y"])
    results = []
    for number, orders in enumerate(
        ({"output": str(tmp_path / "y.npy"), "refuse_benchmark": "No [STRACE] markers"}, {})
    ):
        for name, value in stand_in.environment(**orders).items():
            monkeypatch.setenv(name, value)
        results.append(execute(job, JobContext(tmp_path / str(number), None, tmp_path / "cache")))
    right, unwritten = results
    assert right.state is State.PASSED
    assert right.stages[0].facts["timing"] == "unavailable: RuntimeError: No [STRACE] markers"
    assert unwritten.state is State.MISMATCH
    assert Metric("host_us", 900.0, "us", Source.HOST_CLOCK) in unwritten.stages[0].metrics
    assert unwritten.stages[0].diffs[0].unwritten == np.count_nonzero(golden.outputs["y"] != SENTINEL)
    assert json.loads(stand_in.record.read_text().splitlines()[0])["platform"] == "a2a3sim"


# A matrix product

PRODUCT = GemmGeometry(64, 96, 32)


def test_a_matrix_product_compiles_without_the_assembler(stand_in: Any, request_of: MakeRequest) -> None:
    request = request_of("gemm", CARDS, workload="gemm", shapes=PRODUCT)
    compiled = PyptoEngine(stand_in.environment()).compile(request)
    (call,) = stand_in.calls()
    assert (call["program"], call["backend_type"], call["skip_ptoas"]) == ("Gemm", "Ascend950", True)
    assert request.folder / "build/kernels/aic/gemm.pto" in compiled.artefacts
    assert compiled.facts["ptoas"] == "none: kernels are left as .pto"


def test_a_matrix_product_on_the_simulator_gives_int32(
    stand_in: Any, tmp_path: Path, goldens: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A right product passes; where the runtime writes nothing, the sentinel of int32 shows."""
    stand_in.add("ptoas", "echo 'ptoas 0.57'")
    expected = golden_for(Wanted(gemm.DEFINITION, PRODUCT, "small", "vreq8"), goldens).outputs["c"]
    np.save(tmp_path / "c.npy", expected)
    job = job_on_simulator("gemm", PRODUCT, "gemm")
    results = []
    for number, orders in enumerate(({"output": str(tmp_path / "c.npy")}, {})):
        for name, value in stand_in.environment(**orders).items():
            monkeypatch.setenv(name, value)
        results.append(execute(job, JobContext(tmp_path / str(number), None, goldens)))
    right, unwritten = results
    assert (right.state, right.stages[0].diffs[0].count) == (State.PASSED, 64 * 32)
    assert unwritten.state is State.MISMATCH
    assert unwritten.stages[0].diffs[0].unwritten == 64 * 32
    run = next(call for call in stand_in.calls() if call["call"] == "execute_compiled")
    assert run["before"] == [sentinel_of(np.dtype(np.int32))]
    assert run["args"] == [["torch.int8", 64, 96], ["torch.int8", 96, 32], ["torch.int32", 64, 32]]


MINE = """\
from dataclasses import replace
from workloads.gemm import WORKLOAD as GEMM

WORKLOAD = replace(GEMM, definition=replace(GEMM.definition, name="mine"))
"""


def test_a_users_workload_is_compiled_from_its_file(
    stand_in: Any, request_of: MakeRequest, tmp_path: Path
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    request = request_of("gemm", CARDS, workload="gemm", shapes=PRODUCT)
    PyptoEngine(stand_in.environment()).compile(replace(request, workload=WorkloadName("mine", str(file))))
    assert [call["program"] for call in stand_in.calls()] == ["Gemm"]
