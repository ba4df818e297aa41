"""`pypto.ir`: a compile that writes the files a compile leaves."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from pypto._orders import ORDERS, record
from pypto.backend import BackendType
from pypto.backend.pto_backend import PartialCodegenError
from pypto.language import Program

_chosen: list[BackendType] = []


@dataclass
class CompiledProgram:
    output_dir: str
    platform: str | None


def compile(
    program: Program,
    output_dir: str | None = None,
    strategy: object = None,
    dump_passes: bool = True,
    backend_type: BackendType = BackendType.Ascend910B,
    skip_ptoas: bool = False,
    verification_level: object = None,
    diagnostic_phase: object = None,
    disabled_diagnostics: object = None,
    memory_planner: object = None,
    enable_pypto_l0c_double_buffer: bool | None = None,
    profiling: bool = False,
    platform: str | None = None,
    distributed_config: object = None,
    analyze_auto_scopes_for_deps: bool = False,
    emit_source_loc: bool | None = None,
    dump_ptoas_passes: bool = False,
    runtime: object = None,
) -> CompiledProgram:
    if not isinstance(program, Program):
        raise TypeError(f"not a program: {program!r}")
    if platform not in ("a2a3", "a2a3sim", "a5", "a5sim"):
        raise ValueError(f"unknown platform {platform}")
    if _chosen and _chosen[0] is not backend_type:
        raise ValueError(f"Backend type already set to {_chosen[0].name}")
    _chosen[:] = [backend_type]
    record(
        "compile",
        program=program.name,
        backend_type=backend_type.name,
        platform=platform,
        skip_ptoas=skip_ptoas,
        pid=os.getpid(),
    )
    if ORDERS.get("die"):
        os.kill(os.getpid(), signal.SIGSEGV)
    if "refuse_compile" in ORDERS:
        raise ValueError(ORDERS["refuse_compile"])
    if "refuse_code" in ORDERS:
        raise PartialCodegenError(ORDERS["refuse_code"], {})
    assert output_dir is not None
    kernel = Path(output_dir, "kernels", "aic", f"{program.functions[0]}.{'pto' if skip_ptoas else 'cpp'}")
    orchestration = Path(output_dir, "orchestration", "main.cpp")
    for path in (kernel, orchestration):
        path.parent.mkdir(parents=True)
        path.write_text(f"// {program.name}\n")
    return CompiledProgram(output_dir, platform)
