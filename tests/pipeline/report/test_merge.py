from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.ground.jobs import State
from pipeline.ground.results import Result, StageResult
from pipeline.report.cases import Attachments
from pipeline.report.document import ReportError, Totals, check, properties_of, read
from pipeline.report.junit import write
from pipeline.report.merge import merge
from pipeline.run.states import exit_code

MakeResult = Callable[..., Result]
Validate = Callable[[Path], None]
Shards = Callable[..., list[Path]]

OLD, NEW, NEXT_WEEK = "20260310-040000-0000000001", "20260310-090000-0000000002", "20260317-040000-0000000003"
NEWER, LAST = "20260310-100000-0000000004", "20260310-110000-0000000005"


@pytest.fixture
def shards(tmp_path: Path, result_of: MakeResult) -> Shards:
    """Writes the reports of three shards: two suites each, four cases, one failure in the second."""

    def make(**facts: str) -> list[Path]:
        paths = []
        for n in (1, 2, 3):
            states = [State.MISMATCH if n == 2 else State.PASSED, State.SKIPPED, State.PASSED, State.PASSED]
            results = [
                result_of(f"device/emu-{'a2a3' if k % 2 else 'a5'}/mc62/fused/p{n}{k}", state)
                for k, state in enumerate(states)
            ]
            paths.append(tmp_path / f"shard-{n}" / "junit.xml")
            told = {"run": OLD, "shard": f"{n}/3", "git": "0123abcd", "host": f"host-{n}"}
            write(paths[-1], results, {**told, **facts}, Attachments(tmp_path))
        return paths

    return make


def cases(path: Path) -> dict[str, str | None]:
    """Name of every case of `path` that did not pass, and its message."""
    return {
        case.get("name", ""): child.get("message")
        for case in read(path).iter("testcase")
        for child in case
        if child.tag in ("error", "failure")
    }


def test_suites_of_one_name_become_one_and_totals_are_kept(
    tmp_path: Path, shards: Shards, validate: Validate
) -> None:
    out = tmp_path / "merged.xml"
    merged = merge(shards(), out)
    assert merged.missing == ()
    assert merged.duplicates == 0
    assert merged.totals == check(read(out)) == Totals(tests=12, failures=1, skipped=3)
    assert merged.exit_code == 1
    assert str(merged) == "12 cases, 1 failure, 0 errors, 3 skipped"
    validate(out)
    root = read(out)
    assert [(suite.get("name"), suite.get("tests")) for suite in root] == [
        ("device.emu-a2a3", "6"),
        ("device.emu-a5", "6"),
    ]
    facts = properties_of(root[0])
    assert facts["host"] == "host-1; host-2; host-3"
    assert facts["git"] == "0123abcd"
    assert facts["report.suites"] == "device.emu-a2a3 device.emu-a5"


@pytest.mark.parametrize("brought", [[0], [0, 1], [2]])
def test_a_shard_nobody_brought_is_red(tmp_path: Path, shards: Shards, brought: list[int]) -> None:
    paths = shards()
    merged = merge([paths[n] for n in brought], tmp_path / "merged.xml")
    absent = {f"shard {n + 1}/3" for n in range(3) if n not in brought}
    assert {name for name in cases(tmp_path / "merged.xml") if name.startswith("shard")} == absent
    assert merged.totals.errors == len(absent)


def test_shards_can_be_demanded_where_no_report_speaks_of_them(tmp_path: Path, result_of: MakeResult) -> None:
    one = tmp_path / "one.xml"
    write(one, [result_of("device/emu/mc62/fused/small")], {}, Attachments(tmp_path))
    assert merge([one], tmp_path / "merged.xml").missing == ()
    assert len(merge([one], tmp_path / "merged.xml", shards=2).missing) == 2


def test_a_report_that_is_absent_or_broken_is_red_and_the_others_are_kept(
    tmp_path: Path, shards: Shards, validate: Validate
) -> None:
    paths = shards()
    paths[1].write_bytes(paths[1].read_bytes()[:-20])
    paths[2].unlink()
    out = tmp_path / "merged.xml"
    merged = merge(paths, out)
    assert merged.totals == Totals(tests=8, errors=4, skipped=1)
    said = cases(out)
    assert "not well-formed" in (said[f"report {paths[1]}"] or "")
    assert "No such file" in (said[f"report {paths[2]}"] or "")
    validate(out)


def test_a_report_of_an_impossible_name_is_red_in_a_file_that_can_be_read(
    tmp_path: Path, shards: Shards, validate: Validate
) -> None:
    absent = tmp_path / f"{'long ' * 40}\x01\ufffd\nlost.xml"
    merge([*shards(), absent], tmp_path / "merged.xml")
    validate(tmp_path / "merged.xml")


def test_a_suite_that_went_missing_from_a_report_is_red(tmp_path: Path, shards: Shards) -> None:
    paths = shards()
    text = paths[0].read_text()
    start = text.index("<testsuite ", text.index("<testsuites ") + 12)
    end = text.index("</testsuite>") + len("</testsuite>")
    # As a careless tool would: it drops the suite and corrects the totals.
    paths[0].write_text(
        (text[:start] + text[end:]).replace('tests="4"', 'tests="2"').replace('skipped="1"', 'skipped="0"')
    )
    merged = merge(paths, tmp_path / "merged.xml")
    assert merged.missing == (f"{paths[0]}: its suite device.emu-a2a3 was lost",)
    assert merged.totals.errors == 1


def test_a_case_that_went_missing_from_a_report_is_red(tmp_path: Path, shards: Shards) -> None:
    paths = shards()
    text = paths[0].read_text()
    start, end = text.index("<testcase"), text.index("</testcase>") + len("</testcase>")
    paths[0].write_text(text[:start] + text[end:])
    merged = merge(paths, tmp_path / "merged.xml")
    assert "declares" in merged.missing[0]


def test_of_a_case_in_two_reports_the_worst_outcome_is_kept_and_counted(
    tmp_path: Path, shards: Shards, result_of: MakeResult
) -> None:
    paths = shards()
    again = tmp_path / "again.xml"
    rerun = [result_of(f"device/emu-a5/mc62/fused/p{n}0") for n in (1, 2)]
    write(again, rerun, {"run": NEW, "git": "0123abcd"}, Attachments(tmp_path))
    for order in ([*paths, again], [again, *paths]):
        merged = merge(order, tmp_path / "merged.xml")
        assert merged.duplicates == 2
        assert str(merged).endswith("2 cases in several reports")
        assert merged.totals == Totals(tests=12, failures=1, skipped=3)
        suites = {suite.get("name"): suite for suite in read(tmp_path / "merged.xml")}
        assert properties_of(suites["device.emu-a5"])["report.duplicates"] == "2"


def test_last_nights_report_among_tonights_is_red(tmp_path: Path, shards: Shards) -> None:
    paths = shards()
    old = shards(git="ffff0000")[0].rename(tmp_path / "old.xml")
    shards()
    merged = merge([old, *paths[1:]], tmp_path / "merged.xml")
    assert len(merged.missing) == 1
    assert "git is ffff0000" in merged.missing[0]


JOB = "device/emu-a5/mc62/fused/p"


@pytest.fixture
def nights(tmp_path: Path, result_of: MakeResult) -> Callable[..., Path]:
    """Writes the report of a run with these states, one for each job, and these problems."""

    def make(run: str, *states: State | None, problems: tuple[str, ...] = (), **facts: str) -> Path:
        path = tmp_path / f"{run}-{len(list(tmp_path.iterdir()))}.xml"
        results = [result_of(f"{JOB}{n}", state) for n, state in enumerate(states) if state is not None]
        write(path, results, {"run": run, **facts}, Attachments(tmp_path), problems)
        return path

    return make


def test_of_a_red_run_and_its_later_rerun_the_newest_counts_if_that_is_asked_for(
    tmp_path: Path, nights: Callable[..., Path], validate: Validate
) -> None:
    red = nights(OLD, State.MISMATCH, State.PASSED, State.CRASHED, State.PASSED)
    rerun = nights(NEW, State.PASSED, None, State.CRASHED)
    out = tmp_path / "merged.xml"
    for order in ([red, rerun], [rerun, red]):
        assert merge(order, out).totals == Totals(tests=4, failures=1, errors=1)
        merged = merge(order, out, newest=True)
        assert merged.totals == check(read(out)) == Totals(tests=4, errors=1)
        assert merged.exit_code == 1
        assert str(merged).splitlines() == [
            "4 cases, 0 failures, 1 error, 0 skipped, 2 cases in several reports",
            f"device/emu-a5/mc62/fused/p0: mismatch in run {OLD}, passed in run {NEW}, which counts",
        ]
        validate(out)
        facts = properties_of(read(out)[0])
        assert (facts["report.duplicates"], facts["report.newest"]) == ("2", "2")
    assert "report.newest" not in properties_of(read(merge_of(out, red, rerun))[0])


def merge_of(out: Path, *paths: Path) -> Path:
    merge(paths, out)
    return out


@pytest.mark.parametrize(
    ("then", "now", "counts"),
    [
        (State.PASSED, State.MISMATCH, State.MISMATCH),
        (State.MISMATCH, State.SKIPPED, State.MISMATCH),  # what was not checked hides no failure
        (State.MISMATCH, State.EXPECTED_FAILURE, State.EXPECTED_FAILURE),
        (State.MISMATCH, State.INTERRUPTED, State.MISMATCH),
        (State.MISMATCH, State.INFRASTRUCTURE, State.MISMATCH),
        (State.PASSED, State.INFRASTRUCTURE, State.INFRASTRUCTURE),
        (State.SKIPPED, State.PASSED, State.PASSED),
    ],
)
def test_a_newer_run_counts_whatever_it_says_unless_it_judged_nothing(
    then: State, now: State, counts: State, tmp_path: Path, nights: Callable[..., Path]
) -> None:
    merged = merge([nights(OLD, then), nights(NEW, now)], tmp_path / "merged.xml", newest=True)
    assert merged.exit_code == exit_code([counts])


@pytest.mark.parametrize("known", [State.MISMATCH, State.CRASHED])
@pytest.mark.parametrize("unknown", [State.INFRASTRUCTURE, State.INTERRUPTED])
def test_a_job_that_was_not_judged_hides_no_verdict_on_the_kernel(
    known: State, unknown: State, tmp_path: Path, nights: Callable[..., Path]
) -> None:
    for order in ([known, unknown], [unknown, known]):
        parts = [nights(run, state) for run, state in zip([OLD, NEW], order, strict=True)]
        for newest in (False, True):
            assert merge(parts, tmp_path / "merged.xml", newest=newest).exit_code == 1


def test_reports_that_do_not_say_which_is_newer_keep_the_worst(
    tmp_path: Path, nights: Callable[..., Path]
) -> None:
    red, between, good = (
        nights(OLD, State.MISMATCH),
        nights(NEW, State.PASSED),
        nights(NEW, None, State.PASSED),
    )
    out = tmp_path / "merged.xml"
    for run in ("", "last night", OLD):
        assert merge([red, nights(run, State.PASSED)], out, newest=True).totals.failures == 1
    tellings = [nights("", State.PASSED), red, nights(NEW, State.PASSED)]
    assert merge(tellings, out, newest=True).outdated[0].endswith("passed in run unknown, which counts")
    # The merged report's case may be of either run.
    merge([red, good], tmp_path / "both.xml")
    assert merge([tmp_path / "both.xml", between], out, newest=True).totals.failures == 1


@pytest.mark.parametrize(
    ("then", "now", "counts", "said"),
    [
        ({"repeat": "4"}, {}, "then", "--repeat was 4, is 1"),
        ({"repeat": "10"}, {"repeat": "9"}, "then", "--repeat was 10, is 9"),
        ({"repeat": "9"}, {"repeat": "10"}, "now", ""),
        ({"repeat": "4"}, {"repeat": "4", "resumed.repeat": "1"}, "then", "--repeat was 4, is 4 or 1"),
        ({"repeat": "4"}, {"repeat": "many"}, "then", "--repeat was 4, is many"),
        ({}, {"stage": "tile"}, "then", "--stage was all, is tile"),
        ({"stage": "tile"}, {}, "now", ""),
        ({"references": "/t/r.json"}, {}, "then", "--references was /t/r.json, is not given"),
        ({}, {"matrix": "easy.yaml"}, "then", "--matrix was not given, is easy.yaml"),
        ({"date": "2026-03-10"}, {"date": "2026-03-11"}, "then", "--date was 2026-03-10, is 2026-03-11"),
        ({}, {"retries": "5", "allow_new_skips": "True"}, "now", ""),
    ],
)
def test_a_newer_run_counts_only_where_it_checked_at_least_the_same(
    then: dict[str, str],
    now: dict[str, str],
    counts: str,
    said: str,
    tmp_path: Path,
    nights: Callable[..., Path],
) -> None:
    red = nights(OLD, State.NONDETERMINISTIC, State.MISMATCH, State.PASSED, **then)
    good = nights(NEW, State.PASSED, State.PASSED, State.PASSED, **now)
    out = tmp_path / "merged.xml"
    for order in ([red, good], [good, red]):
        merged = merge(order, out, newest=True)
        if counts == "now":
            assert (merged.exit_code, len(merged.outdated), merged.kept) == (0, 2, ())
            continue
        assert (merged.exit_code, merged.totals.failures, merged.outdated) == (1, 2, ())
        why = f"passed in run {NEW}: the newer run may check less: {said}"
        assert merged.kept == (
            f"{JOB}0: nondeterministic in run {OLD} counts, not {why}",
            f"{JOB}1: mismatch in run {OLD} counts, not {why}",
        )
        assert str(merged).splitlines()[1:] == list(merged.kept)
        assert properties_of(read(out)[0])["report.kept"] == "2"
    assert merge([red, good], out).kept == ()  # the worst was asked for


def test_a_merged_part_checks_what_the_least_of_its_runs_checks(
    tmp_path: Path, nights: Callable[..., Path]
) -> None:
    """Of its cases nobody knows which run they are of."""
    part, out = tmp_path / "part.xml", tmp_path / "merged.xml"
    red = nights(OLD, State.NONDETERMINISTIC, repeat="4")
    merge([nights(NEW, State.PASSED), nights(NEWER, None, State.PASSED, repeat="4")], part)
    merged = merge([red, part], out, newest=True)
    assert merged.totals.failures == 1
    assert merged.kept[0].endswith("--repeat was 4, is 1 or 4")
    merge([nights(NEW, State.PASSED, repeat="4"), nights(NEWER, None, State.PASSED, repeat="8")], part)
    assert merge([red, part], out, newest=True).exit_code == 0


@pytest.mark.parametrize("newest", [False, True])
@pytest.mark.parametrize(("setting", "value"), [("inject", "unwritten"), ("inputs", "/t/mine.npz")])
def test_runs_with_other_faults_or_tensors_do_not_belong_into_one_report(
    setting: str, value: str, newest: bool, tmp_path: Path, nights: Callable[..., Path], validate: Validate
) -> None:
    out = tmp_path / "merged.xml"
    odd, usual = nights(OLD, State.PASSED, **{setting: value}), nights(NEW, None, State.PASSED)
    merged = merge([odd, usual], out, newest=newest)
    assert merged.missing == (
        f"the reports do not belong together: --{setting} is {value} ({odd}), not given ({usual})",
    )
    assert merged.exit_code == 1
    assert set(cases(out)) == {f"fact {setting}"}
    validate(out)
    # The merged report says so where it is merged again.
    assert set(cases(merge_of(tmp_path / "again.xml", out, usual))) == {f"fact {setting}"}
    same = nights(NEWER, None, State.PASSED, **{setting: value})
    assert merge([odd, same], out, newest=newest).exit_code == 0


@pytest.mark.parametrize("newest", [False, True])
def test_a_job_and_its_stages_are_of_one_run(newest: bool, tmp_path: Path, result_of: MakeResult) -> None:
    """The newer run did not compare the stage that is wrong; a third run, another stage."""

    def part(run: str, states: dict[str, State], **facts: str) -> Path:
        end = next((state for state in states.values() if state is not State.PASSED), State.PASSED)
        stages = tuple(StageResult(name, state) for name, state in states.items())
        result = replace(result_of("compare/emu/mc62/small", end), stages=stages)
        write(tmp_path / f"{run}.xml", [result], {"run": run, **facts}, Attachments(tmp_path))
        return tmp_path / f"{run}.xml"

    wrong = part(OLD, {"one": State.PASSED, "two": State.MISMATCH, "three": State.MISMATCH})
    tile = part(NEW, {"one": State.PASSED}, stage="tile")
    other = part(NEWER, {"one": State.MISMATCH}, stage="tile")
    out, job = tmp_path / "merged.xml", "compare/emu/mc62/small"
    for parts in ([wrong, tile], [tile, wrong]):
        merged = merge(parts, out, newest=newest)
        assert set(cases(out)) == {job, f"{job}/two", f"{job}/three"}
        assert (merged.totals, merged.exit_code) == (Totals(tests=4, failures=3), 1)
        assert merged.duplicates == 2
        assert len(merged.kept) == newest
    merge([wrong, other, tile], out)
    assert set(cases(out)) == {job, f"{job}/two", f"{job}/three"}
    right = part(LAST, dict.fromkeys(("one", "two", "three"), State.PASSED))
    assert merge([wrong, tile, right], out, newest=True).totals == Totals(tests=4)


def test_problems_of_a_run_go_when_all_of_its_jobs_ran_anew(
    tmp_path: Path, nights: Callable[..., Path]
) -> None:
    broken = nights(OLD, State.PASSED, State.SKIPPED, problems=("a keeper failed",))
    out = tmp_path / "merged.xml"
    assert merge([broken, nights(NEW, State.PASSED)], out, newest=True).totals.errors == 1
    whole = nights(NEW, State.PASSED, State.PASSED)
    assert merge([broken, whole], out).totals.errors == 1
    assert merge([broken, whole], out, newest=True).totals == Totals(tests=2)


def test_parts_of_runs_that_began_too_far_apart_are_red(tmp_path: Path, nights: Callable[..., Path]) -> None:
    parts = [nights(OLD, State.PASSED), nights(NEXT_WEEK, None, State.PASSED)]
    out = tmp_path / "merged.xml"
    merged = merge(parts, out)
    assert merged.missing == (
        "the reports are of runs that began 7 days, 0:00:00 apart, more than 1 day, 0:00:00: "
        f"{OLD} ({parts[0]}), {NEXT_WEEK} ({parts[1]}); --within TIME allows more",
    )
    assert (set(cases(out)), merged.exit_code) == ({"runs"}, 1)
    assert merge(parts, out, within=7 * 24 * 3600).exit_code == 0
    parts[1] = nights("20260317-040031-0000000003", None, State.PASSED)
    (said,) = merge(parts, out, within=7 * 24 * 3600).missing
    assert said.startswith(
        "the reports are of runs that began 7 days, 0:00:31 apart, more than 7 days, 0:00:00: "
    )
    assert said.endswith("--within allows a week at most: leave the older report out, or run its jobs again")
    assert merge([parts[0], nights(NEW, None, State.PASSED)], out).exit_code == 0


@pytest.mark.parametrize("run", [None, "", "last night", "20261399-040000-0000000001"])
def test_a_report_that_does_not_say_when_its_run_began_is_red(
    run: str | None, tmp_path: Path, result_of: MakeResult, nights: Callable[..., Path]
) -> None:
    """It may be of last week."""
    old, out = tmp_path / "old.xml", tmp_path / "merged.xml"
    facts = {} if run is None else {"run": run}
    write(old, [result_of(f"{JOB}0"), result_of(f"{JOB}1", State.MISMATCH)], facts, Attachments(tmp_path))
    tonight = nights(NEW, State.PASSED)
    merged = merge([old, tonight], out)
    assert merged.missing == (f"{old} does not say when its run began",)
    assert merged.exit_code == 1
    assert cases(out)[f"age of {old}"] == merged.missing[0]
    # A part that was merged of both does not forget it.
    later = merge([out, nights(NEW, None, State.PASSED)], tmp_path / "again.xml", newest=True)
    assert f"{out} does not say when its run began; of its cases the worst counts" in later.missing
    assert later.kept == (
        f"{JOB}1: mismatch in run unknown counts, not passed in run {NEW}: "
        "the reports do not say which run is newer",
    )


def test_a_merged_part_says_when_all_of_its_runs_began(tmp_path: Path, nights: Callable[..., Path]) -> None:
    part, out = tmp_path / "part.xml", tmp_path / "merged.xml"
    absent = tmp_path / "absent.xml"  # so that the part has a suite of what is missing, which is of no run
    merge([nights(OLD, State.PASSED), nights(NEW, None, State.PASSED), absent], part)
    merged = merge([part, nights(NEWER, None, None, State.PASSED)], out)
    assert (merged.missing, set(cases(out))) == ((), {f"report {absent}"})
    assert "more than 1 day" in merge([part, nights(NEXT_WEEK, State.PASSED)], out).missing[0]


def test_shards_divided_by_other_records_are_red(tmp_path: Path, shards: Shards) -> None:
    """Jobs may have fallen between them, though every shard is there."""
    paths = shards(**{"division.run": "aaaa"})
    other = shards(**{"division.run": "bbbb"})[0].rename(tmp_path / "other.xml")
    assert shards(**{"division.run": "aaaa"}) == paths
    assert merge(paths, tmp_path / "merged.xml").missing == ()
    merged = merge([other, *paths[1:]], tmp_path / "merged.xml")
    assert "division.run is bbbb" in merged.missing[0]


@pytest.mark.parametrize("fact", ["sources.digest", "workload.mine"])
def test_parts_of_other_sources_are_red_though_their_commit_is_the_same(
    fact: str, tmp_path: Path, nights: Callable[..., Path]
) -> None:
    one, other = ({"git": "0123abcd-dirty", fact: digest} for digest in ("aaaa", "bbbb"))
    out, first = tmp_path / "merged.xml", nights(OLD, State.PASSED, **one)
    assert merge([first, nights(NEW, None, State.PASSED, **one)], out).missing == ()
    # A shard that has no job of the user's workload has no digest of it.
    assert merge([first, nights(NEW, None, State.PASSED)], out).missing == ()
    (said,) = merge([first, nights(NEW, None, State.PASSED, **other)], out).missing
    assert f"not of one run: {fact} is aaaa ({first}), bbbb" in said
    resumed = nights(NEW, None, State.PASSED, **one, **{f"resumed.{fact}": "bbbb"})
    (said,) = merge([first, resumed], out).missing
    assert f"{fact} is aaaa ({first}), bbbb ({resumed})" in said


def test_reports_of_different_divisions_do_not_belong_together(tmp_path: Path, shards: Shards) -> None:
    paths = shards()
    (line,) = merge(paths, tmp_path / "merged.xml", shards=4).missing
    assert line == f"{paths[2]} is part 3 of 3, but --shards 4 asks for other parts"


@pytest.mark.parametrize(("other", "told"), [("1/1", "a whole run"), ("2/5", "part 2 of 5")])
def test_reports_of_different_divisions_are_told_in_one_line(
    tmp_path: Path, shards: Shards, other: str, told: str
) -> None:
    first, _, _ = shards()
    whole = first.rename(tmp_path / "first.xml")
    second = shards(shard=other)[0]
    merged = merge([whole, second], tmp_path / "merged.xml")
    assert merged.missing == (f"{whole} is part 1 of 3 and {second} is {told}; they cannot be merged",)
    assert merged.exit_code == 1


def test_a_merged_report_can_be_merged_again(tmp_path: Path, shards: Shards, validate: Validate) -> None:
    paths = shards()
    first = tmp_path / "first.xml"
    merge(paths[:2], first)
    second = tmp_path / "second.xml"
    merged = merge([first, paths[2], tmp_path / "absent.xml"], second)
    validate(second)
    # The first merge's verdict on shard 3 stays: that report did say so.
    assert set(cases(second)) >= {"shard 3/3", f"report {tmp_path / 'absent.xml'}"}
    assert merged.totals == Totals(tests=14, failures=1, errors=2, skipped=3)


def test_a_merged_report_says_of_every_suite_which_shards_it_holds(
    tmp_path: Path, result_of: MakeResult
) -> None:
    paths = [tmp_path / f"{platform}.xml" for platform in ("emu-a2a3", "emu-a5")]
    for n, path in enumerate(paths, start=1):
        job = result_of(f"device/{path.stem}/mc62/fused/small")
        write(path, [job], {"run": OLD, "shard": f"{n}/2"}, Attachments(tmp_path))
    first, second = tmp_path / "first.xml", tmp_path / "second.xml"
    assert merge(paths, first).missing == merge([first], second).missing == ()


def test_nothing_to_merge_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"nothing to merge: .*absent.xml: cannot be read: No such file"):
        merge([tmp_path / "absent.xml"], tmp_path / "merged.xml")
    with pytest.raises(ReportError, match="no report was given"):
        merge([], tmp_path / "merged.xml")


def test_an_entity_bomb_is_refused_before_it_grows(tmp_path: Path, shards: Shards) -> None:
    bomb = tmp_path / "bomb.xml"
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    bomb.write_text(f'<!DOCTYPE x [<!ENTITY e0 "ha">{entities}]><testsuites>&e11;</testsuites>')
    merged = merge([*shards(), bomb], tmp_path / "merged.xml")
    assert merged.missing == (f"{bomb}: has a document type, which no JUnit report needs; leave it out",)


@pytest.mark.parametrize(
    ("states", "code"),
    [
        ([State.PASSED, State.SKIPPED], 0),
        ([State.SKIPPED, State.SKIPPED], 5),
        ([State.PASSED, State.INFRASTRUCTURE], 6),
        ([State.INFRASTRUCTURE, State.CRASHED], 1),
        ([State.MISMATCH, State.INTERRUPTED], 2),
    ],
)
def test_a_merged_report_asks_for_the_exit_code_its_run_would(
    tmp_path: Path, result_of: MakeResult, states: list[State], code: int
) -> None:
    paths = []
    for n, state in enumerate(states):
        paths.append(tmp_path / f"{n}.xml")
        told = result_of(f"device/emu/mc62/fused/p{n}", state)
        write(paths[-1], [told], {"run": OLD}, Attachments(tmp_path))
    assert merge(paths, tmp_path / "merged.xml").exit_code == code


def test_what_another_tool_calls_red_is_red(tmp_path: Path, shards: Shards) -> None:
    foreign = tmp_path / "foreign.xml"
    totals = 'tests="1" failures="1" errors="0" skipped="0"'
    foreign.write_text(
        f'<testsuites {totals}><testsuite name="lint" {totals}><testcase classname="lint" name="ruff">'
        '<failure type="E501" message="long"/></testcase></testsuite></testsuites>'
    )
    merged = merge([shards()[0], foreign], tmp_path / "merged.xml", shards=3)
    assert f"{foreign} does not say when its run began" in merged.missing
    assert merged.totals == Totals(tests=8, failures=1, errors=3, skipped=1)
    assert merged.exit_code == 1


@pytest.mark.parametrize("shard", ["1/" + "9" * 5000, "1/999999999"])
def test_a_shard_of_an_absurd_division_is_none(tmp_path: Path, result_of: MakeResult, shard: str) -> None:
    one = tmp_path / "one.xml"
    write(one, [result_of("device/emu/mc62/fused/small")], {"shard": shard}, Attachments(tmp_path))
    assert merge([one], tmp_path / "merged.xml").missing == ()


@pytest.mark.parametrize(
    ("case", "why"),
    [
        ("", "holds no case"),
        ('<testcase classname="c"/>', "has no class name or no name"),
        ('<testcase classname="c" name="n" time="nan"/>', "has the time 'nan'"),
        ('<testcase classname="c" name="n" time="soon"/>', "has the time 'soon'"),
        ('<testcase classname="c" name="n" time="-5"/>', "has the time '-5'"),
    ],
)
def test_a_report_that_says_nothing_or_nonsense_is_red(
    tmp_path: Path, shards: Shards, case: str, why: str
) -> None:
    totals = f'tests="{int(bool(case))}" failures="0" errors="0" skipped="0"'
    foreign = tmp_path / "foreign.xml"
    foreign.write_text(f'<testsuites {totals}><testsuite name="x" {totals}>{case}</testsuite></testsuites>')
    merged = merge([*shards(), foreign], tmp_path / "merged.xml")
    assert [why in each for each in merged.missing] == [True]


@pytest.mark.parametrize("encoding", ["utf-7", "no-such"])
def test_a_report_in_an_encoding_nobody_reads_is_red(tmp_path: Path, shards: Shards, encoding: str) -> None:
    foreign = tmp_path / "foreign.xml"
    foreign.write_text(f'<?xml version="1.0" encoding="{encoding}"?><testsuites/>')
    merged = merge([*shards(), foreign], tmp_path / "merged.xml")
    assert ["is not well-formed XML" in each for each in merged.missing] == [True]


def test_results_that_cannot_be_written_are_named(tmp_path: Path, shards: Shards) -> None:
    (tmp_path / "merged.results.json").mkdir()
    with pytest.raises(ReportError, match=r"merged\.results\.json: the report cannot be written: Is a direc"):
        merge(shards(), tmp_path / "merged.xml")
