from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from pipeline.commands.cli import main
from pipeline.engines.npu_smi import parse
from pipeline.engines.pypto import toolchain
from pipeline.ground.jobs import Platform, PlatformKind
from workloads.registry import workload_named

DATA = Path(__file__).parents[3] / "data"
CARDS = Platform("a2a3", "pypto", "a2a3", kind=PlatformKind.CARD)
SIMULATOR = Platform("a5sim", "pypto", "a5", kind=PlatformKind.SIMULATOR)
PAIR, GEMM = workload_named("conv-pair"), workload_named("gemm")
ALL = tuple(program.name for program in PAIR.programs)


def reason(platform: Platform, environment: dict[str, str], *, compile_only: bool = False) -> str:
    found = toolchain.available(platform, PAIR, ALL, compile_only, environment)
    assert bool(found) == (not found.reason)
    assert bool(found) or found.remedy
    return found.reason


@pytest.mark.parametrize(
    ("platform", "name"),
    [
        (CARDS, "a2a3"),
        (SIMULATOR, "a5sim"),
        (Platform("lab-sim", "pypto", "a5", kind=PlatformKind.CARD), "a5"),
    ],
)
def test_platforms_have_the_toolchains_names(platform: Platform, name: str) -> None:
    assert toolchain.toolchain_name(platform) == name


def test_compiling_needs_the_framework_alone(stand_in: Any) -> None:
    environment = stand_in.environment()
    assert reason(CARDS, environment, compile_only=True) == ""
    assert reason(CARDS, environment) == "running kernels needs PTOAS: PTOAS_ROOT is not set"


def test_a_simulator_needs_its_compiler(stand_in: Any) -> None:
    stand_in.add("ptoas", "echo 'ptoas v0.57'")
    assert "g++-15, which is not on PATH" in reason(SIMULATOR, stand_in.environment())
    stand_in.add("g++-15")
    assert reason(SIMULATOR, stand_in.environment()) == ""


def test_cards_need_cann_and_a_card_of_their_soc(
    stand_in: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in.add("ptoas", "echo 'ptoas v0.57'")
    environment = stand_in.environment()
    assert reason(CARDS, environment) == "cards need CANN: ASCEND_HOME_PATH is not set"
    environment["ASCEND_HOME_PATH"] = str(tmp_path)
    assert reason(CARDS, environment) == f"ASCEND_HOME_PATH={tmp_path}: it has no bin/ccec, bin/ld.lld"
    assert toolchain.preflight([SIMULATOR], environment) == ()
    (line,) = toolchain.preflight([SIMULATOR, CARDS], environment)
    assert line.endswith("it has no bin/ccec, bin/ld.lld; source CANN's set_env.sh")
    for name in ("ccec", "ld.lld"):
        stand_in.add(name)
    environment["ASCEND_HOME_PATH"] = str(stand_in.bin.parent)
    monkeypatch.setattr(toolchain, "survey_host", lambda: parse((DATA / "npu-smi/950.txt").read_text()))
    assert reason(CARDS, environment) == (
        "no working card of a2a3 among those here: 0: Ascend950PR (OK), 1: Ascend950PR (Alarm)"
    )
    monkeypatch.setattr(toolchain, "survey_host", lambda: parse((DATA / "npu-smi/910b.txt").read_text()))
    assert reason(CARDS, environment) == ""


def test_missing_operators_are_named(stand_in: Any) -> None:
    environment = stand_in.environment(without=["tile.fixpipe_requant", "tile.img2col", "tile.create"])
    assert reason(CARDS, environment, compile_only=True) == (
        "hw-native-sys PyPTO 0.1.0 (commit 0123456789ab) has no pl.tile.create, pl.tile.img2col,"
        " pl.tile.fixpipe_requant"
    )
    # A kernel that does not need what is missing can go on.
    without_requant = stand_in.environment(without=["tile.fixpipe_requant"])
    assert toolchain.available(CARDS, PAIR, ["pass1", "pass2"], True, without_requant)
    assert not toolchain.available(CARDS, PAIR, ["fused"], True, without_requant)


def test_a_matrix_product_compiles_without_the_operators_of_convolutions_and_runs_with_ptoas(
    stand_in: Any,
) -> None:
    lacking = ["tile.img2col", "tile.fixpipe_requant", "tile.fixpipe_store", "tile.gather_row"]
    environment = stand_in.environment(without=lacking)
    assert not toolchain.available(CARDS, PAIR, ["pass1"], True, environment)
    assert toolchain.available(CARDS, GEMM, ["gemm"], True, environment)
    for platform in (CARDS, SIMULATOR):
        found = toolchain.available(platform, GEMM, ["gemm"], False, environment)
        assert found.reason == "running kernels needs PTOAS: PTOAS_ROOT is not set"
        assert found.remedy == "set PTOAS_ROOT to the folder of an unpacked PTOAS release"
    stand_in.add("ptoas", "echo 'ptoas v0.57'")
    stand_in.add("g++-15")
    assert toolchain.available(SIMULATOR, GEMM, ["gemm"], False, environment)


def test_another_package_of_the_name_is_not_used(stand_in: Any, tmp_path: Path) -> None:
    info = tmp_path / "other" / "pypto-0.2.0.dist-info"
    (tmp_path / "other" / "pypto" / "frontend").mkdir(parents=True)
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pypto\nVersion: 0.2.0\n")
    environment = stand_in.environment() | {"PYTHONPATH": str(tmp_path / "other")}
    assert f"PIPELINE_PYTHON={stand_in.python} has CANN PyPTO 0.2.0" in reason(CARDS, environment)


def test_an_environment_without_the_framework_is_said(stand_in: Any, bare_python: Path) -> None:
    environment = stand_in.environment() | {"PIPELINE_PYTHON": str(bare_python)}
    assert reason(CARDS, environment) == (
        f"needs hw-native-sys PyPTO, but PIPELINE_PYTHON={bare_python} has no package called pypto"
    )


@pytest.mark.parametrize(
    ("python", "problem"),
    [
        ("python3", "not the absolute path of an executable file"),
        ("/nowhere/python", "not the absolute path of an executable file"),
        ("/bin/false", "it printed nothing"),
    ],
)
def test_an_interpreter_that_is_none_is_said_once_before_the_run(python: str, problem: str) -> None:
    environment = {"PATH": os.environ["PATH"], "PIPELINE_PYTHON": python}
    assert reason(CARDS, environment).startswith(f"PIPELINE_PYTHON={python}: ")
    (line,) = toolchain.preflight([CARDS, SIMULATOR], environment)
    assert problem in line
    assert "set PIPELINE_PYTHON to the Python of an environment with hw-native-sys PyPTO" in line


def test_preflight_names_settings_that_lead_nowhere(stand_in: Any, tmp_path: Path) -> None:
    environment = stand_in.environment() | {"PTOAS_ROOT": str(tmp_path), "ASCEND_HOME_PATH": "/nowhere"}
    assert toolchain.preflight([CARDS], environment) == (
        f"PTOAS_ROOT={tmp_path} holds no executable ptoas; set PTOAS_ROOT to the folder of an unpacked PTOAS"
        " release",
        "ASCEND_HOME_PATH=/nowhere: there is no such folder; source CANN's set_env.sh",
    )


def test_preflight_finds_an_assembler_that_does_not_run_here(stand_in: Any) -> None:
    broken = stand_in.add("ptoas", "echo 'requires CPython 3.10' >&2; exit 1")
    (line,) = toolchain.preflight([CARDS], stand_in.environment() | {"PTOAS_ROOT": str(broken.parent)})
    assert line.startswith(f"{broken} --version prints no version; ")


@pytest.mark.parametrize(
    "printed",
    ["ptoas 0.55", "ptoas v0.60.9", "ptoas version 0.7", "LLVM version 19.1.7", ""],
)
def test_an_assembler_older_than_pypto_requires_stops_a_run_before_its_first_job(
    stand_in: Any, printed: str
) -> None:
    """PyPTO's own message (pull request 2807), and its way to read `ptoas --version`."""
    ptoas = stand_in.add("ptoas", f"echo '{printed}'")
    environment = stand_in.environment(ptoas="v0.61")
    version = printed.removeprefix("ptoas ").removeprefix("version ")
    expected = (
        f"{ptoas} is PTOAS {version}, but hw-native-sys PyPTO 0.1.0 (commit 0123456789ab) requires v0.61 or"
        " newer; install PTOAS v0.61 or newer, and set PTOAS_ROOT to its folder"
        if printed.startswith("ptoas")
        else f"{ptoas} --version prints no version; install the PTOAS release made for this system"
    )
    for place in ({}, {"PTOAS_ROOT": str(ptoas.parent)}):
        assert toolchain.preflight([SIMULATOR], environment | place) == (expected,)
    for compile_only in (True, False):
        found = toolchain.available(SIMULATOR, GEMM, ["gemm"], compile_only, environment)
        assert f"{found.reason}; {found.remedy}".removeprefix("running kernels needs PTOAS: ") == expected


@pytest.mark.parametrize("printed", ["ptoas 0.61", "ptoas v0.61.1", "ptoas 0.62.0git", "ptoas 1.0"])
def test_an_assembler_as_new_as_pypto_requires_is_used(stand_in: Any, printed: str) -> None:
    stand_in.add("ptoas", f"echo '{printed}'")
    environment = stand_in.environment(ptoas="v0.61")
    assert toolchain.preflight([SIMULATOR], environment) == ()
    assert reason(SIMULATOR, environment, compile_only=True) == ""


def test_doctor_and_a_run_say_of_an_old_assembler_the_same_and_begin_no_job(
    stand_in: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ptoas = stand_in.add("ptoas", "echo 'ptoas 0.55'")
    for name, value in stand_in.environment(ptoas="v0.61").items():
        monkeypatch.setenv(name, value)
    matrix = tmp_path / "sim.yaml"
    matrix.write_text(
        "platforms:\n  my-sim: {backend: pypto, kind: simulator, soc: a5}\n"
        "lanes:\n  compile: {include: [{platforms: [my-sim], geometries: [gemm-128], kernels: [gemm]}]}\n"
    )
    said = (
        f"{ptoas} is PTOAS 0.55, but hw-native-sys PyPTO 0.1.0 (commit 0123456789ab) requires v0.61 or newer"
    )
    assert main(["doctor", "--matrix", str(matrix)]) == 6
    printed = capsys.readouterr().out
    assert f"problem: {said}; install PTOAS v0.61 or newer" in printed
    assert "my-sim compile: 0 of 1 job can run" in printed
    output = tmp_path / "out"
    command = ["compile", "--matrix", str(matrix), "--platform", "my-sim", "--output", str(output)]
    assert main(command) == 6
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(said)
    assert not output.exists()


def test_a_pypto_that_names_no_assembler_requires_none(stand_in: Any) -> None:
    stand_in.add("ptoas", "echo 'ptoas 0.48'")
    assert toolchain.preflight([SIMULATOR], stand_in.environment()) == ()
    # Without an assembler PyPTO leaves its kernels as they are, whatever it requires.
    (stand_in.bin / "ptoas").unlink()
    environment = stand_in.environment(ptoas="v0.61")
    assert toolchain.preflight([SIMULATOR], environment) == ()
    assert reason(SIMULATOR, environment, compile_only=True) == ""


def test_preflight_finds_a_runtime_of_another_framework_version(stand_in: Any, tmp_path: Path) -> None:
    (tmp_path / "simpler_setup.py").write_text("raise ImportError('undefined symbol: _Z3fooi')\n")
    environment = stand_in.environment() | {"PYTHONPATH": str(tmp_path)}
    (line,) = toolchain.preflight([CARDS], environment)
    assert "and its runtime do not fit: ImportError: undefined symbol" in line


def test_preflight_leaves_what_is_not_there_to_the_jobs(stand_in: Any) -> None:
    assert toolchain.preflight([CARDS, SIMULATOR], stand_in.environment()) == ()
    assert toolchain.preflight([Platform("emu", "emulator", "a2a3")], {"PIPELINE_PYTHON": "nothing"}) == ()


@pytest.mark.parametrize("place", ["ptoas", "ptoas.sh", "bin/ptoas"])
def test_the_assembler_is_found_in_its_root_and_nowhere_else(
    stand_in: Any, tmp_path: Path, place: str
) -> None:
    stand_in.add("ptoas")
    environment = stand_in.environment() | {"PTOAS_ROOT": str(tmp_path / "root")}
    assert toolchain.find_ptoas(environment) is None
    path = tmp_path / "root" / place
    path.parent.mkdir(parents=True)
    path.touch(mode=0o755)
    assert toolchain.find_ptoas(environment) == path


def test_versions_are_facts(stand_in: Any, tmp_path: Path) -> None:
    stand_in.add("ptoas", "echo 'ptoas v0.57'")
    note = tmp_path / "cann" / "aarch64-linux" / "ascend_toolkit_install.info"
    note.parent.mkdir(parents=True)
    note.write_text("package_name=Ascend-cann-toolkit\nversion=8.5.0\n")
    facts = toolchain.versions(stand_in.environment() | {"ASCEND_HOME_PATH": str(tmp_path / "cann")})
    assert facts["pypto"] == "hw-native-sys PyPTO 0.1.0 (commit 0123456789ab)"
    assert facts["ptoas"] == "v0.57"
    assert facts["cann"] == "8.5.0"
    # The drivers of hosts may differ; what is built on them may not.
    built = toolchain.built_with(stand_in.environment() | {"ASCEND_HOME_PATH": str(tmp_path / "cann")})
    assert built == {name: facts[name] for name in ("pypto", "ptoas", "simpler", "cann")} | {
        "g++-15": built["g++-15"]
    }
