"""Prints as JSON what this interpreter has: `python -m pipeline.engines.pypto.inquiry NAME...`.

The names are operators such as `tile.img2col`. Runs under `PIPELINE_PYTHON`: standard library only.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
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
        return Installed(found.framework, str(found), problem=_words(error))
    here = tuple(_here(language, operators))
    try:
        import_module("simpler_setup")
        import_module("pypto.runtime")
    except Exception as error:
        return Installed(found.framework, str(found), here, runtime_problem=_words(error))
    return Installed(found.framework, str(found), here, simpler=_version("simpler"))


def _here(language: object, operators: Sequence[str]) -> Iterator[str]:
    for operator in operators:
        holder = language
        *groups, name = operator.split(".")
        for group in groups:
            holder = getattr(holder, group, None)
        if hasattr(holder, name):
            yield operator


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "of unknown version"


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asdict(inquire(sys.argv[1:]))) + "\n")
