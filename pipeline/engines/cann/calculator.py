"""The verifier's calculator: a torch library that CANN PyPTO ships as source and builds in every process.

It is built here once, with the package's sources and flags, and kept under a key of all it depends on.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from pipeline.engines.base import InfrastructureError
from pipeline.engines.cache import building, prune_builds
from pipeline.engines.process import compiler_version

COMPILER = "g++"

_LIBRARY, _DIGEST = "libtile_fwk_calculator.so", ".sha256"

_REASON = re.compile(r"error: |failed: |: cannot ", re.IGNORECASE)
"""The line in which a compiler, assembler or linker gives its reason, before any further errors."""


def calculator(cache: Path) -> Path:
    """The calculator's library in `cache`; if it is missing or damaged, it is built first (about 40 s).

    Several processes may call this at once: one builds, the others wait for it.

    Raises:
        InfrastructureError: there is no compiler, it fails, or the cache cannot be used.
    """
    compiler = _compiler()
    package, torch = _package("pypto"), _package("torch")
    sources, library = _sources(package), _library(cache, compiler)
    folder = library.parent
    try:
        with building(folder):
            missing = not _is_whole(library)
            if missing:
                _build(compiler, package, torch, sources, library)
        if missing:
            prune_builds(cache)
    except OSError as error:
        if _is_readable(library):  # nobody can prune what is in a folder that takes no locks
            return library
        raise InfrastructureError(
            f"the verifier's calculator cannot be kept in {folder}: {error.strerror or error}; "
            "set XDG_CACHE_HOME to a folder that can be written"
        ) from error
    return library


def is_built(cache: Path) -> bool:
    """Whether the calculator is in `cache`, also if it was damaged since.

    Raises:
        InfrastructureError: as `calculator`.
    """
    return _library(cache, _compiler()).with_suffix(_DIGEST).is_file()


def versions(environment: Mapping[str, str]) -> Mapping[str, str]:
    """The version of what compiles the calculator on a host, by name; empty if there is none."""
    version = compiler_version(COMPILER, environment)
    return {COMPILER: version} if version else {}


def _compiler() -> str:
    compiler = shutil.which(COMPILER)
    if compiler is None:
        raise InfrastructureError(f"{COMPILER} is not on PATH: the verifier's calculator cannot be built")
    return compiler


def _package(name: str) -> Path:
    return Path(str(metadata.distribution(name).locate_file(name)))


def _sources(package: Path) -> list[Path]:
    return sorted((package / "lib" / "calculator" / "src").iterdir())


def _library(cache: Path, compiler: str) -> Path:
    """Where the library is, or will be."""
    return cache / f"calculator-{_key(compiler, _sources(_package('pypto')))}" / _LIBRARY


def _key(compiler: str, sources: list[Path]) -> str:
    digest = hashlib.sha256(_output_of([compiler, "--version"]).encode())
    for name in ("pypto", "torch"):
        digest.update(f"\n{name} {metadata.version(name)}".encode())
    for path in sources:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _is_whole(library: Path) -> bool:
    """Whether the library is complete: a file beside it, written last, holds its digest."""
    digest = library.with_suffix(_DIGEST)
    return library.is_file() and digest.is_file() and digest.read_text() == _sha256(library)


def _is_readable(library: Path) -> bool:
    try:
        return _is_whole(library)
    except OSError:
        return False


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _build(compiler: str, package: Path, torch: Path, sources: list[Path], library: Path) -> None:
    includes = [
        torch / "include",
        torch / "include" / "torch" / "csrc" / "api" / "include",
        package / "lib" / "calculator" / "include",
    ]
    unfinished = library.with_name("unfinished.so")  # used only by the holder of the lock
    command = [
        # The ABI flag is that of torch's own builds.
        *(compiler, "-std=c++17", "-O2", "-fPIC", "-shared", "-D_GLIBCXX_USE_CXX11_ABI=1", "-D__DEVICE__"),
        *(f"-isystem{path}" for path in includes),
        *(str(path) for path in sources if path.suffix == ".cpp"),
        *(f"-L{path}" for path in (torch / "lib", package / "lib")),
        *("-Wl,--no-as-needed", "-ltorch_cpu", "-lc10", "-ltorch", "-Wl,--as-needed", "-lc_sec"),
        *("-o", str(unfinished)),
    ]
    try:
        _output_of(command)
        digest = _sha256(unfinished)
        unfinished.replace(library)
        library.with_suffix(_DIGEST).write_text(digest)
    finally:
        unfinished.unlink(missing_ok=True)  # missing if the compiler failed


def _output_of(command: list[str]) -> str:
    """What the compiler prints, in English.

    Raises:
        InfrastructureError: it cannot be started, or it fails; the message gives its own reason.
    """
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, errors="replace", env=environment, check=False
        )
    except OSError as error:
        raise InfrastructureError(f"{command[0]} cannot be started: {error.strerror}") from error
    if ended.returncode:
        said = [line.strip() for line in ended.stderr.splitlines() if line.strip()]
        nothing = f"it ended with code {ended.returncode} and printed no error"
        reason = next((line for line in said if _REASON.search(line)), said[-1] if said else nothing)
        raise InfrastructureError(f"{command[0]} cannot build the verifier's calculator: {reason}")
    return ended.stdout
