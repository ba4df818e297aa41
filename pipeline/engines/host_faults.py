"""What a toolchain says when the host is at fault and not the kernel: one table, for every engine.

It imports only the standard library, because PyPTO's interpreter imports it too.
"""

from __future__ import annotations

import re

FULL_DISK = ("No space left on device", "Disk quota exceeded", "Read-only file system")
"""What the system reports when the disk is full or read-only."""

_CRASHED = "a tool of the toolchain crashed or hung"

_MEANINGS = {
    "parts of the toolchain have versions that do not fit each other": (
        r"is version \S+, but .* requires",  # PyPTO about PTOAS
        r"Could not determine the version of ptoas",
        r"requires CPython",  # PTOAS's launcher
        r"version [`'\"]\S+ not found",  # the loader about glibc and libstdc++
        r"undefined symbol: ",
        r"PTO-ISA (runtime binaries|build metadata|checkout mismatch|pin\b|not available)",  # simpler
        r"\b(CANN|driver|firmware|toolkit|runtime|compiler|ptoas|simpler) version mismatch",
    ),
    "the toolchain has no valid licence": (
        r"\blicen[cs]e\b.{0,40}\b(expired|invalid|denied|missing|not (found|available|valid))",
        r"\b(no (valid )?|invalid |expired |missing |check ?out (a |the )?)licen[cs]e\b",
    ),
    "a file, library or command of the toolchain is missing": (
        r"No such file or directory",
        r"fatal error: .*file not found",
        r"error while loading shared libraries",
        r"cannot open shared object file|failed to load \S*(\.so|ascend_hal)\b",
        r"\b(binary|compiler|linker|command) not found\b",
        r"\b(PTOAS_ROOT|ASCEND_HOME_PATH) (is (set to|not set|required)|not set)",
        r"\bsh: (line )?\d+: \S+: not found",
        r"not found\. Please install",
        r"Could not run '.* --version'",
        r"Can not (find cmake|import torch)",
        r"No module named ",
        r"Permission denied",
        r"Exec format error|cannot execute binary file|Text file busy",
    ),
    "the host is out of disk, memory or processes": (
        *FULL_DISK,
        r"Failed to create temp file|File too large|Too many open files|Input/output error|Stale file handle",
        r"Cannot allocate memory|virtual memory exhausted|std::bad_alloc|\bMemoryError\b",
        r"Resource temporarily unavailable",
        r"^Killed$",
    ),
    _CRASHED: (
        r"ptoas compilation failed:\s*\Z",  # all that PyPTO says after a crash of PTOAS
        r"ptoas compilation failed: Traceback",
        r"ptoas compilation timed out",
        r"PLEASE submit a bug report|Stack dump:|LLVM ERROR: ",
        r"internal compiler error",
        r"Segmentation fault|Illegal instruction|Bus error|core dumped|^Aborted$",
        r"Assertion [`'].*' failed",
        r"terminate called after throwing|double free or corruption|free\(\): invalid pointer",
        r"died with <Signals\.|exit code -\d",
    ),
}
"""By what it means, how public tools word it."""

_FAULTS = {
    meaning: re.compile("|".join(f"(?:{text})" for text in texts), re.MULTILINE | re.IGNORECASE)
    for meaning, texts in _MEANINGS.items()
}

_DIAGNOSTIC = re.compile(r"(loc\(\"[^\"]*\":\s*\d+:\d+\)|^\S+:\d+:\d+): error: ", re.MULTILINE)
"""An assembler's or compiler's error with its place in the code: it works, and refuses the code."""


def host_fault(text: str, *, compiling: bool) -> str:
    """What a toolchain's error means for the host; empty if it may be about the code that it was given.

    What crashed is a tool only while it compiles (`compiling`); in a run it may be the kernel.
    """
    if _DIAGNOSTIC.search(text):
        return ""
    found = (meaning for meaning, fault in _FAULTS.items() if fault.search(text))
    return next((meaning for meaning in found if compiling or meaning != _CRASHED), "")
