"""Builds lowered programs with the simulator, once for each text, and runs them."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from pipeline.engines.base import CompileError, InfrastructureError
from pipeline.engines.cache import building, prune_builds
from pipeline.engines.host_faults import host_fault
from pipeline.engines.isa.toolchain import Toolchain
from pipeline.engines.process import ending

PROGRAM, RUNNER = "program.cpp", "runner.cpp"

_HEADERS = """\
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <pto/pto-inst.hpp>
"""
"""What is compiled once for all programs; the headers need the standard library before them."""

_PATIENCE = 600.0
"""Seconds that the compiler may take: before the first job no other limit applies."""

_ERROR = re.compile(r"^.*\berror: .*$", re.MULTILINE)
_OVERRIDES = "PTO_CPU_SIM_"
"""What begins the names of the environment variables that change the simulator's memories."""

_WORDS = re.compile(
    r"Assertion .* failed|ERROR: AddressSanitizer: .*|does not have \d+ bytes|cannot be written"
)


class SimulatorError(RuntimeError):
    """The simulator ended without an output: an assertion of the headers, AddressSanitizer, a signal."""


def build(toolchain: Toolchain, sources: Mapping[str, str], cache: Path, *defined: str) -> Path:
    """The executable of `RUNNER`, which may include the other sources by their names.

    It is kept in `cache` under a hash of the sources, the headers, the compiler and the flags, of which
    `defined` are further ones. Several processes may call this at once: one builds, the others wait for it.
    Whoever builds prunes what was not used for long.

    Raises:
        CompileError: the compiler refuses the text.
        InfrastructureError: the compiler fails, or the cache cannot be used.
    """
    key = _key(toolchain.key, *defined, *(f"{name}\n{text}" for name, text in sorted(sources.items())))
    folder = cache / f"program-{key}"
    executable = folder / "runner"
    try:
        headers = _headers(toolchain, cache)
        with building(folder):
            missing = not executable.exists()
            if missing:
                for name, text in sources.items():
                    (folder / name).write_text(text)
                source = str(folder / RUNNER)
                _compile(toolchain, [*defined, "-include-pch", str(headers), source], executable)
        if missing:
            prune_builds(cache)
    except OSError as error:
        raise InfrastructureError(
            f"built programs cannot be kept in {folder}: {error.strerror or error}; "
            "set XDG_CACHE_HOME to a folder that can be written"
        ) from error
    return executable


def run(executable: Path, files: Sequence[Path], log: Path, timeout: float | None = None) -> None:
    """Run a program on files of its tensors, in this process's group; what it prints goes to `log`.

    `timeout` is in seconds; jobs have one of their own.

    Raises:
        SimulatorError: it fails, or takes longer; the message says what it printed of why.
    """
    environment = {name: text for name, text in os.environ.items() if not name.startswith(_OVERRIDES)}
    try:
        with log.open("wb") as printed:
            ended = subprocess.run(
                [str(executable), *map(str, files)],
                env={"ASAN_OPTIONS": "detect_leaks=0", **environment},
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
                timeout=timeout,
                check=False,
            )
    except subprocess.TimeoutExpired as error:
        raise SimulatorError(f"the simulator has not ended after {error.timeout:.0f} s") from error
    if ended.returncode:
        said = _WORDS.search(log.read_text(errors="replace"))
        reason = f": {said[0]}" if said else ""
        raise SimulatorError(f"the simulator's process {ending(ended.returncode)}{reason}")


def _key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def _headers(toolchain: Toolchain, cache: Path) -> Path:
    """The precompiled headers. The compiler refuses them if a file has changed since, so its path is kept."""
    folder = cache / f"headers-{_key(toolchain.key)}"
    compiled = folder / "headers.pch"
    with building(folder):
        if not compiled.exists():
            source = folder / "headers.hpp"
            source.write_text(_HEADERS)
            _compile(toolchain, ["-x", "c++-header", str(source)], compiled)
    return compiled


def _compile(toolchain: Toolchain, options: Sequence[str], target: Path) -> None:
    unfinished = target.with_name("unfinished")  # used only by the holder of the lock
    command = [toolchain.compiler, *toolchain.flags, *options, "-o", str(unfinished)]
    name = Path(toolchain.compiler).name
    try:
        ended = subprocess.run(
            command,
            env={**os.environ, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise InfrastructureError(f"{name} has not ended after {error.timeout:.0f} s") from error
    if ended.returncode == 0:
        unfinished.replace(target)
        return
    found = _ERROR.search(ended.stderr)
    reason = found[0].strip() if found else f"{name} {ending(ended.returncode)}"
    if ended.returncode < 0 or (fault := host_fault(ended.stderr, compiling=True)):
        raise InfrastructureError(reason if ended.returncode < 0 else f"{fault}: {reason}")
    raise CompileError(f"the headers refuse the lowered program: {reason}")
