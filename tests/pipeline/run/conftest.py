from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import psutil
import pytest

from golden.geometry import Conv, Geometry
from pipeline.engines.base import Availability
from pipeline.ground.jobs import Job, Lane, Platform, WorkloadName
from pipeline.ground.results import Result
from pipeline.run import processes
from pipeline.run.begin import run_jobs
from pipeline.run.listener import RunInfo, RunSummary
from pipeline.run.options import Host, RunOptions

GEOMETRY = msgspec.to_builtins(Geometry(16, 16, 32, 32, 32, Conv(3, 1, 1), Conv(3, 1, 1)))
EMULATED = Platform("emu", "emulator", "a2a3")

JobMaker = Callable[..., Job]


@dataclass
class Watcher:
    """A listener that remembers, and acts when told."""

    infos: list[RunInfo] = field(default_factory=list)
    started: list[tuple[str, int | None, int]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    finished: list[Result] = field(default_factory=list)
    summaries: list[RunSummary] = field(default_factory=list)
    on_start: Callable[[Job], None] = lambda _job: None
    on_remark: Callable[[str], None] = lambda _text: None

    def run_started(self, run: RunInfo) -> None:
        self.infos.append(run)

    def job_started(self, job: Job, device: int | None, attempt: int) -> None:
        self.started.append((job.id, device, attempt))
        self.on_start(job)

    def remark(self, text: str) -> None:
        self.remarks.append(text)
        self.on_remark(text)

    def job_finished(self, result: Result) -> None:
        self.finished.append(result)

    def run_finished(self, summary: RunSummary) -> None:
        self.summaries.append(summary)


def alive(pid: str | int) -> bool:
    """Whether a process is there and no zombie; one may end at any moment, also between two questions."""
    try:
        return psutil.Process(int(pid)).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def make_job() -> JobMaker:
    numbers = itertools.count(1)

    def make(
        work: str = "passes", *, timeout: float = 60.0, devices: Sequence[int] = (), **changes: object
    ) -> Job:
        """A job that does `work` (see targets.py)."""
        platform = replace(EMULATED, devices=tuple(devices))
        job = Job(
            id=f"device/emu/{next(numbers)}",
            lane=Lane.DEVICE,
            platform=platform,
            workload=WorkloadName("conv-pair"),
            geometry_name="small",
            geometry=GEOMETRY,
            kernel=work,
            profile="small",
            timeout=timeout,
        )
        return replace(job, **changes)  # type: ignore[arg-type]

    return make


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunOptions:
    """Options of a run whose jobs do the work of targets.py."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    return RunOptions(
        root=tmp_path / "runs",
        cache=tmp_path / "cache",
        locks=tmp_path / "locks",
        jobs=2,
        grace=0.3,
        preload=(),
        target="targets:perform",
    )


@pytest.fixture
def host() -> Host:
    return Host(available=lambda _job: Availability())


@pytest.fixture
def watcher() -> Watcher:
    return Watcher()


@pytest.fixture
def run(options: RunOptions, host: Host, watcher: Watcher) -> Iterator[Callable[..., RunSummary]]:
    """Run jobs; afterwards nothing of them is alive."""

    def start(*jobs: Job, **changes: object) -> RunSummary:
        return run_jobs(jobs, replace(options, **changes), [watcher], host)  # type: ignore[arg-type]

    yield start
    for info in watcher.infos:
        assert processes.marked(f"/{info.run_id}/") == []
    assert psutil.Process().children() == []
