from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from pipeline.diff.compare import compare, crcs
from pipeline.ground.jobs import Job, State
from pipeline.ground.results import Blame, Region, Result, StageResult
from pipeline.run.evidence import Evidence, Next
from pipeline.run.verdict import DEFAULT_MARKS, judge_lost, merge_repeats


@pytest.mark.parametrize(
    "text",
    [
        "507018",
        "aclrtSynchronizeStream failed: 507018",
        "E507899: driver internal error",
        "line\n507901\nline",
        "code=507010,device=3",
        "OSError: [Errno 28] No space left on device: 'y.npy'",
    ],
)
def test_what_a_sick_device_or_a_full_disk_prints_is_known(text: str) -> None:
    assert any(mark.pattern.occurs(text) for mark in DEFAULT_MARKS)


@pytest.mark.parametrize("text", ["", "1507018", "5070180", "offset 0x507018507018", "507 018"])
def test_other_numbers_that_hold_a_code_are_not_taken_for_it(text: str) -> None:
    assert not any(mark.pattern.occurs(text) for mark in DEFAULT_MARKS)


def test_what_varies_between_repeats_is_told_by_channel_and_tile(make_job: Callable[..., Job]) -> None:
    """Channel 9 is wrong in every repeat, and the same in each: it does not vary."""
    golden = np.random.default_rng(0).integers(-9, 9, (96, 64)).astype(np.int8)
    golden[:, 9] = 0
    job = make_job()

    def repeat(*wrong: tuple[int, int]) -> Result:
        actual = golden.copy()
        actual[:, 9] = 1
        for position, channel in wrong:
            actual[position, channel] += 1
        diff = compare("y", actual, golden, width=8, band_rows=12, sentinel=None)
        parts = list(zip(actual.reshape(6, -1), golden.reshape(6, -1), strict=True))
        tiles = [
            Region(f"ACC tile {n}", 1024, int((one != two).sum()), 1) for n, (one, two) in enumerate(parts)
        ]
        seen = replace(diff, tiles=tuple(tiles), crcs=diff.crcs + crcs([part for part, _ in parts]))
        stage = StageResult("fused", State.MISMATCH, diffs=(seen,))
        return Result(job, State.MISMATCH, stages=(stage,))

    varying = merge_repeats([repeat(), repeat((17, 5)), repeat((17, 5), (40, 37))])
    assert varying.message == (
        "2 of 3 repeats differ from the first, in fused: y; "
        "fused: y varies only in channels 5, 37 of 64 and ACC tiles 1, 2 of 6"
    )
    everywhere = merge_repeats([repeat(), repeat(*((n % 96, n % 64) for n in range(192) if n % 64 != 9))])
    assert "channels" in everywhere.message
    assert "tiles" not in everywhere.message


def test_a_repeat_that_is_right_varies_where_another_is_wrong(make_job: Callable[..., Job]) -> None:
    golden = np.zeros((16, 64), np.int8)
    wrong = golden.copy()
    wrong[3, 5] = 1
    results = []
    for actual, state in ((golden, State.PASSED), (wrong, State.MISMATCH)):
        diff = compare("y", actual, golden, width=8, band_rows=2, sentinel=None)
        results.append(Result(make_job(), state, stages=(StageResult("fused", state, diffs=(diff,)),)))
    assert merge_repeats(results).message.endswith("; fused: y varies only in channels 5 of 64")


def test_a_keeper_that_was_killed_blames_its_host_and_not_the_job(make_job: Callable[..., Job]) -> None:
    lost = judge_lost(make_job(), "", gave_up=False)
    assert (lost.state, lost.blames) == (State.INFRASTRUCTURE, Blame.HOST)
    on_nodes = ("10.0.0.3:npu-0", "10.0.0.4:npu-0")
    other = make_job("passes:other")
    evidence = Evidence({lost.job.id: on_nodes, other.id: on_nodes}, {})
    tries = [evidence.note(on_nodes[0], lost)]
    decided = evidence.decide(tries, elsewhere=True, alone=False, retries=2, final=False)
    assert decided is Next.AGAIN
    evidence.note(on_nodes[0], Result(other, State.PASSED))
    tries.append(evidence.note(on_nodes[1], Result(lost.job, State.PASSED)))
    decided = evidence.decide(tries, elsewhere=False, alone=False, retries=2, final=True)
    assert isinstance(decided, Result)
    assert decided.state is State.PASSED
