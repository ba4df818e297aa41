"""Prints as JSON what this interpreter has: `python -m pipeline.engines.pypto.inquiry NAME...`.

The names are operators such as `tile.img2col`. Runs under `PIPELINE_PYTHON`: standard library only.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import import_module, metadata

from pipeline.engines.identity import Framework, identify


@dataclass(frozen=True)
class Installed:
    """What an interpreter has.

    Attributes:
        framework: which of the packages called `pypto`.
        description: the framework with version and commit, in words.
        operators: those of the requested operators that it has.
        problem: why it cannot be imported; empty if it can.
        simpler: version of simpler, its runtime; empty if that is not installed.
        runtime_problem: why the runtime cannot be imported; empty if it can.
    """

    framework: Framework
    description: str
    operators: tuple[str, ...] = ()
    problem: str = ""
    simpler: str = ""
    runtime_problem: str = ""


def inquire(operators: Sequence[str]) -> Installed:
    """Inspect this interpreter; PyPTO is imported only if it is the one from hw-native-sys."""
    found = identify()
    if found.framework is not Framework.HW_NATIVE_SYS:
        return Installed(found.framework, str(found))
    try:
        import_module("numpy")
        language = import_module("pypto.language")
    except Exception as error:
        return Installed(found.framework, str(found), problem=words(error))
    here = tuple(operator for operator in operators if _has(language, operator))
    try:
        import_module("simpler_setup")
        import_module("pypto.runtime")
    except Exception as error:
        return Installed(found.framework, str(found), here, runtime_problem=words(error))
    return Installed(found.framework, str(found), here, simpler=_version("simpler"))


def _has(language: object, operator: str) -> bool:
    holder = language
    for name in operator.split("."):
        holder = getattr(holder, name, None)
    return holder is not None


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "of unknown version"


def words(error: Exception) -> str:
    """An error with its class."""
    return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asdict(inquire(sys.argv[1:]))) + "\n")
