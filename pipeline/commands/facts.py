"""Facts of a run that its report carries: where it ran, of which source, with which packages."""

from __future__ import annotations

import hashlib
import os
import platform
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path

from pipeline.ground.files import read_file
from pipeline.ground.jobs import Job
from pipeline.ground.subject import workload_of
from workloads.base import WorkloadError

SOURCES_DIGEST = "sources.digest"
"""The fact of a run that identifies the sources that all of its parts share, committed or not."""

_PACKAGES = ("numpy", "torch", "pypto", "junit-xml")

VERSIONS = ("system", "python", *_PACKAGES)
"""The facts of a run that name what it ran with."""

_BRANCHES = ("GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME", "BRANCH_NAME")
"""Environment variables in which GitHub, GitLab and Jenkins name a branch: they check out a commit."""

ROOT = Path(__file__).parents[2]
"""The folder of these sources."""

_ROOMS = ("emulator", "golden", "kernels", "lowering", "pipeline", "workloads")


def run_facts(command: Sequence[str]) -> dict[str, str]:
    """Host, processors, Python, versions of the packages that matter, git commit, branch, command line."""
    facts = {
        "host": socket.gethostname(),
        "system": platform.platform(),
        "processors": str(os.cpu_count()),
        "python": platform.python_version(),
        "git": _git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"),
        "branch": _branch(),
        "command": " ".join(["python -m pipeline", *command]),
    }
    return facts | {name: _version(name) for name in _PACKAGES}


def workload_facts(plan: Sequence[Job]) -> dict[str, str]:
    """For each of the user's own workloads in a plan, a short SHA-256 over the files that define it."""
    own = {job.workload.name: job for job in plan if job.workload.file}
    return {f"workload.{name}": _sources_digest(job) for name, job in sorted(own.items())}


def source_digests(plan: Sequence[Job], files: Mapping[str, Path | str | None]) -> dict[str, str]:
    """A short digest of everything that the verdicts of a plan depend on, by its name.

    That is each package of the project, the user's own workloads, and `files`, those that a run reads.
    """
    rooms = {f"{room}/": _digest(_files_of(ROOT / room)) for room in _ROOMS}
    paths = {name: Path(file) for name, file in files.items() if file is not None}
    given = {name: _digest([path]) for name, path in paths.items() if path.exists()}
    return {**rooms, **workload_facts(plan), **given}


def shared_digest(digests: Mapping[str, str]) -> str:
    """A short digest of those of `source_digests` that all parts of a run share: packages and `inputs`.

    Workloads are not among them, since a shard may have no job of one, and each has a fact of its own.
    """
    shared = [f"{name}={digests.get(name)}" for name in (*(f"{room}/" for room in _ROOMS), "inputs")]
    return hashlib.sha256("\n".join(shared).encode()).hexdigest()[:12]


def source_files() -> Iterator[Path]:
    """The files of the project's packages."""
    for room in _ROOMS:
        yield from _files_of(ROOT / room)


def _files_of(folder: Path) -> list[Path]:
    return sorted(
        Path(below, name)
        for below, _, names in os.walk(folder)
        if not below.endswith("__pycache__")
        for name in names
    )


def _sources_digest(job: Job) -> str:
    try:
        sources = workload_of(job).definition.sources
    except WorkloadError:
        sources = (Path(job.workload.file),)
    return _digest(sources)


def _digest(paths: Sequence[Path]) -> str:
    try:
        digests = [hashlib.sha256(read_file(path)).digest() for path in paths]
    except OSError:
        return "unreadable"
    return hashlib.sha256(b"".join(digests)).hexdigest()[:12]


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _branch() -> str:
    named = filter(None, map(os.environ.get, _BRANCHES))
    return next(named, "") or _git("branch", "--show-current")


def _git(*words: str) -> str:
    """What git says of these sources; `unknown` if it says nothing."""
    try:
        found = subprocess.run(
            ["git", *words], cwd=ROOT, capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return found.stdout.strip() or "unknown"
