from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pipeline.engines.base import InfrastructureError
from pipeline.engines.cann.calculator import COMPILER, calculator
from pipeline.engines.identity import Framework, identify

pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.skipif(
    identify().framework is not Framework.CANN, reason="CANN PyPTO, which ships the sources, is not installed"
)

WORKS = """\
while [ "$1" != -o ]; do shift; done
echo once >> "$(dirname "$0")/calls"
sleep 0.2
echo library > "$2"
"""


def compiler(folder: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a compiler of a few lines first on PATH; the real one takes most of a minute."""
    path = folder / COMPILER
    version = '[ "$1" = --version ] && { echo "g++ 99.1"; exit 0; }\n'
    path.write_text(f"#!/bin/sh\n{version}{body}")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return path


def test_any_number_of_askers_cause_one_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler(tmp_path, WORKS, monkeypatch)

    with ThreadPoolExecutor(4) as pool:
        libraries = set(pool.map(calculator, [tmp_path / "cache"] * 4))

    (library,) = libraries
    assert library.read_text() == "library\n"
    assert (tmp_path / "calls").read_text() == "once\n"


def test_another_compiler_builds_another_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = compiler(tmp_path, WORKS, monkeypatch)
    one = calculator(tmp_path / "cache")
    path.write_text(path.read_text().replace("99.1", "99.2"))

    assert calculator(tmp_path / "cache") != one


def test_a_failed_build_says_why_and_leaves_nothing_to_be_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler(tmp_path, 'echo "calc.cpp:3: error: no such thing" >&2; exit 1\n', monkeypatch)

    with pytest.raises(InfrastructureError, match=r"calculator: calc\.cpp:3: error: no such thing"):
        calculator(tmp_path / "cache")

    assert not list((tmp_path / "cache").rglob("*.so"))


def test_no_compiler_is_named_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(InfrastructureError, match=r"^g\+\+ is not on PATH"):
        calculator(tmp_path / "cache")
