"""Does an engine's order in a process of its own, which a framework's error may end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_PATIENCE = 60.0

HELPERS = ExitStack()
"""How to end the processes that engines keep from one order to the next, for all orders of this process.

Closing it ends them; whatever is needed later is started again.
"""


def child_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment with this project's sources on the search path of its Python."""
    search = [str(_ROOT), *filter(None, [environment.get("PYTHONPATH")])]
    return {**environment, "PYTHONPATH": os.pathsep.join(search)}


def perform(order: Path, module: str, python: str, environment: Mapping[str, str], log: Path) -> int:
    """Have a module of this project do an order; gives the exit code, or minus the signal that ended it.

    The process is in this process's group and works in the order's folder; what it prints goes to `log`.
    """
    with log.open("wb") as printed:
        ended = subprocess.run(
            [python, "-m", module, str(order)],
            cwd=order.parent,
            env=child_environment(environment),
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=printed,
            check=False,
        )
    return ended.returncode


def said(command: Sequence[str]) -> str:
    """What a command prints that answers soon, such as for its version; empty if it fails."""
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return "" if ended.returncode else ended.stdout.strip()


def compiler_version(name: str, environment: Mapping[str, str]) -> str:
    """The first line in which a compiler of a host says its version; empty if there is none."""
    compiler = shutil.which(name, path=environment.get("PATH"))
    return said([compiler, "--version"]).partition("\n")[0] if compiler is not None else ""


def ending(code: int) -> str:
    """How a process ended, in words."""
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
