"""Runs on a real Ray cluster of two nodes."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pipeline.commands.facts import ROOT
from pipeline.commands.nodes import sources_archive
from pipeline.engines.base import Availability
from pipeline.ground.jobs import State
from pipeline.ground.settings import Settings
from pipeline.run import processes
from pipeline.run.cluster.executor import ClusterExecutor
from pipeline.run.cluster.link import ClusterError
from pipeline.run.cluster.roster import Cluster
from pipeline.run.executor import Terms
from pipeline.run.folders import run_ids
from tests.pipeline.run.cluster.conftest import rest, results, wait_for


def test_a_run_on_two_nodes_of_which_one_dies(cluster: Any, tmp_path: Path) -> None:
    """Its jobs go elsewhere, what they leave comes home, and nothing of them stays on the other node."""
    works = ("sleeps:1*8", "tells_device@0,1*6", "writes:1000,mismatch@0,1", "dies_by:SIGSEGV@0", "garbage")
    run = cluster.run(tmp_path, *works)
    for _ in range(6):
        wait_for(run, "started ")
    cluster.kill_node(2)
    lines = rest(run)
    assert lines[-1] == "end 1"
    ended = results(tmp_path)
    states = Counter(one.state for one in ended)
    assert states == {State.PASSED: 15, State.MISMATCH: 1, State.CRASHED: 1}
    assert sum(line.startswith("remark node 127.0.0.2 was lost: ") for line in lines) == 1
    assert all(one.message == f"device {one.device}" for one in ended[8:14])
    wrong = next(one for one in ended if one.state is State.MISMATCH)
    run_folder = tmp_path / run_ids(tmp_path)[-1]
    assert (run_folder / wrong.artefacts[0]).read_bytes() == b"x" * 1000
    assert ended[-1].message == "bad \\udcff text"
    assert processes.wait_until(lambda: not cluster.left(), 60)


@pytest.mark.parametrize(
    ("address", "left", "told"),
    [
        ("127.0.0.1:1", "", "127.0.0.1:1: nothing answers there ("),
        ("auto", "", "auto: no cluster was started on this host: there is no {}; give --address HOST:PORT, "),
        ("auto", "127.0.0.1:1", "auto, which is 127.0.0.1:1 by {}: nothing answers there ("),
        ("auto", "bad\ntext", "auto: in {}: no address of a head; give HOST:PORT, "),
    ],
)
def test_without_a_cluster_one_line_says_what_helps(
    tmp_path: Path, address: str, left: str, told: str
) -> None:
    """What else can be at an address is in test_head.py. `left` is what the last `ray start` left."""
    pytest.importorskip("ray", reason="Ray is not installed")
    file = tmp_path / "ray" / "ray_current_cluster"
    if left:
        file.parent.mkdir()
        file.write_text(left)
    said = refusal(address, tmp_path)
    assert said.startswith(f"--executor ray: {told.format(file)}")
    assert "\n" not in said


def test_without_ray_that_is_told_whatever_the_address_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host without Ray needs no address first, and no cluster."""
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not installed
    assert refusal("auto", tmp_path) == (
        "--executor ray: Ray is not installed here; make the environment as docs/cluster.md says,"
        " or leave --executor ray out"
    )


def refusal(address: str, folder: Path) -> str:
    """Why no run begins on a cluster at an address, with Ray's files in a folder."""
    environment = {"RAY_TMPDIR": str(folder), "TMPDIR": "/nowhere"}
    terms = Terms(
        (), folder, folder, 1, {}, Settings(), None, 1.0, (), "", environment, lambda _job: Availability()
    )
    with pytest.raises(ClusterError) as refused:
        ClusterExecutor(terms, Cluster(address, sources_archive, ROOT, "targets:survey"))
    return str(refused.value)
