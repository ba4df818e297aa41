from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from golden.errors import UserError
from pipeline.ground.jobs import State
from pipeline.ground.results import FINGERPRINT, Attempt, Diff, Metric, Result, Source, StageResult
from pipeline.ground.settings import Settings
from pipeline.history import questions
from pipeline.history.answers import Run
from pipeline.history.named import located
from pipeline.history.past import HistoryError
from pipeline.history.questions import run_named
from pipeline.history.store import History, open_history
from pipeline.history.stories import LAST
from pipeline.report.results import RunResults

from .conftest import NIGHT, ended, job_named, night

PASSED, MISMATCH, SKIPPED, SICK = State.PASSED, State.MISMATCH, State.SKIPPED, State.INFRASTRUCTURE


@pytest.fixture
def history(place: str | Path) -> Iterator[History]:
    with open_history(place) as opened:
        yield opened


Remember = Callable[..., Run]


@pytest.fixture
def nights(history: History) -> Remember:
    """Remembers nights, a list of results each, of one commit each if none is given; gives the last run."""

    def remember(*told: RunResults | list[Result], commit: str = "") -> Run:
        for number, one in enumerate(told):
            results = night(number, *one, git=commit or f"c{number}") if isinstance(one, list) else one
            history.record(results)
        return run_named(history)

    return remember


def run_id(number: int) -> str:
    return night(number).run


def named(*names: str) -> list[str]:
    return [job_named(name).id for name in names]


def test_new_is_what_was_not_red_or_in_another_way(history: History, nights: Remember) -> None:
    run = nights(
        [ended("same", "this"), ended("other", "that"), ended("broken"), ended("sick", SICK)],
        [
            ended("same", "this"),
            ended("other", "this"),
            ended("broken", "this"),
            ended("sick", SICK),
            ended("first", "x"),
        ],
    )
    found = questions.new(history, run)
    assert [one.job for one in found] == named("broken", "first", "other")
    broken, first, other = found
    assert (broken.before and broken.before.state, broken.now.fingerprint) == (PASSED, "this")
    assert first.before is None
    assert other.before is not None
    assert (other.before.run, other.before.fingerprint) == (run_id(0), "that")


def test_nights_that_say_nothing_are_passed_over(history: History, nights: Remember) -> None:
    run = nights(
        [ended("same", "this"), ended("fixed", "this")],
        [ended("same", SKIPPED), ended("fixed", SICK)],
        [ended("same", State.INTERRUPTED), ended("fixed", State.INTERRUPTED)],
        [ended("same", "this"), ended("fixed")],
    )
    assert questions.new(history, run) == ()
    (fixed,) = questions.fixed(history, run)
    assert (fixed.job, fixed.before and fixed.before.run) == (named("fixed")[0], run_id(0))


def test_fixed_is_what_passes_or_is_excused_and_was_red(history: History, nights: Remember) -> None:
    run = nights(
        [ended("a", "x"), ended("b", "x"), ended("c", "x"), ended("d")],
        [ended("a"), ended("b", State.EXPECTED_FAILURE), ended("c", SKIPPED), ended("d")],
    )
    assert [one.job for one in questions.fixed(history, run)] == named("a", "b")


def test_a_failure_that_a_baseline_has_too_is_still_one(history: History, nights: Remember) -> None:
    def known(name: str) -> Result:
        return ended(name, State.KNOWN_FAILURE, facts={FINGERPRINT: "x"})

    run = nights([known("a"), ended("b", "x"), known("c")], [ended("a"), known("b"), ended("c", "x")])
    assert [one.job for one in questions.fixed(history, run)] == named("a")
    assert [(one.job, one.runs) for one in questions.failing(history, run)] == [
        (job, 2) for job in named("b", "c")
    ]
    assert questions.new(history, run) == ()


def test_a_failure_is_as_old_as_its_unbroken_row(history: History, nights: Remember) -> None:
    run = nights(
        [ended("old", "x"), ended("again", "x"), ended("well", "x")],
        [ended("old", "x"), ended("again"), ended("well", "x")],
        [ended("other"), ended("again", "x")],
        [ended("old", "x"), ended("again", "x"), ended("well"), ended("new", "x")],
    )
    told = [(one.job, one.since, one.runs, one.days) for one in questions.failing(history, run)]
    assert told == [
        (named("old")[0], run_id(0), 3, 3),
        (named("again")[0], run_id(2), 2, 1),
        (named("new")[0], run_id(3), 1, 0),
    ]


def test_the_age_of_a_failure_is_not_cut(history: History, nights: Remember) -> None:
    run = nights(*([ended("a", "x")] for _ in range(LAST + 5)))
    (one,) = questions.failing(history, run)
    assert (one.since, one.runs) == (run_id(0), LAST + 5)


def test_flaky_is_what_changed_with_nothing_changed(history: History, nights: Remember) -> None:
    now_and_then = [ended("a"), ended("b"), ended("steady", "x")]
    then = [ended("a", "x"), ended("b", SICK), ended("steady", "x")]
    run = nights(now_and_then, then, now_and_then, commit="c")
    (one,) = questions.flaky(history, run)
    assert (one.job, one.changes, one.runs, one.last) == (named("a")[0], 2, 3, run_id(2))
    assert one.states == (PASSED, MISMATCH)


@pytest.mark.parametrize("state", [State.KNOWN_FAILURE, State.EXPECTED_FAILURE])
def test_a_failure_that_is_excused_from_now_on_did_not_change(
    state: State, history: History, nights: Remember
) -> None:
    run = nights([ended("a", "x")], [ended("a", state, facts={FINGERPRINT: "x"})], commit="c")
    assert questions.flaky(history, run) == ()
    run = nights([ended("a", "x")], [ended("a", state, facts={FINGERPRINT: "y"})], commit="c")
    assert [one.changes for one in questions.flaky(history, run)] == [1]


@pytest.mark.parametrize("changed", ["git", "python", "sources.digest"])
def test_a_change_of_commit_toolchain_or_sources_explains_a_change(changed: str, history: History) -> None:
    for number, state in enumerate((PASSED, MISMATCH)):
        history.record(night(number, ended("a", state), **{"git": "c", changed: f"v{number}"}))
    assert questions.flaky(history, run_named(history)) == ()


def test_nobody_knows_whether_an_unknown_commit_changed(history: History, nights: Remember) -> None:
    assert questions.flaky(history, nights([ended("a")], [ended("a", "x")], commit="unknown")) == ()


def timed(us: float, model: str = "910B", state: State = PASSED, seconds: float = 10.0) -> list[Result]:
    metric = Metric("device_us", us, "us", Source.DEVICE_CLOCK, model=model)
    return [ended("a", state, seconds=seconds, stages=(StageResult("fused", state, metrics=(metric,)),))]


def test_slower_is_what_left_its_noise(history: History, nights: Remember) -> None:
    # Median 100, deviations 2 1 0 1 2: MAD 1, four standard deviations of normal noise are 5.93.
    run = nights(*map(timed, (98, 99, 100, 101, 102, 106)))
    (one,) = questions.slower(history, run)
    assert (one.job, one.metric, one.value, one.median, one.mad) == (
        *named("a"),
        "fused.device_us",
        106,
        100,
        1,
    )
    assert (one.percent, one.values, one.model) == (6.0, 5, "910B")
    assert questions.faster(history, run) == ()


@pytest.mark.parametrize(("value", "slow", "fast"), [(105.9, 0, 0), (94.1, 0, 0), (94, 0, 1)])
def test_what_stays_within_its_noise_did_not_move(
    value: float, slow: int, fast: int, history: History, nights: Remember
) -> None:
    run = nights(*map(timed, (98, 99, 100, 101, 102, value)))
    assert (len(questions.slower(history, run)), len(questions.faster(history, run))) == (slow, fast)


def test_values_of_another_model_or_of_a_wrong_output_are_no_comparison(
    history: History, nights: Remember
) -> None:
    run = nights(*map(timed, (98, 99, 100, 101)), timed(102, "910C"), timed(102, state=MISMATCH), timed(200))
    assert questions.slower(history, run) == ()  # of the same model there are only four


@pytest.mark.parametrize(
    ("counts", "slow", "fast"),
    [
        ((1000, 1001), 1, 0),
        ((100, 100, 100, 200, 200, 200, 250), 1, 0),
        ((100, 200, 100, 200, 300), 1, 0),
        ((100, 100, 100, 200, 100), 0, 1),
        ((100, 100, 100, 200, 200), 0, 0),
    ],
)
def test_what_is_deterministic_moved_if_it_is_not_what_it_last_was(
    counts: tuple[int, ...], slow: int, fast: int, history: History, nights: Remember
) -> None:
    def cycles(count: int) -> list[Result]:
        metric = Metric("cycles", count, "cycles", Source.COST_MODEL)
        return [ended("a", stages=(StageResult("fused", PASSED, metrics=(metric,)),))]

    run = nights(*map(cycles, counts))
    slower, faster = questions.slower(history, run), questions.faster(history, run)
    assert (len(slower), len(faster)) == (slow, fast)
    for one in (*slower, *faster):
        assert (one.metric, one.value, one.median) == ("fused.cycles", *counts[:-3:-1])


def test_a_job_that_takes_longer_on_its_host_is_slower(history: History, nights: Remember) -> None:
    run = nights(*(timed(100, seconds=seconds) for seconds in (10, 10.1, 9.9, 10, 10, 13)))
    (one,) = questions.slower(history, run)
    assert (one.metric, one.value, one.model) == ("seconds", 13, "h1")


def test_seconds_of_a_merged_run_are_those_of_each_jobs_own_host(history: History) -> None:
    for number, seconds in enumerate((10.0,) * 6 + (40.0,)):
        host = {"host": "h2" if seconds == 40 else "h1"}
        jobs = [
            ended("a", seconds=seconds, device=0, facts=host),
            ended("b", seconds=2 * seconds, facts=host),  # nobody knows where
            ended("c", seconds=40.0 if number == 6 else 10.0, device=1, facts={"host": "h2"}),
        ]
        one = night(number, *jobs, host="h1; h2")
        history.record(msgspec.structs.replace(one, parts=(f"{number}",)))
    (moved,) = questions.slower(history, run_named(history))
    assert (moved.job, moved.model, moved.value) == (*named("c"), "h2", 40)


def test_what_a_busy_host_does_to_a_short_job_is_no_news(history: History, nights: Remember) -> None:
    run = nights(*(timed(100, seconds=seconds) for seconds in (0.1, 0.1, 0.1, 0.1, 0.1, 1.0)))
    assert questions.slower(history, run) == ()


def test_skipped_is_what_was_not_skipped_before(history: History, nights: Remember) -> None:
    run = nights(
        [ended("a"), ended("b", SKIPPED), ended("c", SICK)],
        [ended("a", SKIPPED), ended("b", SKIPPED), ended("c", SKIPPED), ended("d", SKIPPED)],
    )
    assert [one.job for one in questions.skipped(history, run)] == named("a", "c")


def test_vanished_is_what_the_last_run_like_this_one_had(history: History, nights: Remember) -> None:
    whole = [ended(name) for name in "abcd"]
    run = nights(whole, [ended("a")], [*whole[:3], ended("e")])
    assert [(one.job, one.last, one.state) for one in questions.vanished(history, run)] == [
        (named("d")[0], run_id(0), PASSED)
    ]
    history.record(night(1, ended("a"), ended("d")))  # the other shard
    assert questions.vanished(history, run) == ()


def test_a_run_of_few_jobs_makes_none_vanish(history: History, nights: Remember) -> None:
    assert questions.vanished(history, nights([ended(name) for name in "abcd"], [ended("a")])) == ()


def test_a_job_broke_between_its_last_pass_and_its_first_failure(history: History, nights: Remember) -> None:
    run = nights(
        [ended("a")], [ended("a", SKIPPED)], [ended("a", "x")], [ended("a", "y")], [ended("a", SKIPPED)]
    )
    (job,) = named("a")
    (one,) = questions.first_bad(history, run, job)
    assert one.good is not None
    assert (one.good.run, one.good.commit) == (run_id(0), "c0")
    assert (one.bad.run, one.bad.commit) == (run_id(2), "c2")
    (passed,) = questions.last_pass(history, run, job)
    assert (passed.run, passed.commit) == (run_id(0), "c0")


def test_a_job_that_never_passed_or_is_well_has_no_boundary(history: History, nights: Remember) -> None:
    run = nights([ended("a", "x"), ended("b", "x")], [ended("a", "x"), ended("b")])
    (one,) = questions.first_bad(history, run, named("a")[0])
    assert (one.good, one.bad.run) == (None, run_id(0))
    assert questions.first_bad(history, run, named("b")[0]) == ()
    assert questions.last_pass(history, run, named("a")[0]) == ()


def test_a_job_that_the_last_run_did_not_have_is_found(history: History, nights: Remember) -> None:
    run = nights([ended("a")], [ended("b")])
    assert [one.run for one in questions.last_pass(history, run, named("a")[0])] == [run_id(0)]


def test_platforms_and_devices_are_counted(history: History, nights: Remember) -> None:
    refused, made_good = Attempt("npu-0", SICK, "507018"), Attempt("npu-1", PASSED)
    run = nights(
        [ended("a", device=1, attempts=2, tries=(refused, made_good))],
        [ended("a", "x", device=1, tries=(Attempt("npu-1", MISMATCH),)), ended("b", SKIPPED)],
    )
    (platform,) = questions.by_platform(history, run)
    assert (platform.name, platform.runs, platform.rate) == ("a2a3", 2, 0.5)
    assert platform.states == {"mismatch": 1, "passed": 1, "skipped": 1}
    assert questions.by_platform(history, run, last=1) == (platform,)  # this run and one before it
    assert [one.runs for one in questions.by_platform(history, run, last=0)] == [1]
    first, second = questions.by_device(history, run)
    assert (first.name, first.states, first.rate) == ("h1 npu-0", {"infrastructure": 1}, None)
    assert (second.name, second.states, second.rate) == ("h1 npu-1", {"mismatch": 1, "passed": 1}, 0.5)


def test_two_runs_differ_in_versions_states_and_outputs(history: History) -> None:
    def wrote(sha: str, state: State = PASSED) -> Result:
        diffs = tuple(
            Diff("y", (1, 1), 1, int(state is MISMATCH), 1, sha * 32, other * 32, against=against)
            for against, other in (("golden", "aa"), ("tile", "cc"))
        )
        return ended("a", state, stages=(StageResult("fused", state, diffs=diffs),))

    history.record(night(0, wrote("aa"), ended("gone"), ended("same"), git="c0", python="3.11.7"))
    history.record(night(1, wrote("bb", MISMATCH), ended("same"), git="c1", python="3.12.1"))
    found = questions.diff(history, run_named(history, run_id(0)), run_named(history, run_id(1)))
    job, gone = named("a", "gone")
    assert [(one.what, one.one, one.other) for one in found] == [
        ("commit", "c0", "c1"),
        ("python", "3.11.7", "3.12.1"),
        (job, "passed", "mismatch"),
        (gone, "passed", "none"),
        *(
            (
                f"{job} fused y against {against}",
                f"{'a' * 12}, expected {other}",
                f"{'b' * 12}, expected {other}",
            )
            for against, other in (("golden", "a" * 12), ("tile", "c" * 12))
        ),
    ]


def test_strips_and_nights_begin_with_the_oldest(history: History, nights: Remember) -> None:
    run = nights([ended("a"), ended("b")], [ended("b")], [ended("a", SKIPPED)])
    ((job, ends),) = questions.strip(history, run).items()
    assert (job, [one.state for one in ends]) == (named("a")[0], [PASSED, SKIPPED])
    assert [(one.run.id, one.states) for one in questions.nights(history, run)] == [
        (run_id(0), {"passed": 2}),
        (run_id(1), {"passed": 1}),
        (run_id(2), {"skipped": 1}),
    ]


OTHERS = [Settings(inject="unwritten"), Settings(inputs="/mine.npz"), Settings(stage="tile")]


@pytest.mark.parametrize("other", OTHERS)
def test_runs_with_other_data_faults_or_stages_are_no_comparison(other: Settings, history: History) -> None:
    history.record(night(0, ended("a")))
    history.record(night(1, ended("a", "x"), settings=other))
    history.record(night(2, ended("a")))
    run = run_named(history)
    for question in (questions.fixed, questions.flaky, questions.vanished):
        assert question(history, run) == ()
    assert [one.run.id for one in questions.nights(history, run)] == [run_id(0), run_id(2)]
    history.record(night(3, ended("a", "x"), settings=other))
    assert run_named(history).id == run_id(2)
    (one,) = questions.failing(history, run_named(history, run_id(3)))
    assert (one.since, one.runs) == (run_id(1), 2)


def test_a_run_is_named_by_id_last_or_branch(history: History) -> None:
    for number, branch in enumerate(("main", "main", "mine")):
        history.record(night(number, ended("a"), branch=branch))
    assert run_named(history).id == run_named(history, "mine").id == run_id(2)
    assert run_named(history, "main").id == run_id(1)
    assert run_named(history, run_id(0)).id == run_id(0)
    with pytest.raises(HistoryError, match=f"no run or branch 'nope'; the latest runs are: {run_id(2)}, "):
        run_named(history, "nope")
    with pytest.raises(HistoryError, match="has the job 'nope': "):
        questions.first_bad(history, run_named(history), "nope")


def test_a_run_of_a_time_to_come_is_the_last_of_nothing(place: str | Path) -> None:
    told: list[str] = []
    now = NIGHT + timedelta(days=1, hours=1)
    with open_history(place, told.append) as history:
        for number in (0, 1, 9):
            history.record(night(number, ended("a")))
        assert run_named(history, run_id(9), now=now).id == run_id(9)
        assert told == []
        for name in ("last", "main"):
            assert run_named(history, name, now=now).id == run_id(1)
        assert [line.startswith(f"run {run_id(9)} is of a time to come") for line in told] == [True] * 2
        assert history.prune(keep=2, now=now) == 1
        assert history.run_ids() == (run_id(0), run_id(1))
        run_named(history, now=now)
        assert len(told) == 2


def test_bytes_that_are_no_text_name_nothing(history: History, nights: Remember, tmp_path: Path) -> None:
    run = nights([ended("a")])
    with pytest.raises(HistoryError, match=r"no run or branch 'b\\+udcff'"):
        run_named(history, "b\udcff")
    with pytest.raises(HistoryError, match=r"has the job 'a\\+udcff'"):
        questions.first_bad(history, run, "a\udcff")
    with pytest.raises(UserError, match=r"^b\\udcff: is no run"):
        located("b\udcff", tmp_path)


def test_an_empty_history_says_what_helps(history: History) -> None:
    with pytest.raises(HistoryError, match="has no run yet: `history import` brings in"):
        run_named(history)


def test_an_older_run_is_asked_about_as_it_was_then(history: History, nights: Remember) -> None:
    nights([ended("a")], [ended("a", "x")], [ended("a")])
    (one,) = questions.new(history, run_named(history, run_id(1)))
    assert one.now.run == run_id(1)


def test_a_history_of_unusual_runs_alone_says_why_none_is_the_last(tmp_path: Path) -> None:
    with open_history(tmp_path / "h.sqlite") as history:
        history.record(night(0, ended("a"), settings=Settings(inject="mc62")))
        with pytest.raises(HistoryError, match="no usual run: a run with --inputs, --inject or") as said:
            run_named(history)
    assert str(said.value).endswith(night(0).run)
