from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pipeline.engines.base import Availability
from pipeline.engines.isa.toolchain import ROOT, SANITIZE, Toolchain, find
from pipeline.engines.registry import toolchain

Host = Callable[..., Mapping[str, str]]


def missing(environment: Mapping[str, str]) -> Availability:
    found = find(environment)
    assert isinstance(found, Availability)
    assert not found
    return found


def there(environment: Mapping[str, str]) -> Toolchain:
    found = find(environment)
    assert isinstance(found, Toolchain)
    return found


def test_without_the_variable_there_are_no_headers(host: Host) -> None:
    found = missing({**host(), ROOT: ""})
    assert found.reason.startswith("PTO_ISA_ROOT is not set")
    assert "docs/isa.md" in found.remedy


def test_a_folder_without_the_headers_is_named(host: Host, tmp_path: Path) -> None:
    found = missing({**host(), ROOT: str(tmp_path)})
    assert f"PTO_ISA_ROOT is {tmp_path}: there is no include/pto/pto-inst.hpp" in found.reason
    assert found.remedy == "name a checkout of pto-isa"


def test_without_a_compiler_it_says_which_to_install(host: Host, tmp_path: Path) -> None:
    found = missing({**host(), "PATH": str(tmp_path)})
    assert found == Availability("there is no clang++ on PATH", "install clang++ 19 or newer")


@pytest.mark.parametrize(
    ("version", "called"),
    [("Debian clang version 14.0.6", "clang version 14.0.6"), ("g++ (Debian) 12.2.0", "no clang")],
)
def test_an_old_compiler_is_named_with_its_version(host: Host, version: str, called: str) -> None:
    environment = host({"clang++": version})
    found = missing(environment)
    assert found.reason == f"{environment['PATH']}/clang++ is {called}"
    assert found.remedy == "install clang++ 19 or newer"


def test_a_newer_compiler_is_found_behind_an_old_one(host: Host) -> None:
    environment = host({"clang++": "clang version 14.0.6", "clang++-19": "clang version 19.1.7"})
    assert there(environment).compiler.endswith("/clang++-19")


def test_an_unknown_sanitizer_is_refused(host: Host) -> None:
    assert "'thread'" in missing({**host(), SANITIZE: "thread"}).reason


def test_assertions_stay_on_whatever_is_built(host: Host) -> None:
    plain, sanitized = there(host()), there({**host(), SANITIZE: "address"})
    for each in (plain, sanitized):
        assert "-UNDEBUG" in each.flags
        assert "-DNDEBUG" not in each.flags
    assert "-fsanitize=address" in sanitized.flags
    assert sanitized.facts["sanitizer"] == "address"
    assert plain.key != sanitized.key


def test_other_headers_have_another_key(host: Host, headers: Path, tmp_path: Path) -> None:
    before = there(host())
    other = tmp_path / "other"
    headers.rename(other)
    same = there({**host(), ROOT: str(other)})
    assert before.digest == same.digest
    (other / "include" / "pto" / "cpu" / "TLoad.hpp").write_text("// changed\n")
    third = tmp_path / "third"
    other.rename(third)
    assert there({**host(), ROOT: str(third)}).digest != before.digest


def test_headers_and_compiler_tell_the_toolchains_of_hosts_apart(host: Host) -> None:
    ours = toolchain("isa", host())
    assert set(ours) == {"pto_isa", "compiler"}
    later = host({"clang++": "clang version 20.1.0"})
    other = toolchain("isa", {**later, "PATH": f"{later['PATH']}:/nowhere"})
    assert {name for name in ours if ours[name] != other[name]} == {"compiler"}
    assert toolchain("isa", {**host(), ROOT: ""}) == {}
    assert toolchain("emulator", host()) == {}, "it compiles nothing"
