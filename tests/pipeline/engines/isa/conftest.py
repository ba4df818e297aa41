"""Stand-ins for the headers and for clang++, which are handed to the engine in place of the real ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

_COMPILER = """\
#!/bin/sh
[ "$1" = --version ] && {{ echo "{version}"; exit 0; }}
echo "$@" >> "{log}"
for last in "$@"; do :; done
{does}
"""

Host = Callable[..., Mapping[str, str]]


@pytest.fixture
def headers(tmp_path: Path) -> Path:
    root = tmp_path / "pto-isa"
    (root / "include" / "pto" / "cpu").mkdir(parents=True)
    (root / "include" / "pto" / "pto-inst.hpp").write_text("// the headers\n")
    return root


@pytest.fixture
def host(tmp_path: Path, headers: Path) -> Host:
    """`host(compilers={name: version line}, runner=script, does=script)`: the environment of a host.

    Its compilers write a line to `calls` for each compilation, and give `runner` as what they built.
    """

    def host(
        compilers: Mapping[str, str] | None = None, runner: str = "exit 0", does: str = ""
    ) -> Mapping[str, str]:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        built = tmp_path / "built"
        built.write_text(f"#!/bin/sh\n{runner}\n")
        built.chmod(0o755)
        for name, version in (compilers or {"clang++": "Some clang version 19.1.7 (3)"}).items():
            script = folder / name
            gives = does or f'cp "{built}" "$last"'
            script.write_text(_COMPILER.format(version=version, log=tmp_path / "calls", does=gives))
            script.chmod(0o755)
        return {"PTO_ISA_ROOT": str(headers), "PATH": str(folder)}

    return host


@pytest.fixture
def calls(tmp_path: Path) -> Callable[[], list[str]]:
    """The command lines of the compilations so far."""
    log = tmp_path / "calls"
    return lambda: log.read_text().splitlines() if log.exists() else []
