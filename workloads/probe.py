"""Loads a user's file in a process of its own first, so that it cannot hang or end the command.

A file may loop for ever, end the process or close its streams. The process that tries it reports success as
the last thing it does, so that none of this is taken for success. It also reports which helpers the file
imported: a fresh process always finds the same ones, whatever other processes imported before.

The verdict is kept in the environment, by the file's path and content, so that the processes of a run's jobs,
which inherit it, do not try the file again. PyPTO's own interpreter loads workloads too and has only the
standard library and NumPy, so that verdicts are read with `json`.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from pathlib import Path
from types import ModuleType

from workloads.base import WorkloadError
from workloads.loading import declared, mistake

LIMIT = 10.0
"""Seconds that loading a file may take."""

VARIABLE = "PIPELINE_WORKLOADS"
"""The environment variable with the verdicts: JSON, [mistake, sources] by digest."""

_CODE = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); import workloads.probe as p; p.serve()"
_PROJECT = tuple(
    Path(__file__).parents[1] / name
    for name in ("emulator", "golden", "kernels", "lowering", "pipeline", "workloads")
)


@dataclass(frozen=True)
class Verdict:
    """How loading ended: the line that says what is wrong, or empty; the sources of the workload."""

    mistake: str
    sources: tuple[str, ...] = ()


def probed(name: str, file: str) -> tuple[Path, ...]:
    """The sources of a user's workload: its file, then the helpers from its folder that the file imports.

    Args:
        name: the name of the workload in the matrix.
        file: the absolute path of the file.

    Raises:
        WorkloadError: the file is missing or no regular file, or it cannot be loaded.
    """
    digest = hashlib.sha256(json.dumps([name, file]).encode() + _content(file)).hexdigest()
    known = _known()
    if digest not in known:
        known[digest] = _tried(name, file)
        os.environ[VARIABLE] = json.dumps({key: astuple(verdict) for key, verdict in known.items()})
    verdict = known[digest]
    if verdict.mistake:
        raise WorkloadError(verdict.mistake)
    return tuple(map(Path, verdict.sources))


def _known() -> dict[str, Verdict]:
    """The verdicts of the environment; none if something else is written there."""
    found = _decoded(os.environ.get(VARIABLE, "{}"))
    verdicts = {key: _verdict(value) for key, value in found.items()} if isinstance(found, dict) else {}
    return {key: verdict for key, verdict in verdicts.items() if verdict}


def _decoded(text: str | bytes) -> object:
    """What JSON text holds; None if it is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _verdict(value: object) -> Verdict | None:
    """The verdict that decoded JSON holds, if it is one."""
    match value:
        case [str(words), [*sources]] if all(isinstance(source, str) for source in sources):
            return Verdict(words, tuple(map(str, sources)))
    return None


def _content(file: str) -> bytes:
    """The bytes of a regular file; anything else could be endless."""
    try:
        if not stat.S_ISREG(Path(file).stat().st_mode):
            raise WorkloadError(f"{file}: is not a regular file: name a Python file")
        return Path(file).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise WorkloadError(f"{file}: there is no such file: name a Python file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise WorkloadError(f"{file}: cannot be read: {reason}: name another file") from error


def _tried(name: str, file: str) -> Verdict:
    """The verdict of a new process that loads the file."""
    # The answer goes to a file: a process that the user's file forks would hold a pipe open.
    with tempfile.TemporaryFile() as answer:
        command = [sys.executable, "-c", _CODE, json.dumps(sys.path), name, file]
        try:
            code = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=answer,
                stderr=subprocess.DEVNULL,
                timeout=LIMIT,
                check=False,
                start_new_session=True,  # Ctrl-C is for the command, which then ends this process
            ).returncode
        except subprocess.TimeoutExpired:
            return Verdict(f"{file}: did not load within {LIMIT:.0f} s")
        answer.seek(0)
        if verdict := _verdict(_decoded(answer.read())):
            return verdict
    ended = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
    return Verdict(f"{file}: cannot be loaded: it ended the process with {ended}")


def serve() -> None:
    """Load the file that the command line names, and answer with the verdict on standard output."""
    signal.alarm(int(LIMIT) + 5)  # ends this process if the command that waits for it is killed
    answer = os.dup(1)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    _, _, name, file = sys.argv
    before = set(sys.modules)
    try:
        declared(name, file, ())
        new = [module for key, module in list(sys.modules.items()) if key not in before]
        verdict = Verdict("", (file, *helpers(file, new)))
    except WorkloadError as error:
        verdict = Verdict(str(error))
    except KeyboardInterrupt as error:  # the file's own: this process gets no Ctrl-C
        verdict = Verdict(str(mistake(error, file)))
    os.write(answer, json.dumps(astuple(verdict)).encode())
    os._exit(0)  # what the file registered for the end of the process is not run


def helpers(file: str, modules: Iterable[ModuleType]) -> list[str]:
    """The files of the modules that lie in the folder of a user's file or below.

    Those of this project and of installed packages are left out.
    """
    folder, found = Path(file).resolve().parent, set()
    for module in modules:
        origin = getattr(module, "__file__", None)
        if not isinstance(origin, str):
            continue
        path = Path(origin).resolve()
        ours = any(path.is_relative_to(package) for package in _PROJECT)
        installed = path.is_relative_to(sys.prefix) or "site-packages" in path.parts
        if path.is_relative_to(folder) and path != Path(file).resolve() and not ours and not installed:
            found.add(str(path))
    return sorted(found)
