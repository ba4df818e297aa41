"""An order for a child process, what the process gives, and the true reason if it fails."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec

from pipeline.engines.base import CompileError, InfrastructureError
from pipeline.engines.cann.parent import clean_environment, perform
from pipeline.engines.host_faults import host_fault
from pipeline.engines.process import ending
from pipeline.ground.jobs import WorkloadName

LOG = "child.log"

ARRAYS = "arrays"
"""The folder, beside that of an order, with one .npy file per parameter; that of the output is its golden."""


class Work(str, Enum):
    """What is made of a kernel.

    That is AICore C++; the same with every pass interpreted on arrays and compared with the golden; or an
    estimate by the cost model, which writes no C++.
    """

    CODE = "code"
    VERIFY = "verify"
    COST = "cost"


@dataclass(frozen=True)
class Order:
    """One kernel's work.

    Attributes:
        workload: the workload that has the program.
        geometry, tiling: of the workload's own types; their fields, in the child process. The geometry is the
            user's, by whose rules it is checked there again, and the tiling is of the device's.
        kernels: the source file that holds `BUILD` (see `workloads.tensor_level`).
        calculator: the verifier's library; empty if nothing is verified.
    """

    work: Work
    program: str
    workload: WorkloadName
    geometry: Any
    tiling: Any
    kernels: str
    calculator: str = ""


_MOST_LINES = 12

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_LOGGED = re.compile(r"^\[ERROR\] PYPTO\(\d+\):\S+ \S+ \[[^]]*\]\[[^]]*\]:(?:\[[^]]*\]:)?\s*(.+)")
_REJECTED = re.compile(r"^ERROR:root:Record function \w+ failed: (.+)")
_RAISED = re.compile(r"^pypto\.frontend\.parser\.error\.\w+: (?!Errcode)(.+)")
_CAUGHT = re.compile(r"^Caught exception: '?Errcode: \w+!$")
_PLACE = re.compile(r"^ERROR (\S+\.py:\d+:\d+): ")

_HOST_TOOLS = {"CompileSourceCode": "g++", "CompileAndLoadSection": "ld or objcopy"}
"""The tools that the framework's functions run to build a kernel's host part."""

_HOST_BUILD = re.compile(rf"^, func ({'|'.join(_HOST_TOOLS)}), file symbolic_scalar\.cpp, ")
"""The only line that the framework prints if one of them fails."""

_TOOL_SAYS = re.compile(r"\b(?:g\+\+|cc1plus|collect2|as|ld|objcopy): |\b[Ff]atal error: |^Killed$")
_REFUSED_CODE = re.compile(r"^\S+:\d+:\d+: error: ")
"""The compiler works, but refuses the code that the framework generated from the kernel."""


def run(order: Order, scratch: Path) -> Path:
    """Do an order in a child process, in a folder of `scratch`; returns the framework's output folder.

    Raises:
        CompileError: the framework refuses the kernel; its own reason comes first.
        InfrastructureError: the process ended for another reason.
    """
    folder = scratch / order.work.value
    output, home, logs, temporary = (folder / name for name in ("output", "home", "logs", "tmp"))
    for each in (output, home, logs, temporary):
        each.mkdir(parents=True)
    path, log = folder / "order.json", folder / LOG
    path.write_bytes(msgspec.json.encode(order))
    environment = {
        **clean_environment(),
        "HOME": str(home),  # the framework writes run data there
        "TMPDIR": str(temporary),
        "TILE_FWK_OUTPUT_DIR": str(output),
        "ASCEND_PROCESS_LOG_PATH": str(logs),
    }
    if order.work is Work.COST:
        search = os.environ.get("PATH", os.defpath)
        environment["PATH"] = os.pathsep.join([str(_without_pictures(folder)), search])
    code = perform(path, environment, log)
    outputs = list(output.glob("output_*"))
    if code == 0 and len(outputs) == 1:
        return outputs[0]
    text = log.read_text(errors="replace")
    if failed := host_failure_in(text):
        raise InfrastructureError(failed)
    if reasons := reasons_in(text):
        if fault := host_fault(reasons[0], compiling=True):
            raise InfrastructureError(f"{fault}: {reasons[0]}")
        raise CompileError("\n".join(reasons[:_MOST_LINES]))
    last = next((line for line in reversed(_lines(text)) if line), "it printed nothing")
    raise InfrastructureError(f"the compiler's process {ending(code)}: {last}")


def _without_pictures(folder: Path) -> Path:
    """A folder for PATH in which `python3` does nothing.

    With it the cost model draws pictures of its result, which nobody keeps; that takes four times as long as
    the estimate. The framework has no switch for it, and does not look at how the drawing ended.
    """
    tools = folder / "tools"
    tools.mkdir()
    (tools / "python3").write_text("#!/bin/sh\n")
    (tools / "python3").chmod(0o755)
    return tools


def host_failure_in(log: str) -> str:
    """What the framework's process says about a build tool of this host that failed; empty if none did."""
    lines = _lines(log)
    failed = next(filter(None, map(_HOST_BUILD.match, lines)), None)
    if failed is None or any(map(_REFUSED_CODE.match, lines)):
        return ""
    said = next(filter(_TOOL_SAYS.search, lines), "it printed no error")
    return f"{_HOST_TOOLS[failed.group(1)]} on PATH fails to build the kernel's host part: {said}"


def reasons_in(log: str) -> list[str]:
    """The reasons that the framework gives in its process's output, the first cause first; may be empty."""
    lines = _lines(log)
    reasons = [line for line in lines if _REFUSED_CODE.match(line)]
    for number, line in enumerate(lines):
        found = _LOGGED.match(line) or _REJECTED.match(line) or _RAISED.match(line)
        reason = found.group(1).strip() if found else line
        if _CAUGHT.match(reason):
            reasons += lines[number + 1 : number + 2]  # only the code; the text is in the next line
        elif found:
            reasons.append(reason)
    place = next((found.group(1) for found in map(_PLACE.match, lines) if found), "")
    if place and reasons:
        reasons[0] = f"{place}: {reasons[0]}"
    return list(dict.fromkeys(reasons))


def _lines(log: str) -> list[str]:
    return [_COLOUR.sub("", line).strip() for line in log.splitlines()]
