"""Runs on real Ray clusters that take long: `nox -s cluster`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest

from pipeline.ground.jobs import State
from pipeline.run import processes
from pipeline.run.folders import read_run, run_ids
from tests.pipeline.run.cluster.conftest import HERE, PATHS, a_cluster, begun, rest, results

pytestmark = pytest.mark.thorough
ROOT = Path(__file__).parents[4]
ELSEWHERE = {
    *("seconds", "started", "ended", "at_best", "peak_memory", "node"),
    *("device", "devices", "attempts", "attempt_1", "attempt_2", "tries"),
}
"""What depends on time, host and device: a failure is tried on a second device if it is the first on one."""

ELSEWHERE_IN_TEXT = (
    (r" --executor ray --address [\d.:]+", ""),
    (r"\d{4}-\d\d-\d\dT[\d:.+]+", "THEN"),
    (r"(?<=time=\")[\d.]+|(?<=seconds `)[\d.]+|(?<=at best `)[\d.]+|[\d.]+(?= s, exit code)", "S"),
    (r"(?<=--devices )\d", "N"),
    *(
        (rf"\n *<property name=\"{name}\" value=\"{value}\" />", "")
        for name, value in ((r"note \d", r"node 127\.[^\"]*"), ("seconds|at_best", r"[\d.]*"))
    ),
    (rf"(?<=\n)({'|'.join(sorted(ELSEWHERE))})=.*\n", ""),
)
"""Patterns of the same in the words and lines of reports, with what takes their place."""


def test_jobs_run_on_both_nodes_and_what_they_leave_comes_home(cluster: Any, tmp_path: Path) -> None:
    works = ("tells_device@0,1*6", "passes*2", "writes:1000,mismatch@0", "dies_by:SIGSEGV@1", "garbage")
    lines = rest(cluster.run(tmp_path, *works))
    assert lines[-1] == "end 1"
    ended = results(tmp_path)
    states = Counter(one.state for one in ended)
    assert states == {State.PASSED: 9, State.MISMATCH: 1, State.CRASHED: 1}
    assert {one.facts["node"] for one in ended} == {"127.0.0.1", "127.0.0.2"}
    assert all(one.message == f"device {one.device}" for one in ended[:6])
    wrong = next(one for one in ended if one.state is State.MISMATCH)
    assert wrong.facts["devices"].startswith("failed in the same way on device 0 of 127.0.0.")
    run = tmp_path / run_ids(tmp_path)[-1]
    assert (run / wrong.artefacts[0]).read_bytes() == b"x" * 1000
    assert ended[-1].message == "bad \\udcff text"


def test_a_killed_run_leaves_nothing_on_any_node_and_is_resumed(cluster: Any, tmp_path: Path) -> None:
    run, name = begun(cluster, tmp_path, "@0,1")
    psutil.Process(run.pid).children()[0].kill()  # nsenter waits for the runner
    rest(run)
    assert processes.wait_until(lambda: not cluster.left(), 60)
    before = read_run(tmp_path, name).finished
    lines = rest(cluster.run(tmp_path, "--resume", name))
    assert lines[-1] == "end 1"
    assert sum(line.startswith("started ") for line in lines) >= 8 - len(before)
    assert Counter(one.state for one in results(tmp_path)) == {State.PASSED: 7, State.MISMATCH: 1}


def test_two_thousand_short_jobs_end_once_each_and_evenly_on_the_nodes(cluster: Any, tmp_path: Path) -> None:
    lines = rest(cluster.run(tmp_path, "passes*2000"))
    assert lines[-1] == "end 0"
    ended = results(tmp_path)
    assert Counter(one.state for one in ended) == {State.PASSED: 2000}
    assert sum(line.startswith("finished") for line in lines) == 2000
    shares = Counter(one.facts["node"] for one in ended)
    assert len(shares) == 2
    assert min(shares.values()) > 400


def test_the_report_of_a_cluster_is_that_of_one_host(cluster: Any, tmp_path: Path) -> None:
    """Of jobs on the shipped matrix of which a fault makes some fail, but for times, hosts and devices."""
    words = ("run", "--geometry", "pair-24x16", "--platform", "emu-a2a3", "--kernel", "fused")
    command = [sys.executable, "-m", "pipeline", *words, "--inject", "half-away-1"]
    here, there = tmp_path / "here", tmp_path / "there"
    alone = subprocess.run([*command, "--output", str(here)], cwd=ROOT, capture_output=True)
    ray = ("--executor", "ray", "--address", cluster.address)
    on_nodes = cluster.popen([*command, "--output", str(there), *ray])
    rest(on_nodes)
    assert alone.returncode == on_nodes.wait() == 1
    one, other = told(here), told(there)
    for name in ("junit.xml", "summary.md"):
        assert one[name].splitlines() == other[name].splitlines()
    notes = other["results.json"].pop("notes")
    assert {note.split()[1] for note in notes} == {"127.0.0.1", "127.0.0.2"}
    assert one["results.json"].pop("notes") == []
    assert one["results.json"] == other["results.json"]


def told(output: Path) -> dict[str, Any]:
    """The reports, by their names, without what depends on time, host and device."""
    (folder,) = (output / "runs").glob("2*")

    def text(name: str) -> str:
        text = (folder / name).read_text().replace(str(output), "OUTPUT").replace(folder.name, "RUN")
        for pattern, instead in ELSEWHERE_IN_TEXT:
            text = re.sub(pattern, instead, text)
        return text

    reports: dict[str, Any] = {name: text(name) for name in ("junit.xml", "summary.md")}
    return {**reports, "results.json": plain(json.loads(text("results.json")))}


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items() if key not in ELSEWHERE}
    return [plain(one) for one in value] if isinstance(value, list) else value


def test_what_jobs_tell_of_files_is_what_they_tell_on_one_host(cluster: Any, tmp_path: Path) -> None:
    """Where the sources are, and their own folders, although a node has both elsewhere."""
    here, there = tmp_path / "here", tmp_path / "there"
    works = ("raises:boom", "facts:x")
    alone(here, *works)
    rest(cluster.run(there, *works))

    def all_told(root: Path) -> list[str]:
        text = (root / run_ids(root)[-1] / "journal.jsonl").read_text()
        assert "conv-pair-node" not in text
        raised, found = results(root)
        assert "pipeline/run/worker.py" in raised.details
        folder = found.facts["folder"].replace(run_ids(root)[-1], "RUN").replace(str(root), "ROOT")
        return [raised.message, raised.details, folder, str(found.facts["cwd"] == found.facts["folder"])]

    assert all_told(here) == all_told(there)


def alone(root: Path, *works: str) -> None:
    """Run such jobs on this host."""
    root.mkdir(exist_ok=True)
    command = [sys.executable, str(HERE / "runner.py"), str(root), str(root / "locks"), *works]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": PATHS}, capture_output=True)


def test_a_golden_is_brought_to_a_node_once(cluster: Any, tmp_path: Path) -> None:
    """All jobs find the same file, but those that begin before it has arrived: they are sent another one."""
    alone(tmp_path, "needs_golden")
    assert rest(cluster.run(tmp_path, "tells_golden*24"))[-1] == "end 0"
    assert len({one.message for one in results(tmp_path)}) <= 6


def test_without_an_address_the_cluster_of_this_host_is_taken(cluster: Any, tmp_path: Path) -> None:
    """That none is there is told, although processes of one are: those of the cluster, which is elsewhere."""
    words = ("compile", "--executor", "ray", "--geometry", "pair-24x16", "--platform", "emu-a2a3")
    command = [sys.executable, "-m", "pipeline", *words, "--output", str(tmp_path)]
    there = cluster.popen(command)
    rest(there)
    assert there.wait() == 0
    elsewhere = {**os.environ, "RAY_TMPDIR": str(tmp_path)}
    ended = subprocess.run(command, cwd=ROOT, env=elsewhere, capture_output=True, text=True)
    assert ended.returncode == 4
    assert ended.stderr.startswith("--executor ray: auto: no cluster was started on this host: ")
    assert ended.stderr.count("\n") == 1


def test_when_the_head_ends_the_run_ends_in_order_and_is_resumed_elsewhere(
    cluster: Any, tmp_path: Path
) -> None:
    """The last test of the module: afterwards there is no cluster."""
    run, name = begun(cluster, tmp_path)
    cluster.kill_node(1)
    lines = rest(run)
    assert lines[-1] == "end 2"
    ended = Counter(one.state for one in results(tmp_path))
    assert ended[State.INTERRUPTED] >= 1
    assert ended.keys() <= {State.PASSED, State.MISMATCH, State.INTERRUPTED}
    assert sum(ended.values()) == 8
    assert processes.wait_until(lambda: not cluster.left(), 120)
    with a_cluster() as another:
        assert rest(another.run(tmp_path, "--resume", name))[-1] == "end 1"
    assert Counter(one.state for one in results(tmp_path)) == {State.PASSED: 7, State.MISMATCH: 1}
