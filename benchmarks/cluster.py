"""What a job costs on a Ray cluster: against plain Ray tasks of the same number and against this host alone.

Run as `python -m benchmarks.cluster [NODES...] [--jobs N...]`: by default 1, 2 and 4 local nodes of two
processors each, and 1,000, 10,000 and 20,000 jobs that do nothing. The cluster is a real one in namespaces of
its own (`tests/pipeline/run/cluster` says what that needs); all nodes share this host's processors.

First, runs with one job at a time on one node give the constants of `hosts.Model`. Each line then has the
milliseconds a job, what the model says of them, the processor time, the controller's memory, and the ratios
to this host alone and to plain Ray tasks in the same run of this command. The last line is what the model
says of a hundred hosts.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from benchmarks.hosts import DEVICES, Model
from tests.pipeline.run.cluster.conftest import ADDRESS, RealCluster, cannot

_PLAIN = """
import sys, time, ray
ray.init(address=sys.argv[1], log_to_driver=False)
nothing = ray.remote(lambda: None)
ray.get([nothing.remote() for _ in range(20)])
begun = time.perf_counter()
ray.get([nothing.remote() for _ in range(int(sys.argv[2]))])
print(f"SECONDS {time.perf_counter() - begun}")
"""

_RUN = """
import os, resource, sys, tempfile, time
from pathlib import Path
import runner
class Silent(runner.Printer):
    begun = 0.0
    def run_started(self, run):
        self.begun = time.perf_counter()
    def job_started(self, job, device, attempt): pass
    def job_finished(self, result): pass
    def run_finished(self, summary):
        print(f"SECONDS {time.perf_counter() - self.begun}", flush=True)
        time.sleep(2.0)  # nothing has ended yet, so that processor time can be read of all processes
runner.Printer = Silent
with tempfile.TemporaryDirectory() as folder:
    code = runner.main([folder, folder + "/locks", "passes*" + sys.argv[2]])
own, others = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
spent = [one.ru_utime + one.ru_stime for one in (own, others)]
print(f"CODE {code} CPU {spent[0]} {spent[1]} MIB {own.ru_maxrss / 1024}")
"""

_FEW, _MORE = 100, 600
"""Numbers of jobs of the two runs that give the constants: what they differ in is what a job costs."""

HERE = Path(__file__).parents[1]
PATHS = f"{HERE / 'tests/pipeline/run'}:{HERE}"


class Cost(NamedTuple):
    """Of a run: seconds on the wall, of processor time of the controller, of its children and of the nodes.

    Of a run on this host alone, the children are all keepers and jobs. `mib` is the controller's memory.
    """

    wall: float
    own: float
    others: float
    mib: float
    nodes: float = 0.0

    def told(self, jobs: int) -> str:
        """A run of so many jobs, in words."""
        wall, own, others, nodes = (
            seconds / jobs * 1e3 for seconds in (self.wall, self.own, self.others, self.nodes)
        )
        on_nodes = f", of the nodes {nodes:.2f}" if nodes else ""
        return (
            f"{wall:.2f} ms a job; processor time of the controller {own:.2f}, of its children {others:.2f}"
            f"{on_nodes}; {self.mib:.0f} MiB"
        )


def seconds_of(output: str) -> float:
    """The seconds that a command printed."""
    found = re.search(r"SECONDS ([\d.e-]+)", output)
    if found is None:
        raise SystemExit(f"nothing was measured: {output}")
    return float(found[1])


def measured(run: subprocess.Popen[bytes], nodes: Callable[[], float] = lambda: 0.0) -> Cost:
    """What a run cost; `nodes` gives the processor time of the nodes while it has not ended."""
    assert run.stdout is not None
    first = run.stdout.readline().decode()
    spent = nodes()
    output = first + run.communicate()[0].decode()
    found = re.search(r"CODE 0 CPU ([\d.]+) ([\d.]+) MIB ([\d.]+)", output)
    if found is None:
        raise SystemExit(f"a run went wrong: {output}")
    own, others, mebibytes = map(float, found.groups())
    return Cost(seconds_of(output), own, others, mebibytes, spent)


def alone(jobs: int) -> Cost:
    """What a run of so many jobs costs on this host alone."""
    command = [sys.executable, "-c", _RUN, "", str(jobs)]
    environment = {**os.environ, "PYTHONPATH": PATHS, "JOBS": "0"}
    return measured(subprocess.Popen(command, stdout=subprocess.PIPE, env=environment))


def on_nodes(cluster: RealCluster, jobs: int, at_a_time: int = 0) -> Cost:
    """What a run of so many jobs costs on a cluster; by default as many as can run at a time."""
    before = processor_time(cluster.inside())
    command = [sys.executable, "-c", _RUN, ADDRESS, str(jobs)]
    run = cluster.popen(command, CLUSTER=ADDRESS, PYTHONPATH=PATHS, JOBS=str(at_a_time))

    def spent() -> float:
        own = {one.pid for one in psutil.Process(run.pid).children(recursive=True)}
        return processor_time(one for one in cluster.inside() if one.pid not in own) - before

    return measured(run, spent)


def processor_time(processes: Iterable[psutil.Process]) -> float:
    """Seconds that processes took, with those of their children that have ended."""
    taken = 0.0
    for process in processes:
        with suppress(psutil.Error):
            taken += sum(process.cpu_times()[:4])
    return taken


def plain(cluster: RealCluster, jobs: int) -> float:
    """Seconds that so many plain Ray tasks take."""
    tasks = cluster.popen([sys.executable, "-c", _PLAIN, ADDRESS, str(jobs)])
    return seconds_of(tasks.communicate()[0].decode())


def model_of(cluster: RealCluster) -> Model:
    """The constants, from two runs with one job at a time."""
    few, more = (on_nodes(cluster, jobs, at_a_time=1) for jobs in (_FEW, _MORE))
    jobs = _MORE - _FEW
    wall = (more.wall - few.wall) / jobs
    own, liaison, nodes = (
        (b - a) / jobs for a, b in ((few.own, more.own), (few.others, more.others), (few.nodes, more.nodes))
    )
    begin = max(0.0, few.wall - _FEW * wall)  # on a busy host both are vague
    return Model(begin, wall, own, liaison, own + liaison + nodes)


def main() -> None:
    """Measure and print a line for each number of nodes and jobs."""
    options = argparse.ArgumentParser()
    options.add_argument("nodes", nargs="*", type=int, default=[1, 2, 4])
    options.add_argument("--jobs", nargs="*", type=int, default=[1_000, 10_000, 20_000])
    given = options.parse_args()
    if reason := cannot():
        print(f"not measured: {reason}")
        return
    here = {}
    for jobs in given.jobs:
        here[jobs] = alone(jobs)
        print(f"{jobs} jobs, this host alone: {here[jobs].told(jobs)}", flush=True)
    cluster = RealCluster(Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp")))
    try:
        cluster.add_node()
        model = model_of(cluster)
        print(f"constants, one job at a time: {model}", flush=True)
        for nodes in sorted(given.nodes):
            while len(cluster.nodes) < nodes:
                cluster.add_node()
            for jobs in given.jobs:
                tasks, cost = plain(cluster, jobs), on_nodes(cluster, jobs)
                print(
                    f"{jobs} jobs, {nodes} nodes: {cost.told(jobs)};"
                    f" {cost.wall / here[jobs].wall:.1f} times this host alone,"
                    f" {cost.wall / tasks:.1f} times plain Ray tasks ({tasks / jobs * 1e3:.2f} ms);"
                    f" {model.compared(cost.wall, jobs, 2 * nodes)}",
                    flush=True,
                )
    finally:
        cluster.close()
    print(f"100 hosts of {DEVICES} places each, by the model: {model.at_most(100 * DEVICES)}")


if __name__ == "__main__":
    main()
