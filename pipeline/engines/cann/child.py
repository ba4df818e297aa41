"""Starts the child process of an order, and finds the true reason if it fails."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from pipeline.engines.base import CompileError, InfrastructureError
from pipeline.engines.cann.order import Order, encode

LOG = "child.log"

_ROOT = Path(__file__).resolve().parents[3]
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


def run(order: Order) -> Path:
    """Do an order in a child process, in this process's group; returns the framework's output folder.

    Raises:
        CompileError: the framework refuses the kernel; its own reason comes first.
        InfrastructureError: the process ended for another reason.
    """
    home, logs, temporary = (order.folder / name for name in ("home", "logs", "tmp"))
    for folder in (order.output, home, logs, temporary):
        folder.mkdir(parents=True)
    path = order.folder / "order.json"
    path.write_bytes(encode(order))
    search = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {
        **{
            name: value for name, value in os.environ.items() if not name.startswith(("ASCEND_", "TILE_FWK_"))
        },
        "HOME": str(home),  # the framework writes run data there
        "TMPDIR": str(temporary),
        "TILE_FWK_OUTPUT_DIR": str(order.output),
        "ASCEND_PROCESS_LOG_PATH": str(logs),
        "ASCEND_SLOG_PRINT_TO_STDOUT": "1",
        "PYTHONPATH": search,
    }
    command = [sys.executable, "-m", "pipeline.engines.cann.worker", str(path)]
    with (order.folder / LOG).open("wb") as log:
        ended = subprocess.run(
            command,
            cwd=order.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            check=False,
        )
    outputs = list(order.output.glob("output_*"))
    if ended.returncode == 0 and len(outputs) == 1:
        return outputs[0]
    text = (order.folder / LOG).read_text(errors="replace")
    failed = host_failure_in(text)
    if failed:
        raise InfrastructureError(failed)
    reasons = reasons_in(text)
    if reasons:
        raise CompileError("\n".join(reasons[:_MOST_LINES]))
    raise InfrastructureError(f"the compiler's process {_ending(ended.returncode)}: {_last_line(text)}")


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


def _ending(code: int) -> str:
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "it printed nothing")
