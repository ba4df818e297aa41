from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pipeline.engines.base import InfrastructureError
from pipeline.engines.cann.calculator import COMPILER, calculator, is_built
from pipeline.engines.identity import Framework, identify
from pipeline.engines.registry import to_build, toolchain

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


def test_the_first_job_builds_until_it_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler(tmp_path, WORKS, monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache = tmp_path / "conv-pair-pipeline" / "cann"
    assert not is_built(cache)
    assert to_build("cann") == "the verifier's calculator"
    assert not cache.exists()  # to ask builds nothing
    calculator(cache)
    assert is_built(cache)
    assert to_build("cann") == ""
    assert to_build("emulator") == ""


def test_a_compiler_that_fails_is_left_to_the_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = compiler(tmp_path, WORKS, monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path.write_text("#!/bin/sh\nexit 1\n")
    assert to_build("cann") == ""


def test_another_compiler_builds_another_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = compiler(tmp_path, WORKS, monkeypatch)
    one = calculator(tmp_path / "cache")
    path.write_text(path.read_text().replace("99.1", "99.2"))

    assert calculator(tmp_path / "cache") != one


def test_a_library_is_used_where_nothing_can_be_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler(tmp_path, WORKS, monkeypatch)
    library = calculator(tmp_path / "cache")
    (lock,) = (tmp_path / "cache").glob("*.lock")
    lock.unlink()
    lock.mkdir()
    assert calculator(tmp_path / "cache") == library
    assert (tmp_path / "calls").read_text() == "once\n"


@pytest.mark.parametrize("left", [b"", b"libr", None])
def test_a_library_that_is_not_the_one_built_is_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: bytes | None
) -> None:
    compiler(tmp_path, WORKS, monkeypatch)
    library = calculator(tmp_path / "cache")
    library.unlink() if left is None else library.write_bytes(left)

    assert calculator(tmp_path / "cache").read_text() == "library\n"
    assert (tmp_path / "calls").read_text() == "once\nonce\n"


def test_a_build_that_was_cut_short_is_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler(tmp_path, WORKS, monkeypatch)
    library = calculator(tmp_path / "cache")
    library.with_suffix(".sha256").unlink()

    calculator(tmp_path / "cache")

    assert (tmp_path / "calls").read_text() == "once\nonce\n"


@pytest.mark.parametrize(
    ("cache", "reason"),
    [
        ("file", "Not a directory"),
        ("file/below", "Not a directory"),
        ("/proc/none", "No such file or directory"),
    ],
)
def test_a_cache_that_cannot_be_used_is_named_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: str, reason: str
) -> None:
    (tmp_path / "file").touch()
    compiler(tmp_path, WORKS, monkeypatch)

    with pytest.raises(
        InfrastructureError, match=rf"be kept in .*{cache}.*: {reason}; set XDG_CACHE_HOME to"
    ):
        calculator(tmp_path / cache)

    assert not (tmp_path / "calls").exists()


def test_a_failed_build_says_why_and_leaves_nothing_to_be_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler(tmp_path, 'echo "calc.cpp:3: error: no such thing" >&2; exit 1\n', monkeypatch)

    with pytest.raises(InfrastructureError, match=r"calculator: calc\.cpp:3: error: no such thing"):
        calculator(tmp_path / "cache")

    assert not list((tmp_path / "cache").rglob("*.so"))


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("#!/bin/sh\nexit 1\n", r"/g\+\+ cannot build .*: it ended with code 1 and printed no error$"),
        (
            "#!/bin/sh\necho 'g++: fatal error: no cc1plus' >&2\nexit 1\n",
            r": g\+\+: fatal error: no cc1plus$",
        ),
        ("#!/none/sh\n", r"/g\+\+ cannot be started: No such file or directory$"),
    ],
)
def test_a_broken_compiler_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, reason: str
) -> None:
    compiler(tmp_path, "", monkeypatch).write_text(script)

    with pytest.raises(InfrastructureError, match=reason):
        calculator(tmp_path / "cache")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_linker_that_finds_no_space_is_quoted_before_what_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = """\
echo 'int one = 1;' > one.cpp
exec /usr/bin/g++ -shared -fPIC one.cpp -o /dev/full
"""
    monkeypatch.chdir(tmp_path)
    compiler(tmp_path, body, monkeypatch)

    with pytest.raises(InfrastructureError, match=r"calculator: /usr/bin/ld: .*No space left on device$"):
        calculator(tmp_path / "cache")


def test_no_compiler_is_named_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(InfrastructureError, match=r"^g\+\+ is not on PATH"):
        calculator(tmp_path / "cache")


def test_the_version_of_the_compiler_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler(tmp_path, WORKS, monkeypatch)
    assert toolchain("cann", {"PATH": str(tmp_path)}) == {"g++": "g++ 99.1"}
    assert toolchain("cann", {"PATH": "/nowhere"}) == {}
