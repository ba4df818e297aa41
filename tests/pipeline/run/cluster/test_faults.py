"""What can be wrong with a node or with the way to a cluster, on a real one: `nox -s cluster`."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import psutil
import pytest

from pipeline.ground.jobs import State
from pipeline.run import processes
from pipeline.run.folders import run_ids
from tests.pipeline.run.cluster.conftest import a_cluster, begun, busy, compile_lane, rest, results

pytestmark = pytest.mark.thorough
TOKEN = "ab" * 32

CABLE = """
ip link add cable type veth peer name plug
ip address add 10.9.1.1/24 dev cable
ip link set cable up
"""
AT_THE_CABLE = """
exec unshare --net sh -ec '
  nsenter --target 1 --net ip link set plug netns $$
  ip link set lo up
  ip address add 10.9.1.2/24 dev plug
  ip link set plug up
  ip route add default via 10.9.1.1
  exec "$@"' sh "$@"
"""
SMALL_DISK = """
exec unshare --mount sh -ec '
  mount -t tmpfs -o size={size} none tmp
  exec "$@"' sh "$@"
"""

HIDDEN = """
exec unshare --mount sh -ec '
  mount -t tmpfs none {folder}
  exec "$@"' sh "$@"
"""

CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
  int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
  int failed = real(clock, now);
  if (clock == CLOCK_REALTIME) now->tv_sec += 3600;
  return failed;
}
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec exact;
  clock_gettime(CLOCK_REALTIME, &exact);
  now->tv_sec = exact.tv_sec;
  now->tv_usec = exact.tv_nsec / 1000;
  return 0;
}
time_t time(time_t *out) {
  struct timespec exact;
  clock_gettime(CLOCK_REALTIME, &exact);
  if (out) *out = exact.tv_sec;
  return exact.tv_sec;
}
"""
"""A library that puts the clock of the processes that load it an hour forward."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A cluster of one node, with a token, whose head can be reached from other networks."""
    quick = {"RAY_health_check_period_ms": "1000", "RAY_health_check_timeout_ms": "3000"}
    patience = {"RAY_health_check_failure_threshold": "3", "RAY_gcs_rpc_server_reconnect_timeout_s": "10"}
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN}
    with a_cluster("10.9.0.1", "ip address add 10.9.0.1/32 dev lo", **quick, **patience, **token) as cluster:
        yield cluster


def test_a_node_that_is_cut_off_is_lost_and_leaves_nothing(cluster: Any, tmp_path: Path) -> None:
    """Its network is cut while it lives and works: its jobs go elsewhere, and it ends its own."""
    cluster.do(CABLE)
    with cluster.joined("10.9.1.2", AT_THE_CABLE):
        run = busy(cluster, tmp_path, 3)
        cluster.do("ip link set cable down")
        try:
            lines = rest(run)
            assert sum(line.startswith("remark node 10.9.1.2 was lost: ") for line in lines) == 1
            assert Counter(one.state for one in results(tmp_path)) == {State.PASSED: 8, State.MISMATCH: 1}
            assert processes.wait_until(lambda: not cluster.left(), 120)
        finally:
            cluster.do("ip link set cable up")


def test_a_node_whose_disk_is_full_is_set_aside(cluster: Any, tmp_path: Path) -> None:
    with cluster.joined("127.0.0.2", SMALL_DISK.format(size="16m")):
        lines = rest(cluster.run(tmp_path, "passes*8", "writes:20000000,passed*8"))
    ended = results(tmp_path)
    assert Counter(one.state for one in ended) == {State.PASSED: 16}
    assert {one.facts["node"] for one in ended[8:]} == {"10.9.0.1"}
    assert any("127.0.0.2" in line and "No space left on device" in line for line in lines), lines
    assert processes.wait_until(lambda: not cluster.left(), 60)


def test_what_two_devices_of_a_node_fail_is_that_nodes_fault(cluster: Any, tmp_path: Path) -> None:
    """One of two nodes lacks a compiler, has a full disk, or computes wrongly, on both of its devices."""
    with cluster.joined("127.0.0.2", SICK="yes"):
        for work in ("lacks:no compiler", "raises:[Errno 28] No space left on device", "is_wrong"):
            root = tmp_path / work.partition(":")[0]
            lines = rest(cluster.run(root, f"on_sick:{work}@0,1*24"))
            ended = results(root)
            wrong = [one for one in ended if any(each.state is State.MISMATCH for each in one.tries)]
            assert bool(wrong) == (work == "is_wrong")
            expected = {State.PASSED: len(ended) - len(wrong), State.DEVICE_DEPENDENT: len(wrong)}
            assert Counter(one.state for one in ended) == Counter(expected)
            assert all(" of 127.0.0.2, right on device " in one.message for one in wrong)
            aside = [line for line in lines if line.startswith("remark ") and " is set aside: " in line]
            assert aside, lines
            assert aside[-1].startswith("remark node 127.0.0.2 is set aside: "), lines
            assert not [line for line in aside if "10.9.0.1" in line.partition(" is set aside: ")[0]]


def test_a_node_whose_disk_cannot_hold_the_sources_is_not_used(cluster: Any, tmp_path: Path) -> None:
    with cluster.joined("127.0.0.2", SMALL_DISK.format(size="64k")):
        lines = rest(cluster.run(tmp_path, "passes*4"))
    assert Counter(one.state for one in results(tmp_path)) == {State.PASSED: 4}
    (told,) = (line for line in lines if "127.0.0.2" in line)
    assert told.startswith("note node 127.0.0.2 is not used: ")
    assert "No space left on device" in told


def test_a_node_that_is_slow_for_a_while_keeps_its_jobs(cluster: Any, tmp_path: Path) -> None:
    """All of it stands still."""
    with cluster.joined("127.0.0.2") as number:
        run = busy(cluster, tmp_path, 1)
        slow = cluster.processes(number)
        processes.send(slow, signal.SIGSTOP)
        time.sleep(4)  # longer than a job takes, and shorter than Ray waits
        processes.send(slow, signal.SIGCONT)
        lines = rest(run)
    ended = results(tmp_path)
    assert Counter(one.state for one in ended) == {State.PASSED: 8, State.MISMATCH: 1}
    assert not [line for line in lines if "lost" in line or "set aside" in line]
    assert "127.0.0.2" in {one.facts["node"] for one in ended}
    assert all(one.attempts == 1 for one in ended if one.state is State.PASSED)


def test_a_worker_of_ray_that_is_killed_is_replaced(cluster: Any, tmp_path: Path) -> None:
    """Its node is told by name; its jobs go elsewhere, or to the worker that takes its place."""
    with cluster.joined("127.0.0.2") as number:
        run = busy(cluster, tmp_path, 2)
        (worker,) = (one for one in cluster.processes(number) if "ray::Node" in processes.describe(one))
        worker.kill()
        lines = rest(run)
    ended = results(tmp_path)
    assert Counter(one.state for one in ended) == {State.PASSED: 8, State.MISMATCH: 1}
    assert sum(line.startswith("remark node 127.0.0.2 was lost: ") for line in lines) == 1
    assert sum(line.startswith("remark node 127.0.0.2#2 ") for line in lines) == 1
    assert processes.wait_until(lambda: not cluster.left(), 60)


def test_what_the_nursery_of_a_node_says_comes_home(cluster: Any, tmp_path: Path) -> None:
    assert rest(cluster.run(tmp_path, "complains:broken", "passes"))[-1] == "end 0"
    folder = tmp_path / run_ids(tmp_path)[-1]
    assert (folder / "nursery-10.9.0.1.log").read_text() == "broken"
    assert rest(cluster.run(tmp_path, "passes"))[-1] == "end 0"
    assert list((tmp_path / run_ids(tmp_path)[-1]).glob("nursery-*")) == []


def test_a_clock_that_is_wrong_is_told_and_no_time_of_the_report_is_its(cluster: Any, tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    (tmp_path / "clock.c").write_text(CLOCK)
    library = tmp_path / "clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "clock.c", "-ldl"], check=True)
    with cluster.joined("127.0.0.2", LD_PRELOAD=str(library)):
        begun = time.time()
        lines = rest(cluster.run(tmp_path, "sleeps:0.2*12"))
    ended = results(tmp_path)
    assert Counter(one.state for one in ended) == {State.PASSED: 12}
    assert "127.0.0.2" in {one.facts["node"] for one in ended}
    notes = {line.split()[2]: line for line in lines if line.startswith("note node")}
    assert "its clock is" not in notes["10.9.0.1"]
    fast = re.search(r"its clock is at least (\d+) s fast", notes["127.0.0.2"])
    assert fast is not None
    assert 3600 - 60 < int(fast[1]) <= 3600, "its answer took a part of that, and at most a minute"
    starts = [datetime.fromisoformat(one.started).astimezone(timezone.utc).timestamp() for one in ended]
    assert begun - 1 < min(starts) <= max(starts) < time.time() + 1
    assert all(0.1 < one.seconds < 60 for one in ended)


def test_a_host_that_is_no_node_is_told_in_one_line(cluster: Any) -> None:
    """It reaches the head, and so do jobs; but Ray's own driver would abort there."""
    cluster.do(CABLE)
    code, lines, _ = compile_lane(cluster, script=AT_THE_CABLE)
    assert code == 4
    (line,) = lines
    assert line == (
        "--executor ray: 10.9.0.1:6380: this host is no node of the cluster;"
        " run `ray start --address=10.9.0.1:6380` here (docs/cluster.md)"
    )


def test_a_host_that_does_not_see_the_files_of_its_node_is_told_in_one_line(cluster: Any) -> None:
    code, lines, _ = compile_lane(cluster, script=HIDDEN.format(folder=cluster.folder))
    assert code == 4
    (line,) = lines
    assert re.fullmatch(
        r"--executor ray: 10\.9\.0\.1:6380: the node of this host cannot be reached at \S+/sockets/raylet"
        r" \(No such file or directory\); end it by `ray stop`, and start it again \(docs/cluster\.md\)",
        line,
    )


@pytest.mark.parametrize("wrong", [{"RAY_AUTH_TOKEN": "cd" * 32}, {"RAY_AUTH_MODE": "disabled"}])
def test_a_wrong_token_is_told_in_one_line(cluster: Any, wrong: dict[str, str]) -> None:
    code, lines, _ = compile_lane(cluster, **wrong)
    assert code == 4
    (line,) = lines
    assert line.startswith("--executor ray: 10.9.0.1:6380: the cluster does not take this token; set RAY_")


def test_another_version_of_ray_is_told_in_one_line(cluster: Any) -> None:
    """What the cluster says of itself is changed: Ray compares that with itself."""
    change = """
import json, sys, ray
from ray._private import utils
from ray.experimental.internal_kv import _internal_kv_get, _internal_kv_put
utils.check_version_info = lambda *_: None
ray.init(address=sys.argv[1], log_to_driver=False)
said = json.loads(_internal_kv_get(b"CLUSTER_METADATA", namespace=b"cluster"))
said["ray_version"] = sys.argv[2] or ray.__version__
_internal_kv_put(b"CLUSTER_METADATA", json.dumps(said).encode(), namespace=b"cluster")
"""

    def pretend(version: str) -> None:
        assert cluster.popen([sys.executable, "-c", change, cluster.address, version]).wait() == 0

    pretend("2.9.0")
    try:
        code, lines, _ = compile_lane(cluster)
    finally:
        pretend("")
    assert code == 4
    (line,) = lines
    assert "2.9.0" in line
    assert "install the same" in line


def test_a_run_is_resumed_on_another_host(cluster: Any, tmp_path: Path) -> None:
    """It sees the same folder of runs; its name and its folder for temporary files are its own."""
    run, name = begun(cluster, tmp_path)
    for process in psutil.Process(run.pid).children(recursive=True):
        process.kill()
    rest(run)
    elsewhere = f"mkdir {tmp_path}/other; export TMPDIR={tmp_path}/other; hostname another-host"
    resumed = f'exec unshare --uts sh -ec \'{elsewhere}; exec "$@"\' sh "$@"'
    lines = rest(cluster.run(tmp_path, "--resume", name, script=resumed))
    assert lines[-1] == "end 1", lines
    assert Counter(one.state for one in results(tmp_path)) == {State.PASSED: 7, State.MISMATCH: 1}
    assert run_ids(tmp_path) == (name,)
    assert processes.wait_until(lambda: not cluster.left(), 60)
