"""Reports of many failures: what they cost against their number, their size against the consumers' limits.

Run as `python -m benchmarks.report_size`. Every job is wrong in all its stages, differs in every band and
channel, has a diagnosis and attachments, and printed more than a report holds. Sizes take turns, so that a
busy machine slows all alike; a figure is the fastest of its rounds. Linear means that twice the failures take
twice the time.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from golden.geometry import MC62
from pipeline.diff.compare import compare
from pipeline.ground.jobs import Job, Lane, Platform, PlatformKind, State, WorkloadName
from pipeline.ground.memory import SENTINEL
from pipeline.ground.results import DIAGNOSIS, FINGERPRINT, REPRODUCE, SINCE, WRONG_STEP, Result, StageResult
from pipeline.report.cases import Attachments
from pipeline.report.document import FILE_LIMIT, read
from pipeline.report.junit import write
from pipeline.report.summary import CHECK_LIMIT, markdown
from pipeline.run.listener import RunSummary

COUNTS = (500, 1000, 2000)
ROUNDS = 3
PAIR, SHAPES = WorkloadName("conv-pair"), msgspec.to_builtins(MC62)
STAGES = ("pass1", "pass2")
OBJECTS_LIMIT = 250_000
"""What GitLab reads of a file."""

FILES = ("actual-y.npy", "diff.json", "diff.npz", "rows-columns.png", "channels.png", "pypto.log")
LINE = "offset-unsigned: requantisation: the 9-bit offset is read as 0..511; step requant1 and requant2"


def failure(number: int, wrong: StageResult) -> Result:
    """A job that failed in every stage."""
    platform = Platform("a5sim", "pypto", "a5", "offset-unsigned", kind=PlatformKind.SIMULATOR)
    profile = f"full-range@{number}"
    name = f"device/a5sim/mc62/two-pass/{profile}"
    job = Job(name, Lane.DEVICE, platform, PAIR, "mc62", SHAPES, "two-pass", profile, 60.0)
    folder = f"jobs/{name.replace('/', '+')}/1"
    stages = tuple(
        replace(wrong, name=stage, artefacts=tuple(f"{folder}/{stage}/{file}" for file in FILES))
        for stage in STAGES
    )
    return Result(
        job,
        State.MISMATCH,
        f"first wrong stage: pass1: {wrong.message}",
        wrong.details,
        stages=stages,
        facts={
            DIAGNOSIS: LINE,
            WRONG_STEP: "requant1 (as the diagnosis says)",
            REPRODUCE: f"python -m pipeline run --platform a5sim --geometry mc62 --profile {profile}",
            FINGERPRINT: "mismatch pass1 offset-unsigned",
            SINCE: "20260310-040000-1a2b3c",
        },
        artefacts=(f"{folder}/inputs.npz",),
        output="x" * 60_000,
        causes=("offset-unsigned",),
    )


def wrong_stage() -> StageResult:
    """A stage that is wrong everywhere."""
    draw = np.random.default_rng(1)
    shape = (MC62.out_height * MC62.out_width, MC62.cout)
    actual, golden = (draw.integers(-128, 128, shape).astype(np.int8) for _ in range(2))
    diff = compare("y", actual, golden, width=MC62.out_width, band_rows=18, sentinel=SENTINEL)
    details = "\n".join(["diagnosis, compared with all elements:", *([f"  1. {LINE}"] * 6)])
    return StageResult("fused", State.MISMATCH, "y: wrong", details, 1.0, (diff,), {DIAGNOSIS: LINE})


def cost(results: Sequence[Result], folder: Path) -> tuple[float, int, int, int]:
    """Seconds of CPU to write both reports; bytes and elements of the one, bytes of the other."""
    path = folder / "junit.xml"
    start = time.process_time()
    write(path, results, {"run": "r1"}, Attachments(folder))
    text = markdown(RunSummary("r1", folder, tuple(results), 1, 1.0), {})
    seconds = time.process_time() - start
    return seconds, path.stat().st_size, sum(1 for _ in read(path).iter()), len(text.encode())


def main() -> None:
    """Print the figures."""
    wrong = wrong_stage()
    failures = [failure(number, wrong) for number in range(max(COUNTS))]
    with tempfile.TemporaryDirectory() as name:
        rounds = [[cost(failures[:count], Path(name)) for count in COUNTS] for _ in range(ROUNDS)]
    best = [min(sizes) for sizes in zip(*rounds, strict=True)]
    for count, (seconds, size, elements, summary), (before, *_) in zip(
        COUNTS, best, [best[0], *best[:-1]], strict=True
    ):
        print(
            f"{count:5} failures: {seconds:6.2f} s ({seconds / before:.2f} times the line above, linear: 2)\n"
            f"      of the limits: file {size / FILE_LIMIT:.2f}, objects {elements / OBJECTS_LIMIT:.2f}, "
            f"summary {summary / CHECK_LIMIT:.2f}"
        )


if __name__ == "__main__":
    main()
