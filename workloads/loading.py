"""Imports a user's file, and reads the declaration in it."""

from __future__ import annotations

import sys
from contextlib import redirect_stderr, redirect_stdout
from importlib.util import module_from_spec, spec_from_file_location
from os import devnull
from pathlib import Path
from zlib import crc32

from golden.errors import UserError
from workloads.base import DECLARATION, Workload, WorkloadError
from workloads.guards import guarded
from workloads.own import blamed, place_in


class _DeclarationError(WorkloadError):
    """A file can be imported, but is not a declaration; the message has its place already."""


def declared(name: str, file: str, sources: tuple[Path, ...]) -> Workload:
    """The declaration in a user's file, which is imported; what the file prints is dropped.

    Args:
        name: the name of the workload in the matrix.
        file: the absolute path of the file.
        sources: the files that the definition depends on.

    Raises:
        WorkloadError: the file raises anything but KeyboardInterrupt, or does not declare the workload.
        KeyboardInterrupt: the user pressed Ctrl-C, or the file itself raised it.
    """
    with Path(devnull).open("w", encoding="utf-8") as sink, redirect_stdout(sink), redirect_stderr(sink):
        try:
            found = _read(name, file, sources)
        except (_DeclarationError, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise mistake(error, file) from error
        if any(stream is None or stream.closed for stream in (sink, sys.__stdout__, sys.__stderr__)):
            raise WorkloadError(f"{file}: closes sys.stdout or sys.stderr: leave both open")
    return found


def mistake(error: BaseException, file: str) -> WorkloadError:
    """What a file raised when it was imported, in one line with its place."""
    if isinstance(error, UserError):
        return WorkloadError(f"{place_in(error, file)}: {error}")
    if isinstance(error, SyntaxError) and error.filename == file:
        place = f"{file}:{error.lineno}" if error.lineno else file
        return WorkloadError(f"{place}: is not Python: {error.msg}")
    return blamed(error, "cannot be loaded", file)


def _read(name: str, file: str, sources: tuple[Path, ...]) -> Workload:
    # The name depends on the whole path: files of one name must not look up types in each other.
    spec = spec_from_file_location(f"workload_of_{Path(file).stem}_{crc32(file.encode()):08x}", file)
    if spec is None or spec.loader is None:
        raise _DeclarationError(f"{file}: is not a Python file: give it a name that ends in .py")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    found = getattr(module, DECLARATION, None)
    if not isinstance(found, Workload):
        raise _DeclarationError(f"{file}: declares no workload: it must assign a Workload to {DECLARATION}")
    if found.name != name:
        raise _DeclarationError(
            f"{file}: declares the workload {found.name!r}: name it so in the matrix, or call it {name!r}"
        )
    return guarded(found, file, sources)
