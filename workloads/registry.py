"""Finds the declaration of a workload: a shipped one by its name, a user's in its file."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from zlib import crc32

from golden.errors import UserError
from workloads.base import Workload, WorkloadError
from workloads.own import blamed, guarded, place_in

SHIPPED: Mapping[str, str] = {
    "conv-pair": "workloads.conv_pair",
    "conv": "workloads.conv",
    "gemm": "workloads.gemm",
}
"""The module of each workload that is shipped; imported when it is used."""

DEFAULT = "conv-pair"
"""The workload of a geometry that names none."""

_DECLARATION = "WORKLOAD"


def workload_named(name: str, file: str = "") -> Workload:
    """The declaration of a workload.

    Args:
        name: its name in the matrix.
        file: the user's Python file that declares it; empty for a shipped workload.

    Raises:
        WorkloadError: there is no workload of that name, or the file is broken.
    """
    if file:
        return _of_file(name, file)
    if name not in SHIPPED:
        (nearest,) = difflib.get_close_matches(name, SHIPPED, n=1, cutoff=0.0)
        raise WorkloadError(f"unknown workload {name!r}: the closest known name is `{nearest}`")
    return _shipped(name)


@cache
def _shipped(name: str) -> Workload:
    found: Workload = getattr(import_module(SHIPPED[name]), _DECLARATION)
    return found


@cache
def _of_file(name: str, file: str) -> Workload:
    found = getattr(_loaded(file), _DECLARATION, None)
    if not isinstance(found, Workload):
        raise WorkloadError(f"{file}: declares no workload: it must assign a Workload to {_DECLARATION}")
    if found.name != name:
        raise WorkloadError(
            f"{file}: declares the workload {found.name!r}: name it so in the matrix, or call it {name!r}"
        )
    return guarded(found, file)


def _loaded(file: str) -> ModuleType:
    """The module of a user's file; anything that it raises is a mistake in the file."""
    if not Path(file).exists():
        raise WorkloadError(f"{file}: there is no such file")
    # The name depends on the whole path: files of one name must not look up types in each other.
    name = f"workload_of_{Path(file).stem}_{crc32(file.encode()):08x}"
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise WorkloadError(f"{file}: is not a Python file: give it a name that ends in .py")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except UserError as error:
        raise WorkloadError(f"{place_in(error, file)}: {error}") from error
    except (Exception, SystemExit) as error:
        if isinstance(error, SyntaxError) and error.filename == file:
            place = f"{file}:{error.lineno}" if error.lineno else file
            raise WorkloadError(f"{place}: is not Python: {error.msg}") from error
        raise blamed(error, "cannot be loaded", file) from error
    return module
