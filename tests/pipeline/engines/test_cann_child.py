"""What CANN PyPTO prints where it refuses a kernel; the excerpts are from the real package."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from golden.geometry import Conv, ConvGeometry
from kernels.tensor.plan import Product
from pipeline.engines.base import InfrastructureError
from pipeline.engines.cann import child
from pipeline.engines.cann.child import Order, Work, host_failure_in, reasons_in
from pipeline.engines.cann.worker import shapes_of
from pipeline.ground.jobs import WorkloadName
from pipeline.ground.subject import Subject
from workloads.registry import workload_named

OVER_CAPACITY = """\
[ERROR] PYPTO(12901):2026-11-30 20:17:05.852 [schedule_base.h:347][PASS]:[OoOScheduleBase.Operation]:Alloc tensor [51] size [67584] exceeds MEM_L0A size [65536]!
[ERROR] PYPTO(12901):2026-11-30 20:17:05.852 [schedule_base.h:348][PASS]:[OoOScheduleBase.Operation]:Tensor [51] producer info:
[ERROR] PYPTO(12901):2026-11-30 20:17:05.852 [pass.cpp:79][PASS]:[Pass.Function]:Run pass [OoOSchedule] failed.
\x1b[1m\x1b[95mINTERNAL BUG\x1b[0m \x1b[1m/kernels/pair.py:1:0:\x1b[0m Errcode: FFFFFF!
Run pass failed., func CompileFunction, file host_machine.cpp, line 179
pypto.frontend.parser.error.RenderedParserError: Errcode: FFFFFF!
"""  # noqa: E501

CODE_GENERATION = """\
[ERROR] PYPTO(13006):2026-11-30 20:17:07.994 [error.h:38][FUNCTION]:Caught exception: Errcode: F0EE49!
unsupported type, dstDtypeStr: int8_t, func GenDupOp, file codegen_vector.cpp, line 173
Caught exception: 'Errcode: F0EE49!
unsupported type, dstDtypeStr: int8_t, func GenDupOp, file codegen_vector.cpp, line 173
'
"""

FRONT_END = """\
ERROR:root:Record function k failed: NameError: name 'nosuchname' is not defined
\x1b[1m\x1b[91mERROR\x1b[0m \x1b[1m/kernels/pair.py:11:13:\x1b[0m NameError: name 'nosuchname' is not defined
Traceback (most recent call last):
pypto.frontend.parser.error.ParserError: NameError: name 'nosuchname' is not defined
"""

SIGNATURE = """\
Traceback (most recent call last):
pypto.frontend.parser.error.RenderedParserError: ValueError: Return annotation is not allowed.
"""

HOST_COMPILER = """\
[ERROR] PYPTO(23191):2026-12-01 00:31:36.966 [error.h:38][FUNCTION]:Caught exception: Errcode: F3FFFF!
, func CompileSourceCode, file symbolic_scalar.cpp, line 43
libtile_fwk_interface.so(npu::tile_fwk::CompileSourceCode(std::string const&)+0xa25) [0x7f34b2418775]
"""

HOST_LINKER = """\
\x1b[1m\x1b[95mINTERNAL BUG\x1b[0m \x1b[1m/kernels/pair.py:1:0:\x1b[0m Errcode: F3FFFF!
, func CompileAndLoadSection, file symbolic_scalar.cpp, line 101
pypto.frontend.parser.error.RenderedParserError: Errcode: F3FFFF!
"""


@pytest.mark.parametrize(("log", "tool"), [(HOST_COMPILER, "g++"), (HOST_LINKER, "ld or objcopy")])
@pytest.mark.parametrize(
    "said",
    [
        "g++: fatal error: cannot execute cc1plus: No such file",
        "sh: 1: g++: not found",
        "/tmp/ccA.s: Fatal error: can't write 40 bytes to section .data of a.o: 'No space left on device'",
        "ld: final link failed: No space left on device",
        "Killed",
    ],
)
def test_a_tool_of_the_host_that_fails_is_quoted_and_no_fault_of_the_kernel(
    log: str, tool: str, said: str
) -> None:
    failure = f"{tool} on PATH fails to build the kernel's host part"

    assert host_failure_in(f"Total Core:73\n{said}\n{log}") == f"{failure}: {said}"
    assert host_failure_in(log) == f"{failure}: it printed no error"


def test_code_that_the_host_s_compiler_refuses_is_the_kernel_s_fault() -> None:
    refused = "/output/control_flow.cpp:7:3: error: 'nosuch' was not declared in this scope"
    log = f"{refused}\n{HOST_COMPILER}"

    assert not host_failure_in(log)
    assert reasons_in(log)[0] == refused


@pytest.mark.parametrize(
    ("log", "first"),
    [
        (OVER_CAPACITY, "Alloc tensor [51] size [67584] exceeds MEM_L0A size [65536]!"),
        (
            CODE_GENERATION,
            "unsupported type, dstDtypeStr: int8_t, func GenDupOp, file codegen_vector.cpp, line 173",
        ),
        (FRONT_END, "/kernels/pair.py:11:13: NameError: name 'nosuchname' is not defined"),
        (SIGNATURE, "ValueError: Return annotation is not allowed."),
    ],
)
def test_the_first_reason_is_the_true_one(log: str, first: str) -> None:
    assert reasons_in(log)[0] == first
    assert not host_failure_in(log)


def test_what_follows_from_it_comes_after_it_and_once() -> None:
    assert reasons_in(OVER_CAPACITY)[1:] == ["Tensor [51] producer info:", "Run pass [OoOSchedule] failed."]
    assert len(reasons_in(CODE_GENERATION)) == 1


def test_a_process_that_was_killed_gives_no_reason() -> None:
    assert reasons_in("Total Core:73\n[INFO ] PYPTO(1):2026-11-30 [a.cpp:1][VERIFY]:PASS\n") == []


def test_a_host_out_of_memory_is_no_fault_of_the_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line is the real package's, under a limit of 3 GB."""
    said = "Caught exception: Resource temporarily unavailable"
    line = f"[ERROR] PYPTO(7):2026-12-01 10:03:12.656 [error.h:38][FUNCTION]:{said}\n"

    def dies(order: Path, environment: Mapping[str, str], log: Path) -> int:
        log.write_text(line)
        return 1

    monkeypatch.setattr(child, "perform", dies)
    order = Order(Work.CODE, "fused", WorkloadName("conv-pair"), {}, {}, "pair.py")
    with pytest.raises(InfrastructureError, match=f"out of disk, memory or processes: {said}"):
        child.run(order, tmp_path)


@pytest.mark.parametrize(("work", "draws"), [(Work.COST, False), (Work.CODE, True)])
def test_only_the_cost_model_has_a_python_that_draws_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: Work, draws: bool
) -> None:
    searched = []

    def gives(order: Path, environment: Mapping[str, str], log: Path) -> int:
        searched.append(environment["PATH"])
        (order.parent / "output" / "output_1").mkdir()
        return 0

    monkeypatch.setattr(child, "perform", gives)
    child.run(Order(work, "fused", WorkloadName("conv-pair"), {}, {}, "pair.py"), tmp_path)

    command = [shutil.which("python3", path=searched[0]) or "", "-c", "print('drawn')"]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "drawn\n" * draws
    assert shutil.which("g++", path=searched[0]) == shutil.which("g++")


def test_an_order_from_a_file_is_about_what_the_host_packed() -> None:
    """The products with zeros that dilation brings are no part of a sum that could overflow."""
    geometry = ConvGeometry(250, 250, 3, 40, Conv(3, 1, 100, 100))
    tiling = Product(96, 32, 32, 48)
    order = Order(Work.CODE, "conv", WorkloadName("conv"), geometry, tiling, "programs.py")
    read = msgspec.json.decode(msgspec.json.encode(order), type=Order)

    device, tiled = shapes_of(read)

    assert device == Subject(workload_named("conv"), geometry, "a2a3").device
    assert device.conv == Conv(201, 1, 100)
    assert device.depth * 128 * 128 >= 2**31
    assert tiled == tiling
