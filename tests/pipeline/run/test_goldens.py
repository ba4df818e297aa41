from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from golden import conv_pair, inputs
from golden.cache import golden_for, is_cached
from pipeline.ground.jobs import Job, Lane, State, WorkloadName
from pipeline.ground.settings import Settings
from pipeline.ground.subject import subject_of, wanted_golden
from pipeline.run import goldens
from pipeline.run.goldens import Goldens, Wanted, missing_goldens
from pipeline.run.listener import RunSummary
from pipeline.run.options import RunOptions

Run = Callable[..., RunSummary]
MakeJob = Callable[..., Job]

pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    """A file whose reader waits for ever."""
    path = tmp_path / "inputs.npz"
    os.mkfifo(path)
    return path


# Which goldens are missing


def test_missing_are_those_that_a_job_needs_and_the_cache_lacks(make_job: MakeJob, tmp_path: Path) -> None:
    here, lacking, other_variant = make_job(), make_job(profile="ties"), make_job()
    other_variant = replace(other_variant, platform=replace(here.platform, variant="half-away"))
    needs_none = make_job(profile=None, lane=Lane.COMPILE)
    golden_for(wanted_golden(here, None), tmp_path)
    missing = missing_goldens([here, lacking, other_variant, needs_none], tmp_path, None)
    assert {job_id: (one.job.profile, one.job.platform.variant) for job_id, one in missing.items()} == {
        lacking.id: ("ties", "vreq8"),
        other_variant.id: ("small", "half-away"),
    }


def test_golden_of_a_users_tensors_is_missing_until_it_is_cached(make_job: MakeJob, tmp_path: Path) -> None:
    job, path = make_job(profile="inputs"), tmp_path / "mine.npz"
    inputs.save_inputs(path, conv_pair.DEFINITION.make("ties@3", subject_of(job).geometry))
    assert missing_goldens([job], tmp_path, str(path))[job.id].inputs == str(path)
    golden_for(wanted_golden(job, path), tmp_path)
    assert missing_goldens([job], tmp_path, str(path)) == {}


def test_jobs_of_two_workloads_need_two_goldens(make_job: MakeJob, tmp_path: Path) -> None:
    """Though the names of their profiles are alike; another kernel or plan needs no other."""
    pair, alike = make_job(), make_job("fused", plan_options={"band_rows": 8})
    shapes = {"m": 32, "k": 32, "n": 32}
    product = make_job(workload=WorkloadName("gemm"), geometry=shapes)
    other = make_job(workload=WorkloadName("gemm"), geometry={**shapes, "k": 64})
    missing = missing_goldens([pair, alike, product, other], tmp_path, None)
    assert {job_id: one.job.id for job_id, one in missing.items()} == {
        pair.id: pair.id,
        alike.id: pair.id,
        product.id: product.id,
        other.id: other.id,
    }


def test_a_job_of_a_broken_workload_waits_for_no_golden(make_job: MakeJob, tmp_path: Path) -> None:
    gone = WorkloadName("mine", str(tmp_path / "gone.py"))
    assert missing_goldens([make_job(workload=gone)], tmp_path, None) == {}


def test_a_job_that_cannot_be_tiled_waits_for_no_golden(make_job: MakeJob, tmp_path: Path) -> None:
    """Unless its programs are not tiled: those of CANN follow no plan."""
    conv = {"kernel": 3, "stride": 1, "padding": 1}
    shapes = {"height": 3, "width": 8192, "cin": 512, "cmid": 32, "cout": 32, "conv1": conv, "conv2": conv}
    tiled, other = make_job(geometry=shapes), make_job(geometry=shapes)
    other = replace(other, platform=replace(other.platform, backend="cann"))
    assert set(missing_goldens([tiled, other], tmp_path, None)) == {other.id}


def test_without_torch_nothing_is_computed_ahead(
    make_job: MakeJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(goldens, "find_spec", lambda _name: None)
    assert missing_goldens([make_job()], tmp_path, None) == {}


# The order of things


def test_each_golden_is_asked_for_once_and_lets_all_its_jobs_go(tmp_path: Path, make_job: MakeJob) -> None:
    first, alike, second = make_job(), make_job(), make_job(profile="ties")
    ours, theirs = socket.socketpair()
    with ours, theirs, theirs.makefile("rb") as asked:
        waited_for = Goldens(missing_goldens([first, alike, second], tmp_path, None), ours)
        assert msgspec.json.decode(asked.readline(), type=Wanted).job.profile == "small"
        theirs.sendall(b"true\n")
        waited_for.receive()
        assert waited_for.give_up_at > time.monotonic()
        held = [waited_for.holds(job.id) for job in (first, alike, second)]
        assert held == [False, False, True]
        assert msgspec.json.decode(asked.readline(), type=Wanted).job.profile == "ties"
        theirs.sendall(b"true\n")
        waited_for.receive()
        assert waited_for.give_up_at == 0
        assert not waited_for.holds(second.id)


def run_missing(run: Run, options: RunOptions, *jobs: Job, **changes: Any) -> RunSummary:
    return run(*jobs, missing=missing_goldens(jobs, options.cache, None), **changes)


def test_job_finds_its_golden_in_the_cache_and_needs_no_torch(
    run: Run, make_job: MakeJob, options: RunOptions
) -> None:
    jobs = [make_job("needs_golden", profile=f"full-range@{seed}") for seed in range(3)]
    summary = run_missing(run, options, *jobs)
    assert [(result.state, result.message) for result in summary.results] == [
        (State.PASSED, "cached: True, torch: False")
    ] * 3
    assert summary.problems == ()


def test_jobs_whose_goldens_are_there_do_not_wait(
    run: Run, make_job: MakeJob, options: RunOptions, watcher: Any
) -> None:
    late, early = make_job("needs_golden", profile="ties"), make_job("needs_golden")
    golden_for(wanted_golden(early, None), options.cache)
    run_missing(run, options, late, early, jobs=1)
    assert [job for job, *_ in watcher.started] == [early.id, late.id]


# What goes wrong


def test_golden_that_cannot_be_computed_is_left_to_its_job(
    run: Run, make_job: MakeJob, options: RunOptions
) -> None:
    job = make_job("needs_golden")
    (wanted,) = missing_goldens([job], options.cache, None).values()
    unknown = msgspec.structs.replace(wanted, job=replace(wanted.job, profile="unheard-of"))
    good = make_job("needs_golden", profile="ties")
    summary = run(job, good, missing={job.id: unknown} | missing_goldens([good], options.cache, None))
    assert [result.message for result in summary.results] == [
        "cached: False, torch: True",
        "cached: True, torch: False",
    ]
    assert "unknown profile 'unheard-of'" in (summary.folder / "nursery.log").read_text()


def test_users_tensors_that_are_gone_speak_against_the_host_alone(
    run: Run, make_job: MakeJob, options: RunOptions, tmp_path: Path
) -> None:
    gone = tmp_path / "gone.npz"
    jobs = [make_job(kernel="fused", profile="inputs", devices=[0, 1]) for _ in range(2)]
    missing = {job.id: Wanted(job, str(options.cache), str(gone), 60) for job in jobs}
    settings = Settings(inputs=str(gone))
    summary = run(*jobs, target="pipeline.work.stages:execute", settings=settings, missing=missing)
    expected = (
        State.INFRASTRUCTURE,
        f"no golden: {gone}: cannot be read: No such file or directory; name another file",
    )
    assert [(result.state, result.message) for result in summary.results] == [expected] * 2
    assert summary.set_aside == {}
    assert (summary.folder / "nursery.log").read_text() == ""


def test_golden_that_takes_too_long_is_left_to_its_job(
    run: Run, make_job: MakeJob, options: RunOptions, fifo: Path
) -> None:
    job = make_job("needs_golden")
    wanted = Wanted(job, str(options.cache), str(fifo), limit=0.1)
    summary = run(job, missing={job.id: wanted})
    assert [result.message for result in summary.results] == ["cached: False, torch: True"]
    assert is_cached(wanted_golden(job, None), options.cache)


def test_run_that_ends_does_not_wait_for_a_golden(
    run: Run, make_job: MakeJob, options: RunOptions, fifo: Path
) -> None:
    job = make_job("needs_golden")
    wanted = Wanted(job, str(options.cache), str(fifo), limit=600)
    summary = run(job, missing={job.id: wanted}, deadline=1)
    assert [result.state for result in summary.results] == [State.INTERRUPTED]
    assert psutil.Process().children() == []


def test_nothing_is_waited_for_from_a_process_that_is_gone(tmp_path: Path, make_job: MakeJob) -> None:
    job = make_job()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        waited_for = Goldens(missing_goldens([job], tmp_path, None), ours)
        theirs.shutdown(socket.SHUT_RDWR)
        waited_for.receive()
        assert waited_for.give_up_at == 0
