from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.ground.jobs import State
from pipeline.report.cases import Attachments
from pipeline.report.document import ReportError, Totals, check, properties_of, read
from pipeline.report.junit import write
from pipeline.report.merge import merge

from .conftest import OLD, MakeResult, Shards, Validate, cases


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


def test_nothing_to_merge_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"nothing to merge: .*absent.xml: cannot be read: No such file"):
        merge([tmp_path / "absent.xml"], tmp_path / "merged.xml")
    with pytest.raises(ReportError, match="no report was given"):
        merge([], tmp_path / "merged.xml")


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


def test_results_that_cannot_be_written_are_named(tmp_path: Path, shards: Shards) -> None:
    (tmp_path / "merged.results.json").mkdir()
    with pytest.raises(ReportError, match=r"merged\.results\.json: the report cannot be written: Is a direc"):
        merge(shards(), tmp_path / "merged.xml")
