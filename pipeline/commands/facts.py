"""Facts of a run that its report carries: where it ran, of which source, with which packages."""

from __future__ import annotations

import hashlib
import os
import platform
import socket
import subprocess
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from pipeline.ground.files import read_file
from pipeline.ground.jobs import Job
from pipeline.ground.subject import workload_of
from workloads.base import WorkloadError

_PACKAGES = ("numpy", "torch", "pypto", "junit-xml")
_SOURCE = Path(__file__).parents[2]


def run_facts(command: Sequence[str]) -> dict[str, str]:
    """Host, processors, Python, versions of the packages that matter, git commit, command line."""
    facts = {
        "host": socket.gethostname(),
        "system": platform.platform(),
        "processors": str(os.cpu_count()),
        "python": platform.python_version(),
        "git": _git(),
        "command": " ".join(["python -m pipeline", *command]),
    }
    return facts | {name: _version(name) for name in _PACKAGES}


def workload_facts(plan: Sequence[Job]) -> dict[str, str]:
    """For each of the user's own workloads in a plan, a short SHA-256 over the files that define it."""
    own = {job.workload.name: job for job in plan if job.workload.file}
    return {f"workload.{name}": _sources_digest(job) for name, job in sorted(own.items())}


def _sources_digest(job: Job) -> str:
    try:
        sources = workload_of(job).definition.sources
    except WorkloadError:
        sources = (Path(job.workload.file),)
    try:
        digests = [hashlib.sha256(read_file(path)).digest() for path in sources]
    except OSError:
        return "unreadable"
    return hashlib.sha256(b"".join(digests)).hexdigest()[:12]


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _git() -> str:
    """The commit of these sources, with `-dirty` where they differ from it."""
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            cwd=_SOURCE,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return found.stdout.strip()
