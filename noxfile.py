"""Sessions. All share one environment; arguments after `--` go to the program that the session runs."""

from __future__ import annotations

import hashlib
import os
import sys
from importlib import metadata
from pathlib import Path

import nox
from nox.command import CommandFailed

nox.needs_version = ">=2026.8.17"  # the first whose CommandFailed has the exit code
nox.options.default_venv_backend = "venv"
nox.options.sessions = ["device"]
nox.options.reuse_existing_virtualenvs = True

ROOT = Path(__file__).parent
ENVIRONMENT = Path(nox.options.envdir or ROOT / ".nox") / "environment"
PYTHON = str(ENVIRONMENT / "bin" / "python")
TORCH_INDEX = "PIPELINE_TORCH_INDEX"
CPU_BUILDS = "https://download.pytorch.org/whl/cpu"
PATIENCE = ("--retries", "0", "--timeout", "10")
"""A host that cannot reach an index learns so at once."""

OTHER_PYTHONS = ["3.10", "3.12", "3.13"]
WITHOUT_WHEELS = ("torch", "pypto", "ray")
WORST_FIRST = (3, 2, 1, 4, 6, 5)
"""The pipeline's exit codes of red runs."""

RED: dict[str, int] = {}
"""The exit code of each session of the pipeline that was red."""


@nox.session(python=False)
def environment(session: nox.Session) -> None:
    """Make the shared environment; make it again after pyproject.toml has changed."""
    stamp = ENVIRONMENT / "made-from"
    made_from = hashlib.sha256((ROOT / "pyproject.toml").read_bytes() + sys.version.encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == made_from:
        return
    session.run(sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT), external=True)
    install_cpu_build(session)
    session.run(PYTHON, "-m", "pip", "install", "--no-compile", "-e", ".[dev]", external=True)
    # On all processors; some packages bring files for other Pythons, which do not compile.
    packages = str(ENVIRONMENT / "lib")
    session.run(
        PYTHON, "-m", "compileall", "-q", "-q", "-j", "0", packages, external=True, success_codes=[0, 1]
    )
    warn_of_gpu_build(session)
    stamp.write_text(made_from)


def install_cpu_build(session: nox.Session) -> None:
    """Install the pinned torch from an index of CPU builds; warn if it has none, or cannot be reached.

    What torch needs comes later, from the index of everything else.
    """
    index = os.environ.get(TORCH_INDEX) or CPU_BUILDS
    dependencies = nox.project.load_toml("pyproject.toml")["project"]["dependencies"]
    pinned = next(line for line in dependencies if line.startswith("torch"))
    install = (
        PYTHON,
        "-m",
        "pip",
        "install",
        "--no-compile",
        "--only-binary",
        ":all:",
        "--no-deps",
        *PATIENCE,
    )
    try:
        session.run(*install, "--index-url", index, pinned, external=True)
    except CommandFailed:
        session.warn(
            f"{index} cannot be reached, or has no {pinned} for this Python: the default index is asked. "
            f"{TORCH_INDEX} names another index of CPU builds"
        )


def warn_of_gpu_build(session: nox.Session) -> None:
    """Warn if a GPU build of torch was installed: gigabytes that nothing here uses."""
    (packages,) = ENVIRONMENT.glob("lib/python*/site-packages")
    for torch in metadata.distributions(name="torch", path=[str(packages)]):
        if any(line.startswith(("nvidia-", "cuda-")) for line in torch.requires or []):
            session.warn(
                f"torch {torch.version} is a GPU build: gigabytes that nothing here uses. To avoid it, "
                f"delete {ENVIRONMENT} and set {TORCH_INDEX} to an index of CPU builds that this host can "
                f"reach, such as a mirror of {CPU_BUILDS}"
            )


def shared(session: nox.Session, *command: str) -> None:
    """Run a Python command in the shared environment, with the session's arguments appended."""
    session.run(PYTHON, *command, *session.posargs, external=True)


def pipeline(session: nox.Session, *command: str) -> None:
    """Run the pipeline. If it is red, Nox goes on to the next session, and `verdict` settles the exit code.

    Nox does not react to Ctrl-C: the pipeline ends its jobs and writes its report.
    """
    try:
        session.run(PYTHON, "-m", "pipeline", *command, external=True, interrupt_timeout=None)
    except CommandFailed as failed:
        code = failed.return_code
        RED[session.name] = code if code in WORST_FIRST else 3  # killed, or never started
        session.notify("verdict")
        raise


@nox.session(python=False, default=False)
def verdict(session: nox.Session) -> None:
    """End Nox with the worst exit code of the pipeline; Nox itself would give 1, a mismatch, for all of them.

    The sessions of the pipeline queue this one themselves, after all that were asked for.
    """
    session.log("red: " + ", ".join(f"{name} (exit code {code})" for name, code in RED.items()))
    sys.exit(next((code for code in WORST_FIRST if code in RED.values()), 0))


@nox.session(python=False, requires=["environment"])
def compile(session: nox.Session) -> None:
    """Compile lane: every kernel of the matrix, checked and costed; no card is needed."""
    pipeline(session, "compile", *session.posargs)


@nox.session(python=False, requires=["environment"])
def device(session: nox.Session) -> None:
    """Device lane: every kernel of the matrix run and compared with the golden."""
    pipeline(session, "run", *session.posargs)


@nox.session(python=False, requires=["environment"])
def compare(session: nox.Session) -> None:
    """Compare lane: every stage of every workload, and which stage is the first wrong one."""
    pipeline(session, "compare", *session.posargs)


@nox.session(python=False, requires=["environment"])
def report(session: nox.Session) -> None:
    """Show the last run's report, or do what is given after `--` (`show RUN`, `merge FILES --out FILE`)."""
    pipeline(session, "report", *(session.posargs or ["show"]))


@nox.session(python=False, requires=["environment"])
def history(session: nox.Session) -> None:
    """Ask the history a question: `QUESTION [RUN]`, such as `new`, `failing`, `flaky`."""
    pipeline(session, "history", *session.posargs)


@nox.session(python=False, requires=["environment"])
def notify(session: nox.Session) -> None:
    """Tell others how a run went: `RUN`, and how (`--markdown FILE`, `--annotations`, `--webhook FILE`)."""
    pipeline(session, "notify", *session.posargs)


@nox.session(python=False, requires=["environment"])
def dashboard(session: nox.Session) -> None:
    """Write the dashboard of the last run again, or of `RUN`; `--site DIR` writes it to another folder."""
    pipeline(session, "dashboard", *session.posargs)


@nox.session(python=False, requires=["environment"])
def tests(session: nox.Session) -> None:
    """All tests."""
    shared(session, "-m", "pytest", "-n", "auto", "--dist", "worksteal")


@nox.session(python=False, requires=["environment"])
def chaos(session: nox.Session) -> None:
    """A few hundred jobs that fail in every way at once, while their runner is killed and resumed."""
    session.env["CHAOS_JOBS"] = "300"
    shared(session, "-m", "pytest", "tests/acceptance/chaos")


@nox.session(python=False, requires=["environment"])
def cluster(session: nox.Session) -> None:
    """Runs on real Ray clusters, the long tests too; needs Ray and namespaces."""
    shared(session, "-m", "pytest", "tests/pipeline/run/cluster")


@nox.session(python=False, requires=["environment"])
def faults(session: nox.Session) -> None:
    """Inject every known fault with every profile: which profiles detect it, and how it is diagnosed."""
    shared(session, "-m", "pipeline.faults.matrix")


@nox.session(python=False, requires=["environment"])
def mutants(session: nox.Session) -> None:
    """Make mistakes in copies of the kernels: does the proof detect them, and does it name the line?"""
    shared(session, "-m", "benchmarks.mutants")


@nox.session(python=False, requires=["environment"])
def nights(session: nox.Session) -> None:
    """Ten nights of the matrix in the folder given after `--`, and what the history answers to them."""
    shared(session, "-m", "benchmarks.nights")


@nox.session(python=False, requires=["environment"])
def lint(session: nox.Session) -> None:
    """Lint and format check of the code; lint of the workflows and of the shell scripts."""
    session.run(PYTHON, "-m", "ruff", "check", ".", external=True)
    session.run(PYTHON, "-m", "ruff", "format", "--check", ".", external=True)
    programs = ENVIRONMENT / "bin"
    session.run(str(programs / "zizmor"), "--offline", "--strict-collection", ".github", external=True)
    scripts = ("ci/nightly.sh", "ci/morning.sh", "ci/slurm.sh", "ci/systemd/conclude.sh", ".ci/run")
    session.run(str(programs / "shellcheck"), *scripts, external=True)


@nox.session(python=False, requires=["environment"])
def typecheck(session: nox.Session) -> None:
    """Strict type check."""
    shared(session, "-m", "mypy")


@nox.session(python=False, requires=["environment"])
def bench(session: nox.Session) -> None:
    """Every benchmark, or those named after `--`: ratios against a reference of the same run."""
    names = session.posargs or sorted(path.stem for path in (ROOT / "benchmarks").glob("[a-z]*.py"))
    for name in names:
        session.run(PYTHON, "-m", f"benchmarks.{name}", external=True)


@nox.session(python=OTHER_PYTHONS)
def portability(session: nox.Session) -> None:
    """The tests on other Pythons, without torch, pypto and Ray: what needs them is skipped with a reason."""
    project = nox.project.load_toml("pyproject.toml")["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    session.install(*(line for line in wanted if not line.startswith(WITHOUT_WHEELS)))
    session.run("python", "-m", "pytest", "-n", "auto", "--dist", "worksteal", *session.posargs)
