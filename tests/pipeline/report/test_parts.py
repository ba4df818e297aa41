from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.ground.jobs import State
from pipeline.report.cases import Attachments
from pipeline.report.document import ReportError, Totals
from pipeline.report.junit import write
from pipeline.report.merge import merge

from .conftest import JOB, NEW, NEWER, NEXT_WEEK, OLD, MakeResult, Shards, Validate, cases, merge_of


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


def test_a_folder_is_no_report_and_the_file_to_name_is_told(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=f"{tmp_path}: is a folder without {tmp_path}/junit.xml"):
        merge([tmp_path], tmp_path / "merged.xml")
    (tmp_path / "junit.xml").write_text("<testsuites/>")
    with pytest.raises(ReportError, match=f"{tmp_path}: is a folder; name {tmp_path}/junit.xml"):
        merge([tmp_path], tmp_path / "merged.xml")


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


def test_last_nights_report_among_tonights_is_red(tmp_path: Path, shards: Shards) -> None:
    paths = shards()
    old = shards(git="ffff0000")[0].rename(tmp_path / "old.xml")
    shards()
    merged = merge([old, *paths[1:]], tmp_path / "merged.xml")
    assert len(merged.missing) == 1
    assert "git is ffff0000" in merged.missing[0]


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


def test_an_entity_bomb_is_refused_before_it_grows(tmp_path: Path, shards: Shards) -> None:
    bomb = tmp_path / "bomb.xml"
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    bomb.write_text(f'<!DOCTYPE x [<!ENTITY e0 "ha">{entities}]><testsuites>&e11;</testsuites>')
    merged = merge([*shards(), bomb], tmp_path / "merged.xml")
    assert merged.missing == (f"{bomb}: has a document type, which no JUnit report needs; leave it out",)


@pytest.mark.parametrize("shard", ["1/" + "9" * 5000, "1/999999999"])
def test_a_shard_of_an_absurd_division_is_none(tmp_path: Path, result_of: MakeResult, shard: str) -> None:
    one = tmp_path / "one.xml"
    write(one, [result_of("device/emu/mc62/fused/small")], {"shard": shard}, Attachments(tmp_path))
    assert merge([one], tmp_path / "merged.xml").missing == ()


@pytest.mark.parametrize(
    ("case", "why"),
    [
        ("", "holds no case, and so says nothing; run what wrote it again, or leave it out"),
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


def test_a_merged_report_says_of_every_suite_which_shards_it_holds(
    tmp_path: Path, result_of: MakeResult
) -> None:
    paths = [tmp_path / f"{platform}.xml" for platform in ("emu-a2a3", "emu-a5")]
    for n, path in enumerate(paths, start=1):
        job = result_of(f"device/{path.stem}/mc62/fused/small")
        write(path, [job], {"run": OLD, "shard": f"{n}/2"}, Attachments(tmp_path))
    first, second = tmp_path / "first.xml", tmp_path / "second.xml"
    assert merge(paths, first).missing == merge([first], second).missing == ()
