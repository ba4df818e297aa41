from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("torch_installed")

Pipeline = Callable[..., Any]
Report = Callable[[Path], Mapping[str, Any]]
LastRun = Callable[[], Path]
Start = Callable[..., subprocess.Popen[str]]

EMULATED = ("--platform", "emu-a2a3", "--geometry", "bands")
ONE = (*EMULATED, "--kernel", "fused", "--profile", "small")


def test_a_run_passes_and_its_report_holds_the_plan(
    pipeline: Pipeline, report: Report, last_run: LastRun, workspace: Path
) -> None:
    plan = pipeline("list", "--lane", "device", *EMULATED).out.splitlines()
    outcome = pipeline("run", *EMULATED)
    assert (outcome.code, outcome.err) == (0, "")
    assert f"no job is red: {len(plan)} passed" in outcome.out
    cases = report(last_run() / "junit.xml")
    assert sorted(cases) == sorted(plan)
    for case in cases.values():
        assert case.kind == "passed"
        assert "0 of" in case.out
        assert case.properties["run"] == last_run().name
    assert (last_run() / "summary.md").read_text().startswith(f"## Passed: no job is red: {len(plan)} passed")


def test_a_run_is_shown_with_the_seconds_that_it_took(pipeline: Pipeline, last_run: LastRun) -> None:
    assert pipeline("run", *EMULATED).code == 0
    journal = last_run() / "journal.jsonl"
    *lines, closed = journal.read_text().splitlines()
    event = {**json.loads(closed), "seconds": 4321.0}
    journal.write_text("\n".join([*lines, json.dumps(event), ""]))
    assert "; 4321.0 s, exit code 0\n" in pipeline("report", "show", "--summary", "again.md").out
    assert "seconds `4321.0`" in Path("again.md").read_text()


@pytest.mark.usefixtures("two_devices")
def test_one_of_a_thing_is_not_told_as_several(pipeline: Pipeline, last_run: LastRun) -> None:
    outcome = pipeline("run", *ONE, "--inject", "unwritten")
    junit, summary = last_run() / "junit.xml", last_run() / "summary.md"
    assert f"run {last_run().name}: 1 job, at most 1 at a time" in outcome.out
    assert "1 of 1 job is red: 1 mismatch" in outcome.out
    merged = pipeline("report", "merge", junit, "--out", "merged.xml")
    assert merged.out == "merged.xml: 1 case, 1 failure, 0 errors, 0 skipped\n"
    for text in (outcome.out, junit.read_text(), summary.read_text()):
        assert not re.findall(r"\b1 (?:jobs|cases|stages|elements|mismatches)\b", text)


def test_the_report_shows_the_fusion(pipeline: Pipeline, report: Report, last_run: LastRun) -> None:
    pipeline("run", *EMULATED, "--profile", "small")
    cases = report(last_run() / "junit.xml")
    fused = cases["device/emu-a2a3/bands/fused/small"].out
    two_pass = cases["device/emu-a2a3/bands/two-pass/small"].out
    image = 24 * 16 * 32  # bytes of mid, and of y
    assert f"fused.gm_written.y={image}" in fused
    assert "fused.mid_gm_written=0\n" in fused
    assert "gm_written.mid=" not in fused
    assert f"pass1.gm_written.mid={image}" in two_pass
    assert "pass2.gm_read.mid=" in two_pass


def test_compiling_leaves_memory_maps_and_estimates(
    pipeline: Pipeline, report: Report, last_run: LastRun
) -> None:
    assert pipeline("compile", "--geometry", "bands", "--kernel", "fused").code == 0
    cases = report(last_run() / "junit.xml")
    assert sorted(cases) == ["compile/emu-a2a3/bands/fused", "compile/emu-a5/bands/fused"]
    assert "estimated_cycles.serial=" in cases["compile/emu-a2a3/bands/fused"].out
    assert "estimated_cycles=unavailable" in cases["compile/emu-a5/bands/fused"].out
    (artefact,) = (last_run() / "jobs" / "compile+emu-a2a3+bands+fused").rglob("report.json")
    assert json.loads(artefact.read_bytes())["memory"]


def test_platforms_that_are_not_here_are_skipped_with_a_reason(
    pipeline: Pipeline, report: Report, last_run: LastRun
) -> None:
    assert pipeline("run", "--kernel", "fused", "--profile", "small", "--geometry", "bands").code == 0
    cases = report(last_run() / "junit.xml")
    assert cases["device/emu-a2a3/bands/fused/small"].kind == "passed"
    assert cases["device/a2a3/bands/fused/small"].kind == "skipped"
    assert cases["device/a2a3/bands/fused/small"].message


def test_a_run_that_executed_nothing_is_an_error(
    pipeline: Pipeline, report: Report, last_run: LastRun
) -> None:
    outcome = pipeline("run", "--platform", "a2a3")
    assert outcome.code == 5
    cases = report(last_run() / "junit.xml")
    assert [case.kind for case in cases.values()].count("error") == 1


def test_a_skip_on_a_required_platform_is_an_error(
    pipeline: Pipeline, report: Report, last_run: LastRun, workspace: Path
) -> None:
    (workspace / "tonight.yaml").write_text("platforms: {a2a3: {required: true}}\n")
    outcome = pipeline("run", "--matrix", "tonight.yaml", "--kernel", "fused", "--geometry", "bands")
    assert outcome.code == 6
    cases = report(last_run() / "junit.xml")
    assert {case.kind for job, case in cases.items() if "/a2a3/" in job} == {"error"}


def test_a_pass_where_a_failure_is_expected_is_red(
    pipeline: Pipeline, report: Report, last_run: LastRun, workspace: Path
) -> None:
    (workspace / "known.yaml").write_text(
        "expected_failures:\n"
        "  - {jobs: device/emu-a2a3/bands/fused/small, reason: known, link: 'https://issues.example/1'}\n"
    )
    assert pipeline("run", "--matrix", "known.yaml", *ONE).code == 1
    (case,) = report(last_run() / "junit.xml").values()
    assert case.kind == "failure"


def test_the_nights_numbers_are_recorded_and_can_be_replayed(
    pipeline: Pipeline, report: Report, last_run: LastRun, workspace: Path
) -> None:
    (workspace / "tonight.yaml").write_text(
        "lanes: {device: {include: [{platforms: [emu-a2a3], geometries: [bands], kernels: [fused],"
        " profiles: [full-range@nightly]}]}}\n"
    )
    job = "device/emu-a2a3/bands/fused/full-range@nightly"
    nights = []
    for words in (["--date", "2026-11-30"], ["--date", "2026-12-01"], ["--date", "2026-11-30"]):
        assert pipeline("run", "--matrix", "tonight.yaml", "--id", job, *words).code == 0
        nights.append(report(last_run() / "junit.xml")[job].out.splitlines())
    profiles = [next(line for line in night if line.startswith("profile=")) for night in nights]
    outputs = [next(line for line in night if "golden sha256" in line) for night in nights]
    assert profiles[0] == profiles[2] != profiles[1]
    assert outputs[0] == outputs[2] != outputs[1]
    assert all(re.fullmatch(r"profile=full-range@\d+", profile) for profile in profiles)


def test_an_interrupted_run_is_resumed(pipeline: Pipeline, report: Report, last_run: LastRun) -> None:
    interrupted = pipeline("run", *EMULATED, "--deadline", "0.02")
    assert interrupted.code == 2
    begun = last_run()
    cases = report(begun / "junit.xml")
    assert len(cases) == 10
    assert "error" in {case.kind for case in cases.values()}
    again = f"-m pipeline run --resume {begun.name}"
    assert re.findall(r"again: .* (-m pipeline .*)", interrupted.out) == [again]
    assert f"{again}`" in (begun / "summary.md").read_text()
    told = [case.out.splitlines() for case in cases.values() if case.kind == "error"]
    assert all(any(line.endswith(again) for line in lines) for lines in told)
    assert pipeline(*again.split()[2:]).code == 0
    assert last_run() == begun
    cases = report(begun / "junit.xml")
    assert len(cases) == 10
    assert {case.kind for case in cases.values()} == {"passed"}


def timed(out: str) -> list[str]:
    """The line with the run's seconds and what no order could have saved, and the last line."""
    *_, seconds, verdict = out.splitlines()
    assert seconds.startswith("seconds: ")
    return [seconds, verdict]


@pytest.mark.parametrize(("fault", "code"), [((), 0), (("--inject", "unwritten"), 1)])
def test_of_a_run_that_is_finished_nothing_is_left_to_run(
    fault: tuple[str, ...], code: int, pipeline: Pipeline, report: Report, last_run: LastRun
) -> None:
    ended = pipeline("run", *ONE, *fault)
    before = report(last_run() / "junit.xml")
    again = pipeline("run", "--resume", "last")
    assert ended.code == again.code == code
    assert again.out.startswith(f"nothing is left to run in run {last_run().name}\n")
    assert "[1/1] " in ended.out
    assert "[1/1] " not in again.out
    assert timed(again.out) == timed(ended.out)
    assert timed(pipeline("report", "show").out) == timed(ended.out)
    for name, case in report(last_run() / "junit.xml").items():
        assert (case.kind, case.message) == (before[name].kind, before[name].message)


def test_a_resumed_run_tells_what_is_no_longer_as_it_was(
    pipeline: Pipeline, report: Report, last_run: LastRun
) -> None:
    assert pipeline("run", *ONE, "--deadline", "0.02").code == 2
    journal = last_run() / "journal.jsonl"
    journal.write_text(re.sub('"git":"[^"]*"', '"git":"0123abcd"', journal.read_text()))
    assert pipeline("run", "--resume", "last").code == 0
    assert pipeline("report", "show", "--junit", "again.xml").code == 0
    for path in (last_run() / "junit.xml", Path("again.xml")):
        (case,) = report(path).values()
        assert case.properties["git"] == "0123abcd"
        assert case.properties["resumed.git"] not in ("", "0123abcd")
        assert "resumed.numpy" not in case.properties


def test_a_resumed_run_repeats_its_jobs_as_often(
    pipeline: Pipeline, report: Report, last_run: LastRun
) -> None:
    assert pipeline("run", *ONE, "--repeat", "3", "--deadline", "0.02").code == 2
    assert pipeline("run", "--resume", "last").code == 0
    (case,) = report(last_run() / "junit.xml").values()
    assert "repeats=3" in case.out.splitlines()


def test_a_pass_is_not_kept_where_sources_changed_since(
    start: Start, pipeline: Pipeline, report: Report, last_run: LastRun, workspace: Path
) -> None:
    source = workspace / "source"
    for room in ("golden", "pipeline", "workloads", "emulator"):
        (source / room).parent.mkdir(exist_ok=True)
        (source / room).symlink_to(Path(__file__).parents[2] / room)
    shutil.copytree(Path(__file__).parents[2] / "kernels", source / "kernels")
    kernel = source / "kernels" / "fused_conv2d.py"

    def ended(*words: object) -> tuple[int, str]:
        process = start("run", *words, source=source)
        out, err = process.communicate(timeout=100)
        assert err == ""
        return process.returncode, out

    assert ended(*ONE)[0] == 0
    again = "1 job that had ended will run again; changed since: kernels/"
    for change, code in (("", 0), ("# changed\n", 0), ("1 / 0\n", 1), ("", 1)):
        kernel.write_text(kernel.read_text() + change)
        returned, out = ended("--resume", "last")
        assert returned == code
        assert (f"note: {again}" in out.splitlines()) == bool(change)
        (case,) = report(last_run() / "junit.xml").values()
        assert (case.kind == "passed") == (code == 0)
        if change:
            assert case.properties["resumed.sources"] == again
            assert case.properties["resumed.sources.digest"] != case.properties["sources.digest"]
            assert again in (last_run() / "summary.md").read_text()
    assert pipeline("report", "show", "--summary", "again.md").code == 1
    assert again in Path("again.md").read_text()
    # Nor are parts of different sources one run, though neither is committed.
    edited = last_run() / "junit.xml"
    assert pipeline("run", *ONE, "--junit", "other.xml").code == 0
    merged = pipeline("report", "merge", edited, "other.xml", "--out", "all.xml")
    assert "not of one run: sources.digest is " in merged.out


@pytest.mark.parametrize("option", ["references", "inputs"])
def test_a_pass_is_not_kept_where_a_file_that_was_given_changed(
    option: str, pipeline: Pipeline, cases: Path, workspace: Path
) -> None:
    words = ("--platform", "emu-a2a3", "--geometry", "pair-24x16", "--kernel", "fused", "--profile", "small")
    given = workspace / "given"
    given.write_bytes(b"{}" if option == "references" else (cases / "conv-pair-24x16-ties.npz").read_bytes())
    assert pipeline("run", *words, f"--{option}", given).code == 0
    assert "will run again" not in pipeline("run", "--resume", "last").out
    other = b"{ }" if option == "references" else (cases / "conv-pair-24x16-full-range.npz").read_bytes()
    given.write_bytes(other)
    assert (
        f"1 job that had ended will run again; changed since: {option}"
        in pipeline("run", "--resume", "last").out
    )


def test_what_failed_is_run_again(pipeline: Pipeline, report: Report, last_run: LastRun) -> None:
    assert pipeline("run", *ONE, "--deadline", "0.02").code == 2
    broken = last_run()
    assert pipeline("run", "--failed", broken.name).code == 0
    assert last_run() != broken
    assert list(report(last_run() / "junit.xml")) == ["device/emu-a2a3/bands/fused/small"]
    nothing = pipeline("run", "--failed", "last")
    assert (nothing.code, nothing.err) == (5, f"nothing failed in run {last_run().name}; name another run\n")


def test_a_fault_is_there_again_where_a_run_is_taken_up(pipeline: Pipeline, last_run: LastRun) -> None:
    fault = "no-padding-bottom-2-last"
    assert pipeline("run", *ONE, "--inject", fault).code == 1
    assert pipeline("run", "--failed", "last").code == 1
    other = pipeline("run", "--failed", "last", "--inject", "no-padding-top-2-first")
    assert other.code == 4
    assert other.err == (
        f"--inject no-padding-top-2-first: run {last_run().name} was begun with --inject {fault}; "
        "leave --inject out or begin a new run\n"
    )


@pytest.mark.parametrize("how", ["--resume", "--failed"])
def test_tensors_and_stage_are_the_same_where_a_run_is_taken_up(
    how: str, pipeline: Pipeline, report: Report, last_run: LastRun, cases: Path
) -> None:
    words = ("--platform", "emu-a2a3", "--geometry", "pair-24x16", "--stage", "tile")
    given = cases / "conv-pair-24x16-ties.npz"
    assert pipeline("compare", *words, "--inputs", given, "--deadline", "0.02").code == 2
    for other in (["--stage", "all"], ["--inputs", "other.npz"]):
        outcome = pipeline("compare", how, "last", *other)
        assert outcome.code == 4
        assert f"run {last_run().name} was begun with" in outcome.err
    assert pipeline("compare", how, "last").code == 0
    found = report(last_run() / "junit.xml")
    assert len(found) == 1 + 4
    job = found["compare/emu-a2a3/pair-24x16/inputs"]
    assert job.properties["inputs"] == str(given)
    assert job.properties["stage"] == "tile"


def test_ctrl_c_ends_a_run_with_a_report(start: Start, report: Report, last_run: LastRun) -> None:
    process = start("run", *ONE, "--repeat", "100000")
    assert process.stdout
    started = any("started device/emu-a2a3/bands/fused/small" in line for line in process.stdout)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert started
    assert process.returncode == 2
    assert "Traceback" not in out + err
    (case,) = report(last_run() / "junit.xml").values()
    assert (case.kind, case.message) == ("error", "interrupted by SIGINT")


def test_a_run_outlasts_its_reader(start: Start, report: Report, last_run: LastRun) -> None:
    """As in `run | head`, or where the connection to a terminal is lost."""
    reading, writing = os.pipe()
    os.close(reading)
    process = start("run", *ONE, stdout=writing)
    os.close(writing)
    _, err = process.communicate(timeout=100)
    assert (process.returncode, err) == (0, "")
    (case,) = report(last_run() / "junit.xml").values()
    assert case.kind == "passed"


def test_a_run_prunes_goldens_that_nobody_used_for_long(pipeline: Pipeline, tmp_path: Path) -> None:
    goldens = tmp_path / "elsewhere" / "goldens"
    goldens.mkdir(parents=True)
    (goldens / "old.golden").touch()
    os.utime(goldens / "old.golden", (0, 0))
    (goldens / "young.golden").touch()
    assert pipeline("compile", *EMULATED, "--kernel", "fused", "--output", goldens.parent).code == 0
    assert [path.name for path in goldens.iterdir()] == ["young.golden"]


@pytest.mark.usefixtures("two_devices")
def test_two_runs_at_once_in_one_checkout(start: Start, report: Report, workspace: Path) -> None:
    words = ("run", *EMULATED, "--profile", "small")
    processes = [start(*words, "--junit", f"{name}.xml") for name in ("one", "two")]
    texts = [process.communicate(timeout=100) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], texts
    runs = [report(workspace / f"{name}.xml") for name in ("one", "two")]
    assert sorted(runs[0]) == sorted(runs[1])
    ids = {case.properties["run"] for cases in runs for case in cases.values()}
    assert ids == {path.name for path in (workspace / "out" / "runs").iterdir()}
    assert len(ids) == 2


def test_shards_are_merged_and_a_missing_one_is_red(
    pipeline: Pipeline, report: Report, workspace: Path
) -> None:
    plan = pipeline("list", "--lane", "device", *EMULATED).out.splitlines()
    for index in (1, 2):
        # Each shard as on a host of its own, which knows no earlier durations.
        words = (*EMULATED, "--shard", f"{index}/2", "--output", f"host{index}")
        (workspace / f"host{index}").mkdir()
        (workspace / f"host{index}" / "goldens").symlink_to((workspace / "out" / "goldens").resolve())
        assert pipeline("run", *words, "--junit", f"{index}.xml").code == 0
    merged = pipeline("report", "merge", "1.xml", "2.xml", "--shards", 2, "--out", "all.xml")
    assert (merged.code, merged.err) == (0, "")
    assert sorted(report(workspace / "all.xml")) == sorted(plan)
    nowhere = pipeline("report", "merge", "1.xml", "2.xml", "--out", "matrix.yaml/all.xml")
    assert nowhere.code == 4
    assert "the report cannot be written" in nowhere.err
    assert pipeline("report", "merge", "absent.xml", "--out", "all.xml").code == 4
    assert sorted(report(workspace / "all.xml")) == sorted(plan)  # what was there stays
    assert (workspace / "all.results.json").exists()
    short = pipeline("report", "merge", "1.xml", "absent.xml", "--out", "short.xml")
    assert short.code == 1
    errors = [name for name, case in report(workspace / "short.xml").items() if case.kind == "error"]
    assert errors == ["report absent.xml", "shard 2/2"]


def test_an_earlier_run_is_shown_and_its_files_written_again(
    pipeline: Pipeline, report: Report, last_run: LastRun, workspace: Path
) -> None:
    assert pipeline("run", *ONE).code == 0
    shown = pipeline("report", "show", "--junit", "new/again.xml", "--summary", "new/again.md")
    assert shown.code == 0
    assert "no job is red: 1 passed" in shown.out
    again = report(workspace / "new" / "again.xml")
    first = report(last_run() / "junit.xml")
    assert {job: case.out for job, case in again.items()} == {job: case.out for job, case in first.items()}
    assert "1 passed" in (workspace / "new" / "again.md").read_text()


def test_without_a_torch_that_works_the_host_is_at_fault(
    start: Start, report: Report, last_run: LastRun, workspace: Path
) -> None:
    source = workspace / "source"
    source.mkdir()
    for room in ("golden", "pipeline", "kernels", "workloads", "emulator"):
        (source / room).symlink_to(Path(__file__).parents[2] / room)
    (source / "torch.py").write_text("raise ImportError('libtorch_cpu.so: no such file')\n")
    (workspace / "out" / "goldens").unlink()
    process = start("run", *EMULATED, "--profile", "small", source=source)
    out, err = process.communicate()
    assert (process.returncode, err) == (6, "")
    cases = report(last_run() / "junit.xml")
    assert len(cases) == 5
    for case in cases.values():
        assert case.kind == "error"
        assert "no golden: torch cannot be imported (libtorch_cpu.so: no such file)" in case.message
        assert "pip install torch" in case.message
    assert "set aside" not in out
    assert (last_run() / "nursery.log").read_text() == ""


def test_a_run_in_which_the_pipeline_failed_is_never_shown_green(
    pipeline: Pipeline, report: Report, last_run: LastRun, workspace: Path
) -> None:
    assert pipeline("run", *ONE).code == 0
    journal = last_run() / "journal.jsonl"
    begun, closed, end = journal.read_text().rpartition('"exit_code":0')
    assert closed
    journal.write_text(begun + '"exit_code":3' + end)
    shown = pipeline("report", "show", "--junit", "again.xml")
    assert shown.code == 3
    assert "the pipeline itself failed" in shown.out
    assert "error" in {case.kind for case in report(workspace / "again.xml").values()}


@pytest.mark.usefixtures("two_devices")
def test_a_run_that_waits_for_locked_devices_says_for_whom_on_the_terminal_and_in_its_reports(
    start: Start, report: Report, last_run: LastRun, tmp_path: Path
) -> None:
    locks = tmp_path / "locks"
    locks.mkdir()
    with (locks / "emulated-0.lock").open("w") as one, (locks / "emulated-1.lock").open("w") as other:
        for file in (one, other):
            fcntl.flock(file, fcntl.LOCK_EX)
        process = start("compile", *EMULATED, "--kernel", "fused")
        assert process.stdout
        remark = next(line for line in process.stdout if line.startswith("waiting"))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (2, "")
    said = r"waiting for device emulated-0, emulated-1 since \d\d:\d\d:\d\d UTC: held by process \d+ of user "
    assert re.match(said, remark)
    assert f"process {os.getpid()} of user" in remark
    (case,) = report(last_run() / "junit.xml").values()
    for text in (out, case.message, (last_run() / "summary.md").read_text()):
        assert f"interrupted by SIGINT; {remark.strip()[:80]}" in text


@pytest.mark.usefixtures("two_devices")
def test_a_device_set_aside_is_named_alike_everywhere(
    pipeline: Pipeline, report: Report, last_run: LastRun, workspace: Path
) -> None:
    (workspace.parent / "locks" / "emulated-0.lock").mkdir(parents=True)
    said = [pipeline("run", *ONE).out]
    first = (last_run() / "summary.md").read_text(), report(last_run() / "junit.xml")
    shown = pipeline("report", "show", "--junit", "again.xml", "--summary", "again.md")
    said.append(shown.out)
    reasons = set()
    for text, cases in (first, ((workspace / "again.md").read_text(), report(workspace / "again.xml"))):
        (case,) = cases.values()
        assert case.kind == "passed"
        reasons.add(case.properties["set-aside emulated-0"])
        reasons.add(re.findall(r"Device `emulated-0` was set aside:\*\* `(.*)`", text)[0])
    reasons |= {re.findall("device emulated-0 was set aside: (.*)", text)[0] for text in said}
    assert len(reasons) == 1


@pytest.mark.usefixtures("two_devices")
def test_the_command_of_a_failure_runs_it_on_the_same_device(
    pipeline: Pipeline, report: Report, last_run: LastRun
) -> None:
    outcome = pipeline("run", *ONE, "--devices", "1,0", "--inject", "unwritten")
    assert outcome.code == 1
    (case,) = report(last_run() / "junit.xml").values()
    lines = case.out.splitlines()
    assert {"device=1", "attempts=2", "devices=failed in the same way on device 1 and device 0"} <= set(lines)
    (again,) = (line for line in lines if line.startswith("reproduce="))
    assert " --devices 1 " in again
    assert "; device 1; geometry bands; " in outcome.out
    assert pipeline(*again.split(" -m pipeline ")[1].split()).code == 1
    assert "device=1" in next(iter(report(last_run() / "junit.xml").values())).out.splitlines()
