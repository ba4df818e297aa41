"""What this host has of the PyPTO toolchain: the interpreter, its PyPTO, PTOAS, simpler, CANN, cards.

Version numbers decide nothing, the parts that are needed are looked for; except that PyPTO itself refuses an
assembler older than the version it names.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path

import msgspec

from emulator.operators import OPERATORS
from pipeline.engines.base import Availability
from pipeline.engines.identity import Framework
from pipeline.engines.npu_smi import survey_host
from pipeline.engines.process import child_environment, compiler_version
from pipeline.engines.pypto.inquiry import Installed
from pipeline.engines.pypto.messages import BACKEND_TYPES
from pipeline.ground.jobs import Platform
from pipeline.ground.programs import typed_program
from pipeline.ground.subject import Subject
from workloads.base import Workload

PYTHON = "PIPELINE_PYTHON"
"""Environment variable: the interpreter whose environment has PyPTO; by default the pipeline's own."""

PTOAS = "PTOAS_ROOT"
CANN = "ASCEND_HOME_PATH"

_CANN_TOOLS = ("bin/ccec", "bin/ld.lld")
"""What simpler compiles and links a card's kernels with, in CANN's folder."""

_PTOAS_FILES = ("ptoas", "ptoas.sh", "bin/ptoas")
"""Where releases of PTOAS have their executable; a launcher is preferred to the bare binary."""

_PTOAS_VERSION = re.compile(r"\bptoas\s+(?:version\s+)?(v?\d+(?:\.\d+)+)")
"""As PTOAS prints it; another tool's version, such as LLVM's, is not one."""

_SIMULATOR_COMPILER = "g++-15"
_SOURCE_CANN = "source CANN's set_env.sh"
_DRIVER = Path("/usr/local/Ascend/driver/version.info")
_PATIENCE = 120.0
_UNKNOWN = "of unknown version"


def interpreter(environment: Mapping[str, str]) -> Path:
    """The interpreter that runs PyPTO."""
    return Path(environment.get(PYTHON) or sys.executable)


def toolchain_name(platform: Platform) -> str:
    """The toolchain's name of a platform: `a2a3` or `a5`; with `sim` behind it for a CPU simulator."""
    return platform.soc if platform.on_cards else f"{platform.soc}sim"


def find_ptoas(environment: Mapping[str, str]) -> Path | None:
    """The assembler: in `PTOAS_ROOT` if that is set, else on PATH."""
    root = environment.get(PTOAS)
    if root:
        files = (Path(root) / name for name in _PTOAS_FILES)
        return next((file for file in files if file.is_file() and os.access(file, os.X_OK)), None)
    found = shutil.which("ptoas", path=environment.get("PATH"))
    return Path(found) if found else None


@cache
def operators_of(workload: Workload, program: str, soc: str) -> frozenset[str]:
    """The operators that a program calls. It is read for the workload's example geometry.

    The geometry changes only how often operators are called, not which ones.
    """
    return typed_program(Subject(workload, workload.example, soc), program).operators


def available(
    platform: Platform,
    workload: Workload,
    programs: Sequence[str],
    compile_only: bool,
    environment: Mapping[str, str],
) -> Availability:
    """Whether these programs can be compiled, and unless `compile_only` run, on a platform of this host."""
    if platform.soc not in BACKEND_TYPES:
        return Availability(
            f"PyPTO has no backend for soc {platform.soc}", f"use one of {', '.join(BACKEND_TYPES)}"
        )
    found = _pypto(environment)
    if not found:
        return found
    installed = inquire(environment)
    needed = frozenset[str]().union(*(operators_of(workload, program, platform.soc) for program in programs))
    missing = [f"pl.{name}" for name in OPERATORS if name in needed and name not in installed.operators]
    if missing:
        remedy = f"install a PyPTO that has them in the environment of {PYTHON}"
        return Availability(f"{installed.description} has no {', '.join(missing)}", remedy)
    if compile_only:
        # An assembler that is there is used.
        return _ptoas(environment, installed) if find_ptoas(environment) else Availability()
    return _runtime(installed, environment) and (
        _cards(platform, environment) if platform.on_cards else _simulator(environment)
    )


def preflight(platforms: Sequence[Platform], environment: Mapping[str, str]) -> tuple[str, ...]:
    """What is wrong with the toolchain as it was set up, one line per problem, before any job has started.

    A part that is not installed is no problem here: the jobs that need it are skipped with that reason. A
    problem is a part that was set up but cannot be used, or parts that do not fit each other.
    """
    mine = [platform for platform in platforms if platform.backend == "pypto"]
    if not mine:
        return ()
    found = _pypto(environment)
    problems = [found] if environment.get(PYTHON) else []
    installed = inquire(environment) if found else None
    unfit = installed.runtime_problem if installed else ""
    if installed and unfit and "No module named 'simpler" not in unfit:
        problems.append(
            Availability(
                f"{installed.description} and its runtime do not fit: {unfit}",
                "install the simpler of PyPTO's own runtime submodule",
            )
        )
    if environment.get(PTOAS) or (installed and find_ptoas(environment)):
        problems.append(_ptoas(environment, installed))
    if environment.get(CANN):
        problems.append(_cann(environment[CANN], tools=any(platform.on_cards for platform in mine)))
    return tuple(f"{problem.reason}; {problem.remedy}" for problem in problems if not problem)


def versions(environment: Mapping[str, str]) -> dict[str, str]:
    """Facts for the report: the parts of the toolchain, each with its version if that is known."""
    installed = inquire(environment)
    ptoas = find_ptoas(environment)
    facts = {
        "pypto": installed.description,
        "ptoas": (_ptoas_version(str(ptoas)) or _UNKNOWN) if ptoas else "none: kernels are left as .pto",
        "simpler": installed.simpler or "none",
        "cann": _cann_version(environment),
        "driver": _field(_DRIVER, "Version") or "none",
    }
    return facts | ({"npu_smi": survey_host().version} if survey_host().version else {})


def built_with(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Those of `versions` that decide what is built, with the simulators' compiler; empty without PyPTO."""
    if not _pypto(environment):
        return {}
    found = versions(environment)
    built = {name: found[name] for name in ("pypto", "ptoas", "simpler", "cann")}
    return built | {_SIMULATOR_COMPILER: compiler_version(_SIMULATOR_COMPILER, environment) or "none"}


def inquire(environment: Mapping[str, str]) -> Installed:
    """What the interpreter has; asked once per process for each interpreter and environment.

    Raises:
        OSError: it cannot be run; `available` and `preflight` report that before.
    """
    return _inquire(str(interpreter(environment)), tuple(sorted(child_environment(environment).items())))


@lru_cache(maxsize=4)
def _inquire(python: str, environment: tuple[tuple[str, str], ...]) -> Installed:
    said = subprocess.run(
        [python, "-m", "pipeline.engines.pypto.inquiry", *OPERATORS],
        env=dict(environment),
        capture_output=True,
        text=True,
        timeout=_PATIENCE,
        check=False,
    )
    answer = said.stdout.strip().rpartition("\n")[2]  # imports may have printed before it
    try:
        return msgspec.json.decode(answer, type=Installed)
    except msgspec.DecodeError:
        lines = (said.stderr or said.stdout).strip().splitlines() or ["it printed nothing"]
        return Installed(Framework.NONE, "nothing that runs", problem=lines[-1])


def _pypto(environment: Mapping[str, str]) -> Availability:
    """Whether the interpreter runs and has PyPTO from hw-native-sys."""
    python = interpreter(environment)
    where = f"{PYTHON}={python}" if environment.get(PYTHON) else f"this environment ({python})"
    remedy = f"set {PYTHON} to the Python of an environment with {Framework.HW_NATIVE_SYS.value}"
    if not (python.is_absolute() and python.is_file() and os.access(python, os.X_OK)):
        return Availability(f"{where}: not the absolute path of an executable file", remedy)
    try:
        installed = inquire(environment)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Availability(f"{where}: {error}", remedy)
    if installed.problem:
        return Availability(f"{where}: {installed.problem}", remedy)
    if installed.framework is not Framework.HW_NATIVE_SYS:
        reason = f"needs {Framework.HW_NATIVE_SYS.value}, but {where} has {installed.description}"
        return Availability(reason, remedy)
    return Availability()


def _ptoas(environment: Mapping[str, str], installed: Installed | None) -> Availability:
    """Whether there is an assembler that runs, and is as new as the PyPTO that is installed requires."""
    found = find_ptoas(environment)
    if found is None:
        root = environment.get(PTOAS)
        reason = f"{PTOAS}={root} holds no executable {_PTOAS_FILES[0]}" if root else f"{PTOAS} is not set"
        return Availability(reason, f"set {PTOAS} to the folder of an unpacked PTOAS release")
    version = _ptoas_version(str(found))
    if not version:
        return Availability(
            f"{found} --version prints no version", "install the PTOAS release made for this system"
        )
    if installed and _numbers(version) < _numbers(installed.ptoas):
        return Availability(
            f"{found} is PTOAS {version}, but {installed.description} requires {installed.ptoas} or newer",
            f"install PTOAS {installed.ptoas} or newer, and set {PTOAS} to its folder",
        )
    return Availability()


def _numbers(version: str) -> tuple[int, ...]:
    """A version's numbers; those of an empty one are before those of any other."""
    return tuple(map(int, re.findall(r"\d+", version)))


@lru_cache(maxsize=4)
def _ptoas_version(executable: str) -> str:
    """The version that the assembler prints; empty if it does not run."""
    try:
        said = subprocess.run(
            [executable, "--version"], capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = _PTOAS_VERSION.search(said.stdout + said.stderr)
    return found.group(1) if said.returncode == 0 and found else ""


def _runtime(installed: Installed, environment: Mapping[str, str]) -> Availability:
    ptoas = _ptoas(environment, installed)
    if not ptoas:
        return Availability(f"running kernels needs PTOAS: {ptoas.reason}", ptoas.remedy)
    if installed.runtime_problem:
        remedy = f"install simpler, PyPTO's runtime, in the environment of {PYTHON}"
        return Availability(f"PyPTO's runtime cannot be imported: {installed.runtime_problem}", remedy)
    return Availability()


def _simulator(environment: Mapping[str, str]) -> Availability:
    if shutil.which(_SIMULATOR_COMPILER, path=environment.get("PATH")) is None:
        return Availability(
            f"the CPU simulators compile with {_SIMULATOR_COMPILER}, which is not on PATH",
            f"install GCC 15, or put clang++ 19 or newer on PATH under the name {_SIMULATOR_COMPILER}",
        )
    return Availability()


def _cards(platform: Platform, environment: Mapping[str, str]) -> Availability:
    if not environment.get(CANN):
        return Availability(f"cards need CANN: {CANN} is not set", _SOURCE_CANN)
    cann = _cann(environment[CANN], tools=True)
    if not cann:
        return cann
    survey = survey_host()
    if survey.problem:
        return Availability(f"no cards: {survey.problem}", "install the driver of the cards")
    if not survey.of(platform.soc):
        names = ", ".join(f"{card.number}: {card.name} ({card.health})" for card in survey.cards) or "none"
        reason = f"no working card of {platform.soc} among those here: {names}"
        return Availability(reason, "use a host that has one")
    return Availability()


def _cann(home: str, *, tools: bool) -> Availability:
    """Whether CANN's folder is there, and with `tools` what compiles a card's kernels."""
    if not Path(home).is_dir():
        return Availability(f"{CANN}={home}: there is no such folder", _SOURCE_CANN)
    missing = [name for name in _CANN_TOOLS if tools and not (Path(home) / name).is_file()]
    if missing:
        return Availability(f"{CANN}={home}: it has no {', '.join(missing)}", _SOURCE_CANN)
    return Availability()


def _cann_version(environment: Mapping[str, str]) -> str:
    home = environment.get(CANN)
    if not home:
        return "none"
    notes = sorted(Path(home).glob("*-linux/ascend_toolkit_install.info"))
    return next(filter(None, (_field(note, "version") for note in notes)), _UNKNOWN)


def _field(path: Path, name: str) -> str:
    """A field of a `name=value` file; empty if there is none."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.partition("=")[2].strip() for line in lines if line.startswith(f"{name}=")), "")
