"""A year of 1,000 jobs a night: the size of the history, how soon it answers, what a night costs to write.

Run as `python -m benchmarks.history`. The nights are generated: each job has the stages, diffs and metrics
that a job on the emulator has, and device times; one in a hundred fails, some jobs come and go. The database
should stay under 1 GB, and each question under a second. The write of a night is compared with that of its
results.json.
"""

from __future__ import annotations

import hashlib
import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from pipeline.ground.jobs import Job, Lane, Platform, State, WorkloadName
from pipeline.ground.results import FINGERPRINT, Attempt, Diff, Metric, Result, Source, StageResult
from pipeline.history import questions, trends
from pipeline.history.past import Folders
from pipeline.history.recall import past_of
from pipeline.history.store import open_history
from pipeline.report.results import RunResults, results_of, write_results
from pipeline.run.listener import RunInfo, RunSummary

NIGHTS, JOBS, STAGES = 365, 1000, 2
FIRST = datetime(2026, 1, 1, 4, tzinfo=timezone.utc)
COUNTERS = [f"gm_read.t{number}" for number in range(10)]
JOBS_OF_THE_PLAN = tuple(
    Job(
        f"device/p{number % 4}/g{number // 100}/k{number % 10}/data{number}",
        Lane.DEVICE,
        Platform(f"p{number % 4}", "pypto", "a2a3", devices=(0, 1)),
        WorkloadName("w"),
        f"g{number // 100}",
        {},
        f"k{number % 10}",
        f"data{number}",
        60.0,
    )
    for number in range(JOBS)
)
PASS = "".join(hashlib.sha256(b"golden").hexdigest())


def night(number: int, draw: random.Random) -> RunResults:
    """The results of a night."""
    began = FIRST + timedelta(days=number)
    run = f"{began:%Y%m%d-%H%M%S}-{number:010x}"
    results = tuple(result(job, draw) for job in JOBS_OF_THE_PLAN if draw.random() > 0.001)
    facts = {
        "host": "h",
        "git": f"{number // 3:040x}",
        "branch": "main",
        "python": "3.11.7",
        "torch": "2.13.0",
    }
    plan = tuple(one.job for one in results)
    info = RunInfo(run, Path(), plan, began.isoformat(), 1, facts)
    return results_of(info, RunSummary(run, Path(), results, 1, 3600.0))


def result(job: Job, draw: random.Random) -> Result:
    """How a job ended in a night."""
    wrong = draw.random() < 0.01
    state = State.MISMATCH if wrong else State.PASSED
    actual = f"{draw.getrandbits(256):064x}" if wrong else PASS
    diff = Diff("y", (64, 64), 4096, 100 * wrong, 10 * wrong, actual, PASS)
    metrics = (
        *(Metric(name, float(draw.randrange(10**6)), "B", Source.COUNTER) for name in COUNTERS),
        Metric("estimated_cycles.serial", 7317.7, "cycles", Source.ESTIMATE),
        Metric("estimated_cycles.overlap", 3968.8, "cycles", Source.ESTIMATE),
        Metric("device_us", draw.gauss(100, 1), "us", Source.DEVICE_CLOCK, model="910B"),
    )
    stage = StageResult("first", state, seconds=1.0, diffs=(diff,), metrics=metrics)
    device = draw.randrange(2)
    message = "y: 100 of 4096 elements differ; max |diff| 10; only in band 7 (last) rows 126..143" * wrong
    return Result(
        job,
        state,
        message,
        seconds=draw.gauss(10, 1),
        device=device,
        stages=tuple(replace(stage, name=f"stage{number}") for number in range(STAGES)),
        facts={FINGERPRINT: f"mismatch stage0 cause{draw.randrange(5)}"} if wrong else {},
        tries=(Attempt(f"npu-{device}", state, message, 1.0),),
    )


def seconds(call: Callable[[], Any]) -> float:
    """Time of this process's processor: another one's work does not count."""
    start = time.process_time()
    call()
    return time.process_time() - start


def main() -> None:
    """Print the figures."""
    draw = random.Random(1)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "history.sqlite"
        with open_history(path) as history:
            writes, references, document = [], [], Path(name) / "results.json"
            for number in range(NIGHTS):
                results = night(number, draw)
                writes.append(seconds(lambda results=results: history.record(results)))
                references.append(seconds(lambda results=results: write_results(document, results)))
            print(f"{NIGHTS} nights of {JOBS} jobs: {path.stat().st_size / 1e9:.2f} GB (allowed: 1)")
            write, reference = min(writes[-20:]), min(references[-20:])
            print(f"a night more: {write:.2f} s, {write / reference:.1f} times its results.json")
            run = questions.run_named(history)
            other = questions.run_named(history, questions.nights(history, run)[-2].run.id)
            job = questions.failing(history, run)[0].job
            asked: dict[str, Callable[[], Any]] = {
                each.__name__: lambda each=each: each(history, run)
                for each in (
                    *(questions.new, questions.fixed, questions.failing, questions.flaky, questions.skipped),
                    *(questions.slower, questions.faster, questions.vanished, questions.by_platform),
                    *(questions.by_device, questions.strip, questions.nights),
                    *(trends.how_nights_went, trends.time_red, trends.recurring, trends.stabilised),
                    *(trends.causes, trends.timed_out),
                )
            }
            asked |= {
                "first_bad": lambda: questions.first_bad(history, run, job),
                "last_pass": lambda: questions.last_pass(history, run, job),
                "diff": lambda: questions.diff(history, run, other),
            }
            past = past_of(path, Folders(Path(name) / "runs"), FIRST + timedelta(days=400), print)
            asked["what a run asks of a failed job"] = lambda: list(past.ends(job))
            asked["durations of all jobs"] = past.seconds
            for what, question in asked.items():
                print(f"{what}: {min(seconds(question) for _ in range(3)):.3f} s (allowed: 1)")


if __name__ == "__main__":
    main()
