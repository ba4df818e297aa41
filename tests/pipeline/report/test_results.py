from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from pipeline.ground.jobs import State
from pipeline.ground.results import Attempt, Diff, Metric, Result, Source, StageResult
from pipeline.ground.settings import Settings
from pipeline.report.cases import Attachments
from pipeline.report.document import ReportError, read
from pipeline.report.files import ReportFiles
from pipeline.report.junit import write
from pipeline.report.merge import merge
from pipeline.report.reread import FactError, reread
from pipeline.report.results import (
    VERSION,
    beside,
    json_schema,
    read_results,
    results_of,
    write_results,
)
from pipeline.run.listener import RunInfo, RunSummary

MakeResult = Callable[..., Result]
ROOT = Path(__file__).parents[3]
PUBLISHED = ROOT / "ci" / "schemas" / "results.schema.json"
RUN, OTHER = "20260310-040000-0000000001", "20260310-050000-0000000002"


@pytest.fixture(scope="session")
def valid() -> Callable[[Path], Any]:
    """Reads a document as a consumer would, after checking it against the published schema."""
    schema = json.loads(PUBLISHED.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)

    def check(path: Path) -> Any:
        document = json.loads(path.read_text())
        validator.validate(document)
        return document

    return check


@pytest.fixture
def wrong(result_of: MakeResult) -> Result:
    """A job that was refused by one device and is wrong on another."""
    diff = Diff("y", (2, 32), 64, 3, 10, "aa", "bb")
    metrics = (
        Metric("cycles", 86901, "cycles", Source.COST_MODEL),
        Metric("device_us", 12.5, "us", Source.DEVICE_CLOCK, model="910B"),
    )
    stage = StageResult(
        "fused", State.MISMATCH, "y: wrong", diffs=(diff,), metrics=metrics, causes=("unwritten",)
    )
    return result_of(
        "device/emu/mc62/fused/small",
        State.MISMATCH,
        message="y: 3 of 64 elements differ",
        seconds=2.5,
        device=1,
        attempts=2,
        stages=(stage,),
        facts={"fingerprint": "mismatch fused unwritten", "since": "new"},
        causes=("unwritten",),
        tries=(
            Attempt("npu-0", State.INFRASTRUCTURE, "507018"),
            Attempt("npu-1", State.MISMATCH, "y: wrong", 2.5),
        ),
    )


def tell(folder: Path, *results: Result, run: str = RUN, **facts: str) -> Path:
    """The JUnit file of a run with these results; its other files lie beside it."""
    folder.mkdir(parents=True)
    told = {"host": "h1", "git": "0123abcd", "branch": "main", "python": "3.11.7", "run": run, **facts}
    files = ReportFiles(None, None)
    plan = tuple(result.job for result in results)
    settings = Settings(inject="unwritten")
    files.run_started(RunInfo(run, folder, plan, "2026-03-10T04:00:00+00:00", 1, told, settings=settings))
    files.run_finished(RunSummary(run, folder, results, 1, 90.0, {"npu-0": "507018 twice"}))
    return folder / "junit.xml"


def test_the_published_schema_is_the_schema() -> None:
    remedy = "run python -m pipeline.report.results > ci/schemas/results.schema.json"
    assert PUBLISHED.read_text() == json_schema(), remedy


def test_the_document_has_all_that_is_known_of_a_run(
    tmp_path: Path, result_of: MakeResult, wrong: Result, valid: Callable[[Path], Any]
) -> None:
    document = valid(beside(tell(tmp_path / "run", wrong, result_of("device/emu/mc62/two-pass/small"))))
    assert document["version"] == VERSION == 1
    header = ("run", "started", "ended", "seconds", "exit_code", "host", "commit", "branch", "versions")
    assert [document[name] for name in header] == [
        RUN,
        "2026-03-10T04:00:00+00:00",
        "2026-03-10T04:01:30+00:00",
        90.0,
        1,
        "h1",
        "0123abcd",
        "main",
        {"python": "3.11.7"},
    ]
    assert document["verdict"] == "1 of 2 jobs is red: 1 passed, 1 mismatch; 90.0 s, exit code 1"
    assert document["set_aside"] == {"npu-0": "507018 twice"}
    assert document["settings"]["inject"] == "unwritten"
    job = document["jobs"][0]
    assert (job["job"]["id"], job["state"], job["causes"]) == (wrong.job.id, "mismatch", ["unwritten"])
    assert job["facts"] == {"fingerprint": "mismatch fused unwritten", "since": "new"}
    assert [(each["device"], each["state"]) for each in job["tries"]] == [
        ("npu-0", "infrastructure"),
        ("npu-1", "mismatch"),
    ]
    (stage,) = job["stages"]
    assert (stage["diffs"][0]["mismatches"], stage["metrics"][1]["model"]) == (3, "910B")


def test_a_document_is_read_as_it_was_written(tmp_path: Path, wrong: Result) -> None:
    path = beside(tell(tmp_path / "run", wrong))
    results = read_results(path)
    assert list(results.jobs) == [wrong]
    write_results(tmp_path / "again.json", results)
    assert read_results(tmp_path / "again.json") == results


def test_any_text_can_be_in_it(
    tmp_path: Path, wrong: Result, hostile_texts: list[str], valid: Callable[[Path], Any]
) -> None:
    texts = [*hostile_texts, "bad \udcff text"]
    hostile = [replace(wrong, message=text, output=text, facts={"a": text}) for text in texts]
    run = RunInfo(RUN, tmp_path, (), "", 1)
    write_results(tmp_path / "x.json", results_of(run, RunSummary(RUN, tmp_path, tuple(hostile), 1, 1.0)))
    assert len(valid(tmp_path / "x.json")["jobs"]) == len(texts)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"version": 2}', "has version 2, this pipeline reads version 1: read it with the pipeline that"),
        ('{"version": 1}', "is no results.json of this pipeline: Object missing required field `run`"),
        ("[]", "is no results.json of this pipeline: Expected `object`, got `array`"),
        ("\xff", "is no results.json of this pipeline"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_what_is_no_such_document_is_refused_in_one_line(text: str | None, told: str, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ReportError) as refused:
        read_results(path)
    assert str(refused.value).startswith(f"{path}: {told}")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("peak_memory", "-1"), ("peak_memory", "1e23"), ("peak_memory", "1" + 23 * "0")),
        *(("seconds", "-1"), ("seconds", "NaN"), ("seconds", "1e400"), ("seconds", "1e300")),
        *(("attempts", "0"), ("attempts", "-5"), ("device", "-1"), ("device", "1" + 23 * "0")),
    ],
)
def test_a_number_that_no_run_has_is_refused(name: str, value: str, tmp_path: Path, wrong: Result) -> None:
    path = beside(tell(tmp_path / "run", replace(wrong, seconds=1.25, attempts=2, device=3, peak_memory=5)))
    document = path.read_text()
    edited, changed = re.subn(rf'(?<="jobs":\[)(.*?"{name}":)[0-9.]+(?=[,}}])', rf"\g<1>{value}", document)
    assert changed == 1
    path.write_text(edited)
    with pytest.raises(ReportError, match=r"^\S+results.json: is no .*; take the file as its run wrote it$"):
        read_results(path)


def test_a_run_whose_report_cannot_be_written_leaves_no_results(tmp_path: Path, wrong: Result) -> None:
    """They would say another exit code than the terminal."""
    files = ReportFiles(None, tmp_path / "there" / "s.md")
    files.run_started(RunInfo(RUN, tmp_path, (wrong.job,), "", 1))
    (tmp_path / "there").touch()
    with pytest.raises(ReportError):
        files.run_finished(RunSummary(RUN, tmp_path, (wrong,), 1, 1.0))
    assert not (tmp_path / "results.json").exists()


def test_a_junit_file_read_again_says_what_the_run_said(
    tmp_path: Path, result_of: MakeResult, wrong: Result
) -> None:
    stages = (StageResult("pass1", State.PASSED), StageResult("pass2", State.MISMATCH, "y: wrong"))
    told = (
        result_of(
            "compare/emu/mc62/small", State.MISMATCH, message="first wrong stage: pass2", stages=stages
        ),
        wrong,
        result_of("device/emu/mc62/two-pass/small", seconds=1.25, peak_memory=5_000_000_000),
        result_of("device/npu/mc62/fused/small", State.SKIPPED, message="no card"),
    )
    path = tell(tmp_path / "run", *told)
    again, own = reread(read(path), path), read_results(beside(path))
    kept = ("state", "message", "seconds", "peak_memory")
    for one, other in zip(again.jobs, told, strict=True):
        assert one.job.id == other.job.id
        assert [getattr(one, each) for each in kept] == [getattr(other, each) for each in kept]
    for one, other in zip(again.jobs, told, strict=True):
        names = ("lane", "platform_name", "geometry_name", "kernel", "profile")
        assert [getattr(one.job, name) for name in names] == [getattr(other.job, name) for name in names]
        assert (one.device, one.causes) == (other.device, other.causes)
        assert one.facts.items() >= other.facts.items()
    assert [(stage.name, stage.state) for stage in again.jobs[0].stages] == [
        ("pass1", State.PASSED),
        ("pass2", State.MISMATCH),
    ]
    assert [(each.name, each.value) for each in again.jobs[1].stages[0].metrics] == [
        ("cycles", 86901),
        ("device_us", 12.5),
    ]
    same = ("run", "host", "commit", "branch", "versions", "exit_code")
    assert [getattr(again, name) for name in same] == [getattr(own, name) for name in same]


def test_a_junit_file_of_another_tool_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="does not say of which runs it is"):
        reread(ET.fromstring("<testsuites><testsuite/></testsuites>"), tmp_path / "x.xml")


@pytest.mark.parametrize(
    "bad",
    [
        *("peak_memory=x", "peak_memory=", "peak_memory=-1", "peak_memory=1" + 23 * "0", "peak_memory=1.5"),
        *("seconds=abc", "seconds=nan", "seconds=-1", "attempts=0", "attempts=two", "y.cycles=many cycles"),
        "device=9999999999",
    ],
)
def test_a_fact_that_is_no_number_is_told_with_its_case(
    tmp_path: Path, result_of: MakeResult, bad: str
) -> None:
    path = tell(tmp_path / "run", result_of("device/emu/mc62/fused/small", seconds=1.25, peak_memory=5))
    name = bad.partition("=")[0]
    text = re.sub(rf"(?m)^{re.escape(name)}=.*\n", "", path.read_text())
    path.write_text(text.replace("<system-out>", f"<system-out>{bad}\n"))
    one_line = rf"^{re.escape(str(path))}: case device/\S+: .*{re.escape(name)}.*; write the report anew, .*$"
    with pytest.raises(FactError, match=one_line):
        reread(read(path), path)
    merged = tmp_path / "merged.xml"
    beside(merged).write_text("those of another merge")
    with pytest.raises(FactError):
        merge([path], merged)
    assert not beside(merged).exists()


def test_a_time_of_the_whole_that_is_no_number_is_told(tmp_path: Path, result_of: MakeResult) -> None:
    path = tell(tmp_path / "run", result_of("device/emu/mc62/fused/small"))
    root = read(path)
    root.set("time", "long")
    with pytest.raises(FactError, match="its time is 'long', not a number of seconds"):
        reread(root, path)


def test_a_merge_has_each_job_as_its_run_told_it(
    tmp_path: Path, result_of: MakeResult, wrong: Result, valid: Callable[[Path], Any]
) -> None:
    first = tell(tmp_path / "1", wrong, shard="1/2", started="2026-03-10T04:00:00")
    second = tell(tmp_path / "2", result_of("device/emu/mc62/two-pass/small"), run=OTHER, shard="2/2")
    alone = tmp_path / "3" / "alone.xml"
    fewer = result_of("device/emu/mc62/two-pass/ties", State.CRASHED, message="SIGSEGV")
    write(alone, [fewer], {"run": OTHER, "shard": "2/2", "git": "0123abcd"}, Attachments(tmp_path))
    out = tmp_path / "merged.xml"
    merged = merge([first, second, alone], out)
    document = valid(tmp_path / "merged.results.json")
    assert (document["exit_code"], document["parts"]) == (merged.exit_code, [RUN, OTHER])
    assert document["run"] not in (RUN, OTHER)
    assert document["run"].startswith(RUN[:16])
    states = {job["job"]["id"]: job["state"] for job in document["jobs"]}
    cases = {
        case.get("name"): len(case.findall("failure") + case.findall("error"))
        for case in read(out).iter("testcase")
    }
    assert {name: state in ("mismatch", "crashed") for name, state in states.items()} == {
        name: bool(red) for name, red in cases.items()
    }
    results = {one.job.id: one for one in read_results(tmp_path / "merged.results.json").jobs}
    assert results[wrong.job.id] == replace(wrong, facts={"host": "h1", **wrong.facts})
    assert results[fewer.job.id].message == "SIGSEGV"


def test_results_of_another_run_are_not_taken_for_those_of_a_part(tmp_path: Path, wrong: Result) -> None:
    path = tell(tmp_path / "1", wrong)
    last_night = msgspec.structs.replace(
        read_results(beside(path)), run=OTHER, jobs=(replace(wrong, message="x"),)
    )
    write_results(beside(path), last_night)
    merge([path], tmp_path / "merged.xml")
    (job,) = read_results(tmp_path / "merged.results.json").jobs
    assert job.message == wrong.message


def test_a_merge_of_which_something_is_missing_is_red_here_too(tmp_path: Path, result_of: MakeResult) -> None:
    path = tell(tmp_path / "1", result_of("device/emu/mc62/fused/small"), shard="1/2")
    merge([path], tmp_path / "merged.xml")
    document = read_results(tmp_path / "merged.results.json")
    assert document.exit_code == 1
    assert document.problems
