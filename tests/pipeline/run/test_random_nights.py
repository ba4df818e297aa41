"""Nights drawn at random: some kernels are broken everywhere, and maybe one device is sick, in one way.

The seeds are those of nights in which somebody else was blamed once. Each job has to end as it deserves.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from pipeline.ground.jobs import Job, State
from pipeline.run.listener import RunSummary

SICK = ("raises:lost", "hangs", "dies_by:SIGKILL", "raises:507018", "is_wrong", "exits:0")
BROKEN = {
    "raises:own bug": State.CRASHED,
    "hangs": State.TIMED_OUT,
    "dies_by:SIGSEGV": State.CRASHED,
    "raises:ACL 507015": State.PROVOKED,
    "is_wrong": State.MISMATCH,
    "exits:0": State.NO_RESULT,
}


@pytest.mark.parametrize(
    "seed", [13, 37, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in (47, 57, 74, 87, 266))]
)
def test_nobody_is_blamed_for_another(
    run: Callable[..., RunSummary], make_job: Callable[..., Job], seed: int
) -> None:
    draw = random.Random(seed)
    devices = list(range(draw.choice([2, 2, 3, 4])))
    draw.shuffle(devices)
    sick, how = draw.choice([None, *devices]), draw.choice(SICK)
    works = [draw.choice(["passes", "passes", *BROKEN]) for _ in range(draw.randint(2, 4))]
    if "passes" not in works:
        works.append("passes")
    plan = []
    for number, work in enumerate(works):
        told = ",".join(f"{device}={how if device == sick else work}" for device in devices)
        same = {"kernel": f"on:{told}", "geometry": {"kernel": number}, "devices": devices, "timeout": 1.5}
        plan += [(make_job(**same), BROKEN.get(work, State.PASSED)) for _ in range(draw.randint(2, 6))]
    if draw.random() < 0.5:
        draw.shuffle(plan)
    summary = run(*(job for job, _ in plan), jobs=draw.choice([1, 2, 3]))
    for result, (job, right) in zip(summary.results, plan, strict=True):
        if result.state is State.DEVICE_DEPENDENT:
            assert (result.device, how) == (sick, "is_wrong")
        else:
            assert result.state is right, f"{job.id}: {result.message} {result.facts}"
    assert set(summary.set_aside) <= {f"emulated-{sick}"}
