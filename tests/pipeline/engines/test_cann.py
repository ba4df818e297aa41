"""The CANN engine with the real package: every test compiles, in processes of its own."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from golden import conv, conv_pair, gemm
from golden.definition import Definition
from golden.geometry import MC62, Conv, ConvGeometry, GemmGeometry, Geometry
from golden.inputs import load_inputs
from golden.specs import Array
from kernels.tensor import programs
from kernels.tensor.plan import plan_path, read_plan
from pipeline.engines.base import (
    CompileError,
    Done,
    InfrastructureError,
    NotSupportedError,
    Request,
)
from pipeline.engines.cache import user_cache
from pipeline.engines.cann import child
from pipeline.engines.cann.child import Order, Work
from pipeline.engines.cann.engine import CannEngine
from pipeline.engines.cann.readings import COST_REPORT, read_cycles
from pipeline.ground.jobs import Job, Lane, Platform, State, WorkloadName
from pipeline.ground.results import JobContext, Metric, Source
from pipeline.ground.subject import Subject
from pipeline.work.stages import execute
from workloads.base import Workload
from workloads.registry import workload_named

PLATFORM = Platform("cann-a2a3", backend="cann", soc="a2a3")
PAIR = Geometry(24, 16, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1))
STRIDED = Geometry(22, 18, 32, 64, 32, Conv(3, 1, 1), Conv(3, 2, 1))

run_child = child.run

WORKLOAD = workload_named("conv-pair")
AVAILABLE = CannEngine().probe(PLATFORM, WORKLOAD, ["fused"])

pytestmark = pytest.mark.skipif(not AVAILABLE, reason=AVAILABLE.reason)

Requests = Callable[..., Request]


def asked(program: str, geometry: Any, workload: str, folder: Path) -> Request:
    subject = Subject(workload_named(workload), geometry, PLATFORM.soc)
    return Request(program, WorkloadName(workload), subject, PLATFORM, folder)


@pytest.fixture
def request_for(tmp_path: Path) -> Requests:
    """Makes a request in an empty folder of its own."""

    def make_request(program: str, geometry: Any = PAIR, workload: str = "conv-pair") -> Request:
        folder = tmp_path / "request"
        folder.mkdir()
        return asked(program, geometry, workload, folder)

    return make_request


@pytest.fixture
def mutated(tmp_path: Path) -> Callable[[str, str], CannEngine]:
    """Makes an engine whose kernels differ from ours in one place."""

    def engine(before: str, after: str) -> CannEngine:
        source = Path(programs.__file__).read_text()
        assert source.count(before) == 1
        path = tmp_path / "mutated.py"
        path.write_text(source.replace(before, after))
        return CannEngine(kernels=path)

    return engine


def inputs_of(profile: str, geometry: Geometry) -> dict[str, Array]:
    """A profile's inputs of every program, the golden's mid among them."""
    tensors = conv_pair.DEFINITION.make(profile, geometry)
    return {**tensors.arrays("vreq8"), "mid": conv_pair.compute(geometry, tensors, "vreq8")["mid"]}


@pytest.mark.parametrize(
    ("platform", "workload", "programs", "reason"),
    [
        (replace(PLATFORM, soc="a5"), WORKLOAD, ["fused"], "CANN PyPTO compiles for a2a3, not for a5"),
        (
            replace(PLATFORM, variant="half-away"),
            WORKLOAD,
            ["fused"],
            "the tensor-level kernels requantise as vreq8, not as half-away",
        ),
        (
            PLATFORM,
            WORKLOAD,
            ["pass1", "first-tile-load"],
            "there is no tensor-level version of first-tile-load",
        ),
        (
            PLATFORM,
            replace(workload_named("gemm"), tensor_level=None),
            ["gemm"],
            "there is no tensor-level version of gemm",
        ),
    ],
)
def test_what_it_cannot_do_is_said_with_a_remedy(
    platform: Platform, workload: Workload, programs: list[str], reason: str
) -> None:
    available = CannEngine().probe(platform, workload, programs)

    assert not available
    assert available.reason == reason
    assert available.remedy


@pytest.mark.parametrize(
    ("cache", "home", "folder"),
    [
        ("/cache", "/home", "/cache"),
        ("", "/home", "/home/.cache"),
        ("relative", "/home", "/home/.cache"),
        ("", "relative", None),
    ],
)
def test_the_cache_is_the_user_s_and_its_path_absolute(
    monkeypatch: pytest.MonkeyPatch, cache: str, home: str, folder: str | None
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", cache)
    monkeypatch.setenv("HOME", home)

    assert user_cache("cann") == (folder and Path(folder) / "conv-pair-pipeline" / "cann")


def test_a_user_without_a_home_can_compile_and_is_told_what_verifying_needs(
    monkeypatch: pytest.MonkeyPatch, request_for: Requests
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("os.getuid", lambda: 4_000_000_000)  # no entry of the user database
    engine = CannEngine()

    available = engine.probe(PLATFORM, WORKLOAD, ["fused"])

    assert "has no home" in available.reason
    assert available.remedy == "set HOME or XDG_CACHE_HOME to an absolute path"
    assert engine.probe(PLATFORM, WORKLOAD, ["fused"], compile_only=True)
    with pytest.raises(InfrastructureError, match=r"has no home.*; set HOME"):
        engine.run(request_for("pass1"), inputs_of("small", PAIR))


def test_a_geometry_that_fits_no_tile_is_not_supported(request_for: Requests) -> None:
    wide = Geometry(8, 8, 32, 32, 2040, Conv(1, 1, 0), Conv(1, 1, 0))

    with pytest.raises(NotSupportedError, match=r"2048 output channels: .* \(packed: cout 2040 -> 2048\)$"):
        CannEngine().compile(request_for("fused", wide))


@dataclass(frozen=True)
class Compilation:
    """One compilation of `fused`: its folder, what it gave, and the home and working folder it had."""

    folder: Path
    compiled: Done
    home: Path
    working: Path


@pytest.fixture(scope="module")
def compilation(tmp_path_factory: pytest.TempPathFactory) -> Compilation:
    """Compiles once for the tests that look at what that gives."""
    folder, home, working = (tmp_path_factory.mktemp(name) for name in ("request", "home", "working"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.chdir(working)
        engine = CannEngine(cache=tmp_path_factory.mktemp("cache"))
        compiled = engine.compile(asked("fused", PAIR, "conv-pair", folder))
    return Compilation(folder, compiled, home, working)


@pytest.fixture
def costed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every program costs 1000 cycles: the cost model is left out, for what it says is not looked at."""

    def run(order: Order, scratch: Path) -> Path:
        if order.work is not Work.COST:
            return run_child(order, scratch)
        report = scratch / COST_REPORT
        report.parent.mkdir()
        report.write_text("Total Cycles: 1000\n")
        return scratch

    monkeypatch.setattr(child, "run", run)


def test_compiling_leaves_the_program_its_code_and_its_cost_and_nothing_else(
    compilation: Compilation,
) -> None:
    left = {path for path in compilation.folder.rglob("*") if path.is_file()}

    assert left == set(compilation.compiled.artefacts)
    assert {path.name for path in left if path.parent == compilation.folder} == {"program.json", "cost.txt"}
    assert any("L1" in path.read_text() for path in left if path.parent.name == "aicore")
    assert [*compilation.home.iterdir(), *compilation.working.iterdir()] == []


def test_traffic_and_use_are_read_from_the_compiled_program(compilation: Compilation) -> None:
    metrics = {metric.name: metric for metric in compilation.compiled.metrics}
    size = {name: metric.value for name, metric in metrics.items()}

    # Vector tiles have 48 rows. y takes 3 of them (12 rows of 10 columns, garbage included); windows reach 22
    # rows of the canvas further, so that takes 4.
    rows, out_rows = 4 * 48, 3 * 48
    assert size["gm_read.columns"] == rows * PAIR.depth1
    assert size["mid_gm_written"] == 9 * rows * PAIR.cmid
    assert size["mid_gm_read"] == out_rows * PAIR.depth2
    assert size["gm_written.y"] == out_rows * PAIR.cout
    assert size["gm_written.internal"] == (rows * PAIR.cmid + out_rows * PAIR.cout) * 4
    assert metrics["l0a_peak"].limit == 65_536
    assert metrics["cycles"].value > 0
    assert (metrics["cycles"].unit, metrics["cycles"].source) == ("cycles", Source.COST_MODEL)


@pytest.mark.thorough
def test_compiling_again_gives_the_same_program_and_cycles(
    compilation: Compilation, request_for: Requests
) -> None:
    again = CannEngine().compile(request_for("fused"))
    assert (again.facts, again.metrics) == (compilation.compiled.facts, compilation.compiled.metrics)


@pytest.mark.parametrize(
    ("case", "program"),
    [("full-range", "fused"), ("full-range", "pass1"), ("full-range", "pass2"), ("ties", "fused")],
)
@pytest.mark.thorough
def test_given_cases_come_out_as_the_other_implementation_computed_them(
    cases: Path, request_for: Requests, compilation: Compilation, case: str, program: str
) -> None:
    path = cases / f"conv-pair-24x16-{case}.npz"
    with np.load(path) as arrays:
        expected = {name: arrays[name] for name in ("mid", "y")}
    inputs = {**load_inputs(path, conv_pair.specs(PAIR)).arrays("vreq8"), "mid": expected["mid"]}

    executed = CannEngine().run(request_for(program), inputs)

    (name,) = executed.outputs
    assert name == ("mid" if program == "pass1" else "y")
    assert np.array_equal(executed.outputs[name], expected[name])
    assert executed.problems == ()
    verdicts = {key: value for key, value in executed.facts.items() if key.startswith("verdict.")}
    assert verdicts["verdict.tensor_graph"] == "pass"
    assert len(verdicts) > 1
    assert set(verdicts.values()) == {"pass"}
    passes = len(verdicts)
    assert Metric("accepted_passes", passes, "passes", Source.VERIFIER, passes) in executed.metrics
    if program == "fused":  # what is verified is the program that is compiled
        other = {"accepted_passes", "cycles"}
        measured, compiled = (
            {metric for metric in done.metrics if metric.name not in other}
            for done in (executed, compilation.compiled)
        )
        assert measured == compiled
        assert executed.facts["tiling"] == compilation.compiled.facts["tiling"]


@pytest.mark.parametrize("program", ["fused", "pass2"])
@pytest.mark.thorough
def test_a_strided_second_convolution_is_exact(request_for: Requests, program: str) -> None:
    """Offsets of this profile are negative too."""
    tensors = conv_pair.DEFINITION.make("full-range@7", STRIDED)
    golden = conv_pair.compute(STRIDED, tensors, "vreq8")
    inputs = {**tensors.arrays("vreq8"), "mid": golden["mid"]}

    executed = CannEngine().run(request_for(program, STRIDED), inputs)

    assert np.array_equal(executed.outputs["y"], golden["y"])
    assert executed.problems == ()


def compile_job(workload: str, geometry: Any, kernel: str) -> Job:
    name, shapes = WorkloadName(workload), msgspec.to_builtins(geometry)
    lane, profile = Lane.COMPILE, "full-range@7"
    return Job(
        f"compile/cann-a2a3/p/{kernel}", lane, PLATFORM, name, "p", shapes, kernel, profile, timeout=60
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("CastMode.CAST_RINT", "CastMode.CAST_FLOOR"),
        ("-128.0, 127.0", "-128.0, 126.0"),
        ("pypto.add(pypto.mul(exact, scale), offset)", "pypto.mul(exact, scale)"),
    ],
    ids=["rounding", "clip", "offset"],
)
@pytest.mark.usefixtures("costed")
@pytest.mark.thorough
def test_a_mutated_kernel_compiles_and_fails_its_compile_job(
    mutated: Callable[[str, str], CannEngine],
    before: str,
    after: str,
    tmp_path: Path,
    goldens: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = mutated(before, after)
    monkeypatch.setattr("pipeline.engines.cann.engine.CannEngine", lambda: engine)

    result = execute(compile_job("conv-pair", PAIR, "fused"), JobContext(tmp_path / "job", None, goldens))

    compiled, verified = result.stages
    assert (compiled.name, compiled.state) == ("fused", State.PASSED)
    assert "cycles" in {metric.name for metric in compiled.metrics}
    assert (verified.name, verified.state, result.state) == ("verify-fused", State.MISMATCH, State.MISMATCH)
    assert verified.facts["verdict.tensor_graph"] == "fail"
    assert "; the verifier rejects tensor_graph: off by up to " in result.message
    assert verified.diffs[0].mismatches > 0
    assert {"inputs.npz", "fused/cost.txt", "verify-fused/actual-y.npy", "verify-fused/verdicts.csv"} <= set(
        result.files
    )
    assert all((tmp_path / "job" / path).is_file() for path in result.files)


def test_rows_that_a_kernel_never_writes_fail_its_verification(
    request_for: Requests, mutated: Callable[[str, str], CannEngine]
) -> None:
    write = "pypto.assemble(saturated(pypto, value), [row, 0], output)"
    engine = mutated(write, f"if row > 0:\n            {write}")

    executed = engine.run(request_for("pass1"), inputs_of("full-range@7", PAIR))

    assert executed.facts["verdict.tensor_graph"] == "fail"


def test_a_tile_over_its_memory_is_refused_with_the_compiler_s_reason(
    request_for: Requests, mutated: Callable[[str, str], CannEngine]
) -> None:
    large = Geometry(45, 32, 32, 64, 32, Conv(3, 2, 1), Conv(3, 1, 1))
    engine = mutated(
        "set_cube_tiles(pypto, tiles.cube_rows, columns, tiles)",
        "pypto.set_cube_tile_shapes([left.shape[0]] * 2, [tiles.k_depth] * 2, [columns] * 2)",
    )
    request = request_for("pass1", large)

    with pytest.raises(CompileError, match=r"^Alloc tensor .* exceeds MEM_L0A size \[65536\]") as refused:
        engine.compile(request)

    assert [path.name for path in request.folder.iterdir()] == ["code.log"]
    assert refused.value.artefacts == (request.folder / "code.log",)


@pytest.mark.parametrize("mode", [", pypto.CastMode.CAST_ROUND", ", pypto.CastMode.CAST_ODD", ""])
def test_a_rounding_that_the_verifier_mistakes_is_refused(
    request_for: Requests, mutated: Callable[[str, str], CannEngine], mode: str
) -> None:
    """On a card these round half away from zero, to odd and towards zero; verified, all are half to even."""
    engine = mutated(", pypto.CastMode.CAST_RINT", mode)
    name = mode.rpartition(".")[2] or "CAST_NONE"

    with pytest.raises(CompileError, match=rf"^mutated\.py:\d+: cast from fp32 to int32 with {name}: "):
        engine.compile(request_for("pass1"))


def test_a_program_that_leaves_a_tensor_is_refused_though_the_compiler_accepts_it(
    request_for: Requests, mutated: Callable[[str, str], CannEngine]
) -> None:
    engine = mutated("pypto.cast(pypto.cast(tile, pypto.DT_FP16), pypto.DT_INT8)", "tile")

    with pytest.raises(CompileError, match=r"^mid: the compiled program addresses \[214, 576\] of it in GM"):
        engine.compile(request_for("pass2"))


def test_a_compiler_that_dies_is_no_verdict_on_the_kernel(
    request_for: Requests, mutated: Callable[[str, str], CannEngine]
) -> None:
    engine = mutated(
        "from typing import Any\n", "import os\nfrom typing import Any\nos.kill(os.getpid(), 9)\n"
    )

    with pytest.raises(InfrastructureError, match="was ended by SIGKILL"):
        engine.compile(request_for("pass1"))


@pytest.mark.parametrize("tool", ["g++", "ld", "objcopy"])
def test_a_broken_tool_of_the_host_is_no_verdict_on_the_kernel(
    request_for: Requests, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tool: str
) -> None:
    (tmp_path / tool).write_text(f"#!/bin/sh\necho '{tool}: out of order' >&2\nexit 1\n")
    (tmp_path / tool).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    with pytest.raises(InfrastructureError, match=f" host part: {re.escape(tool)}: out of order$"):
        CannEngine().compile(request_for("pass1"))


def test_the_child_is_in_the_process_group_of_its_job(
    request_for: Requests, mutated: Callable[[str, str], CannEngine], tmp_path: Path
) -> None:
    record = tmp_path / "group"
    line = f"import os\nopen({str(record)!r}, 'w').write(str(os.getpgid(0)))\nraise SystemExit(3)\n"

    with pytest.raises(InfrastructureError, match="ended with exit code 3"):
        mutated("from typing import Any\n", line).compile(request_for("pass1"))

    assert int(record.read_text()) == os.getpgid(0)


@pytest.mark.parametrize(("kernel", "limit"), [(("fused",), 115_000), (("pass1", "pass2"), 125_000)])
@pytest.mark.thorough
def test_the_reference_geometry_costs_no_more_than_asked(
    tmp_path: Path, kernel: tuple[str, ...], limit: int
) -> None:
    tilings = read_plan(plan_path(MC62))
    source = Path(programs.__file__)
    orders = [
        Order(Work.COST, name, WorkloadName("conv-pair"), MC62, tilings[name], str(source)) for name in kernel
    ]

    assert sum(read_cycles(child.run(order, tmp_path / order.program)) for order in orders) <= limit


# One convolution and a matrix product

CONV, PRODUCT = ConvGeometry(20, 17, 32, 96, Conv(5, 2, 1)), GemmGeometry(160, 96, 320)


def test_a_single_convolution_compiles_to_a_vector_and_a_cube_part(request_for: Requests) -> None:
    compiled = CannEngine().compile(request_for("conv", CONV, "conv"))
    values = {metric.name: metric.value for metric in compiled.metrics}

    positions = 9 * 8  # output rows x columns
    assert values["gm_read.columns"] == positions * 25 * 32
    assert values["gm_written.y"] == positions * 96
    assert values["cycles"] > 0
    assert not [name for name in values if name.startswith("mid_")]


def test_a_matrix_product_writes_its_sums_from_the_cube(request_for: Requests) -> None:
    compiled = CannEngine().compile(request_for("gemm", PRODUCT, "gemm"))
    values = {metric.name: metric.value for metric in compiled.metrics}

    assert values["gm_written.c"] == 160 * 320 * 4
    assert [name for name in values if name.startswith("gm_written.")] == ["gm_written.c"]
    assert "ub_peak" not in values
    assert values["cycles"] > 0


@pytest.mark.parametrize(
    ("definition", "geometry", "profile"),
    [
        (conv.DEFINITION, CONV, "full-range@7"),
        (conv.DEFINITION, ConvGeometry(12, 10, 64, 32, Conv(1, 1, 0)), "ties"),
        (gemm.DEFINITION, PRODUCT, "full-range@7"),
        (gemm.DEFINITION, PRODUCT, "extremes"),
    ],
)
def test_kernels_of_one_program_verify_exactly(
    request_for: Requests, definition: Definition, geometry: Any, profile: str
) -> None:
    tensors = definition.make(profile, geometry)

    executed = CannEngine().run(
        request_for(definition.name, geometry, definition.name), tensors.arrays("vreq8")
    )

    expected = definition.compute(geometry, tensors, "vreq8")
    assert executed.outputs.keys() == expected.keys()
    for name, output in executed.outputs.items():
        assert output.dtype == expected[name].dtype
        assert np.array_equal(output, expected[name])
    assert executed.problems == ()
    assert executed.facts["verdict.tensor_graph"] == "pass"


@pytest.mark.parametrize(
    ("workload", "geometry", "before", "after"),
    [
        ("conv", CONV, "pypto.add(pypto.mul(exact, scale), offset)", "pypto.mul(exact, scale)"),
        (
            "gemm",
            PRODUCT,
            "pypto.assemble(pypto.matmul(a, b, pypto.DT_INT32), [0, 0], c)",
            "pypto.assemble(pypto.matmul(a, a, pypto.DT_INT32, b_trans=True), [0, 0], c)",
        ),
    ],
)
@pytest.mark.usefixtures("costed")
def test_a_wrong_kernel_of_one_program_is_caught_by_its_compile_job(
    mutated: Callable[[str, str], CannEngine],
    workload: str,
    geometry: Any,
    before: str,
    after: str,
    tmp_path: Path,
    goldens: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = mutated(before, after)
    monkeypatch.setattr("pipeline.engines.cann.engine.CannEngine", lambda: engine)

    result = execute(compile_job(workload, geometry, workload), JobContext(tmp_path / "job", None, goldens))

    assert [(stage.name, stage.state) for stage in result.stages] == [
        (workload, State.PASSED),
        (f"verify-{workload}", State.MISMATCH),
    ]
    assert "; the verifier rejects tensor_graph: off by up to " in result.message
    assert result.stages[1].diffs[0].mismatches > 0
