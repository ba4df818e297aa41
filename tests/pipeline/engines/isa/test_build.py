from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.engines.base import CompileError, InfrastructureError
from pipeline.engines.isa.build import SimulatorError, build, run
from pipeline.engines.isa.toolchain import Toolchain, find

Host = Callable[..., Mapping[str, str]]
Calls = Callable[[], list[str]]
SOURCES = {"program.cpp": "// a", "runner.cpp": "// b"}


def toolchain(environment: Mapping[str, str]) -> Toolchain:
    found = find(environment)
    assert isinstance(found, Toolchain)
    return found


def test_the_same_text_is_built_once_and_the_headers_once_for_all(
    host: Host, calls: Calls, tmp_path: Path
) -> None:
    here, cache = toolchain(host()), tmp_path / "cache"
    first = build(here, SOURCES, cache)
    assert (first.parent / "program.cpp").read_text() == "// a"
    assert len(calls()) == 2
    assert build(here, dict(reversed(SOURCES.items())), cache) == first
    assert len(calls()) == 2
    headers, program = calls()
    assert "c++-header" in headers
    assert "-include-pch" in program


@pytest.mark.parametrize("change", ["text", "headers", "compiler", "flags", "defined"])
def test_it_is_built_again_if_anything_changes(change: str, host: Host, calls: Calls, tmp_path: Path) -> None:
    here, cache = toolchain(host()), tmp_path / "cache"
    first = build(here, SOURCES, cache)
    other = {
        "headers": replace(here, digest="other"),
        "compiler": replace(here, version="clang version 20.1.0"),
        "flags": replace(here, sanitize=True),
    }.get(change, here)
    sources = {**SOURCES, "program.cpp": "// c"} if change == "text" else SOURCES
    defined = ["-DMORE"] if change == "defined" else []
    assert build(other, sources, cache, *defined) != first
    assert len(calls()) == (3 if change in ("text", "defined") else 4)


def test_what_was_built_is_used_and_what_nobody_used_for_long_goes(
    host: Host, calls: Calls, tmp_path: Path
) -> None:
    here, cache = toolchain(host()), tmp_path / "cache"
    first = build(here, SOURCES, cache)
    for folder in cache.glob("*-*/"):
        os.utime(folder, (0, 0))
    assert build(here, SOURCES, cache) == first  # it is used
    os.utime(first.parent, (0, 0))
    second = build(here, {**SOURCES, "program.cpp": "// c"}, cache)  # the headers are used
    assert sorted(path for path in cache.iterdir() if path.is_dir()) == sorted(
        [second.parent, *cache.glob("headers-*")]
    )
    assert len(calls()) == 3
    assert build(here, SOURCES, cache) == first
    assert len(calls()) == 4


def test_a_refusal_of_the_compiler_is_one_of_the_program(host: Host, tmp_path: Path) -> None:
    says = "program.cpp:7:3: error: static assertion failed: Non-conforming matrix fractal"
    here = toolchain(host(does=f"echo '{says}' >&2; exit 1"))
    with pytest.raises(CompileError) as refused:
        build(here, SOURCES, tmp_path / "cache")
    assert str(refused.value) == f"the headers refuse the lowered program: {says}"
    assert not [*(tmp_path / "cache").rglob("runner")]


@pytest.mark.parametrize(
    ("does", "said"),
    [("kill -SEGV $$", "SIGSEGV"), ("echo 'No space left on device' >&2; exit 1", "out of disk")],
)
def test_a_compiler_that_fails_is_the_hosts_fault(does: str, said: str, host: Host, tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match=said):
        build(toolchain(host(does=does)), SOURCES, tmp_path / "cache")


def test_a_cache_that_cannot_be_written_is_named(host: Host, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(InfrastructureError, match="set XDG_CACHE_HOME"):
        build(toolchain(host()), SOURCES, tmp_path / "cache")


def script(folder: Path, text: str) -> Path:
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_it_runs_on_the_files_and_keeps_what_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PTO_CPU_SIM_L1_BYTES", "1")
    files = [tmp_path / name for name in ("x", "y")]
    run(script(tmp_path, 'echo "$@"; env > "$2"'), files, tmp_path / "log")
    assert (tmp_path / "log").read_text() == f"{files[0]} {files[1]}\n"
    assert "PTO_CPU_SIM_L1_BYTES" not in files[1].read_text()


def test_a_simulator_that_hangs_is_ended(tmp_path: Path) -> None:
    with pytest.raises(SimulatorError, match="has not ended after 0 s"):
        run(script(tmp_path, "exec sleep 60"), [], tmp_path / "log", timeout=0.2)


@pytest.mark.parametrize(
    ("prints", "said"),
    [
        ("r: TLoad.hpp:9: f(): Assertion `row < 4' failed.", ": Assertion `row < 4' failed"),
        ("==7==ERROR: AddressSanitizer: heap-buffer-overflow on", ": ERROR: AddressSanitizer: heap-buffer"),
        ("something else", ""),
    ],
)
def test_why_the_simulator_ended_is_said(prints: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(SimulatorError) as failed:
        run(script(tmp_path, f'echo "{prints}" >&2; kill -ABRT $$'.replace("`", "\\`")), [], tmp_path / "log")
    assert str(failed.value).startswith(f"the simulator's process was ended by SIGABRT{said}")
