"""What tools print about the host, and what they print about a kernel: from public reports and sources."""

from __future__ import annotations

import pytest

from pipeline.engines.host_faults import host_fault

VERSIONS, LICENCE = "versions that do not fit", "no valid licence"
MISSING, RESOURCES, CRASH = "is missing", "out of disk, memory or processes", "crashed or hung"

HOST = [
    # hw-native-sys/pypto, pull request 2807 and its backend/_ptoas_locate.py
    (VERSIONS, "ptoas at '/o/bin/ptoas' is version 0.55, but PyPTO requires PTOAS >= v0.61."),
    (VERSIONS, "Could not determine the version of ptoas at '/o/ptoas': '--version' exited with 0"),
    (MISSING, "Could not run '/o/ptoas --version': [Errno 13] x. Install PTOAS v0.61 or newer"),
    (MISSING, "PTOAS_ROOT is set to '/o' but no executable ptoas was found there. Tried: '/o/ptoas'."),
    (MISSING, "ptoas binary not found. Set PTOAS_ROOT to the extracted release directory"),
    (VERSIONS, "ptoas compilation failed: this ptoas compiler archive requires CPython 3.10"),
    (CRASH, "ptoas compilation failed:"),  # its FAQ: the assembler crashed
    (CRASH, "ptoas compilation timed out after 60.0s"),
    (MISSING, "ptoas compilation failed: /o/bin/ptoas: error while loading shared libraries: libMLIR.so.19"),
    # hw-native-sys/simpler, simpler_setup/toolchain.py, kernel_compiler.py, pto_isa.py
    (MISSING, "ccec compiler not found: /cann/bin/ccec"),
    (MISSING, "ccec linker not found at /cann/bin/ld.lld"),
    (MISSING, "g++-15 not found. Please install g++-15."),
    (MISSING, "ASCEND_HOME_PATH is required for CCEC toolchain"),
    (MISSING, "failed to load libascendcl.so: libc_sec.so: cannot open"),
    (VERSIONS, "Stale PTO-ISA runtime binaries: current pto_isa.pin requires 8f3, but installed runtimes"),
    (VERSIONS, "Missing PTO-ISA build metadata: current pto_isa.pin requires 8f3"),
    (
        MISSING,
        "[Incore] compilation failed with exit code 1:\nk.cpp:1:10: fatal error: 'pto/x.hpp' file not found",
    ),
    (CRASH, "[Incore] compilation failed with exit code -11:\n"),
    # CANN PyPTO 0.2.0: _utils.py; and its log under a limit of 3 GB of memory on this machine
    (MISSING, "Can not find cmake, please check your envirionment."),
    (RESOURCES, "Caught exception: Resource temporarily unavailable"),
    (RESOURCES, "Caught exception: std::bad_alloc"),
    # loaders, compilers, shells and licence managers
    (VERSIONS, "/lib/libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required by /o/lib/libMLIR.so)"),
    (VERSIONS, "ImportError: /o/libtorch_npu.so: undefined symbol: _ZN3atb15CreateOperation"),
    (VERSIONS, "CANN version mismatch. The build version is 0.0.0, but the current version is 7.0.0."),
    (MISSING, "OSError: libascendcl.so: cannot open shared object file: No such file or directory"),
    (MISSING, "sh: 1: bisheng: not found"),
    (MISSING, "bash: line 1: ccec: command not found"),
    (MISSING, "k.cpp:1:10: fatal error: kernel_operator.h: No such file or directory"),
    (MISSING, "/o/bin/ptoas: cannot execute binary file: Exec format error"),
    (LICENCE, "error: Failed to check out a license. License server is down"),
    (LICENCE, "License key has expired"),
    (RESOURCES, "/tmp/a.s: Fatal error: can't write 40 bytes: 'No space left on device'"),
    (RESOURCES, "c++: fatal error: Killed signal terminated program cc1plus\nKilled"),
    (CRASH, "PLEASE submit a bug report to https://github.com/llvm/llvm-project/issues/ and include"),
    (CRASH, "ptoas: /b/Value.h:93: mlir::Type getType(): Assertion `impl' failed."),
    (CRASH, "LLVM ERROR: operation destroyed but still has uses"),
    (CRASH, "x.cpp:9:1: internal compiler error: Segmentation fault"),
    (CRASH, "Command '['ptoas']' died with <Signals.SIGSEGV: 11>."),
]

KERNEL = [
    "Mat buffer usage (540672 bytes) exceeds platform limit (524288 bytes)",
    "Alloc tensor [51] size [67584] exceeds MEM_L0A size [65536]!",
    "requires UINT8 or FP8E8M0 dtype, but got uint64",
    "tile.move requires distinct source and destination addresses",
    "Tile column bytes must be 32-byte aligned, got 24",
    "unsupported type, dstDtypeStr: int8_t, func GenDupOp, file codegen_vector.cpp, line 173",
    "NameError: name 'nosuchname' is not defined",
    "Orchestration function 'main' references undefined function 'f'. The Program must contain every callee",
    # hw-native-sys/pypto, issue 2386; its documentation; a public report of August 2026
    "ptoas compilation failed: loc(\"b/ptoas/greedy_sample.pto\":62:203): error: expected ')'",
    'ptoas compilation failed: loc("<build_dir>/ptoas/p3.pto": 18:163): error: expected SSA operand',
    "ptoas compilation failed: error: use of value '%t' expects different type than prior uses",
    "ptoas compilation failed: loc(\"/k/a.py\":9:9): error: 'pto.partition_view' op size at dim 0",
    "capacity-gated reuse could not fit memory space Mat",
    "Host-orch queue is remote-aborted",
    "Could not find function definition for f",
    "Internal error: IfStmt in-place return_var 'xn__phi_v6' yields different backing SSAs",
    # a compiler that works and refuses the code, and then also says that it stops
    "/o/control_flow.cpp:7:3: error: 'nosuch' was not declared\nrm: a.o: No such file or directory",
]


@pytest.mark.parametrize(("meaning", "text"), HOST)
def test_what_speaks_of_the_host_is_no_refusal(meaning: str, text: str) -> None:
    assert meaning in host_fault(text, compiling=True)


@pytest.mark.parametrize("text", KERNEL)
def test_what_speaks_of_the_kernel_stays_a_refusal(text: str) -> None:
    assert host_fault(text, compiling=True) == ""


@pytest.mark.parametrize(("meaning", "text"), HOST)
def test_a_crash_in_a_run_may_be_the_kernels(meaning: str, text: str) -> None:
    assert bool(host_fault(text, compiling=False)) == (meaning is not CRASH)
