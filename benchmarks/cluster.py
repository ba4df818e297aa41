"""What a job costs on a Ray cluster: against plain Ray tasks of the same number and against this host alone.

Run as `python -m benchmarks.cluster [NODES...] [--jobs N...]`: by default 1, 2 and 4 local nodes and 1,000
jobs that do nothing. Each cluster is a real one in namespaces of its own (`tests/pipeline/run/cluster` says
what that needs). Printed are the milliseconds a job and the controller's memory; all nodes share this host's
processors, so more nodes only show what the controller pays for them.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

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
        print(f"SECONDS {time.perf_counter() - self.begun}")
runner.Printer = Silent
with tempfile.TemporaryDirectory() as folder:
    code = runner.main([folder, folder + "/locks", "passes*" + sys.argv[2]])
own, others = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
spent = [one.ru_utime + one.ru_stime for one in (own, others)]
print(f"CODE {code} CPU {spent[0]} {spent[1]} MIB {own.ru_maxrss / 1024}")
"""


class Cost(NamedTuple):
    """Seconds on the wall, of processor time of the controller and of its children; the controller's MiB."""

    wall: float
    own: float
    others: float
    mib: float

    def told(self, jobs: int) -> str:
        """A run of so many jobs, in words."""
        each = [seconds / jobs * 1e3 for seconds in (self.wall, self.own, self.others)]
        return (
            f"{each[0]:6.2f} ms a job (processor time of the controller {each[1]:.2f}, of its children"
            f" {each[2]:.2f}), {self.mib:.0f} MiB"
        )


def seconds_of(output: str) -> float:
    """The seconds that a command printed."""
    found = re.search(r"SECONDS ([\d.e-]+)", output)
    if found is None:
        raise SystemExit(f"nothing was measured: {output}")
    return float(found[1])


def measured(process: subprocess.Popen[bytes]) -> Cost:
    """What a run cost."""
    output = process.communicate()[0].decode()
    found = re.search(r"CODE 0 CPU ([\d.]+) ([\d.]+) MIB ([\d.]+)", output)
    if found is None:
        raise SystemExit(f"a run went wrong: {output}")
    return Cost(seconds_of(output), *map(float, found.groups()))


def main() -> None:
    """Measure and print a line for each number of nodes and jobs."""
    options = argparse.ArgumentParser()
    options.add_argument("nodes", nargs="*", type=int, default=[1, 2, 4])
    options.add_argument("--jobs", nargs="*", type=int, default=[1000])
    given = options.parse_args()
    if reason := cannot():
        print(f"not measured: {reason}")
        return
    here = Path(__file__).parents[1]
    paths = f"{here / 'tests/pipeline/run'}:{here}"
    for jobs in given.jobs:
        alone = [sys.executable, "-c", _RUN, "", str(jobs)]
        environment = {**os.environ, "PYTHONPATH": paths}
        cost = measured(subprocess.Popen(alone, stdout=subprocess.PIPE, env=environment))
        print(f"{jobs} jobs, this host alone: {cost.told(jobs)}", flush=True)
        for nodes in given.nodes:
            cluster = RealCluster(Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp")))
            try:
                for _ in range(nodes):
                    cluster.add_node()
                tasks = cluster.popen([sys.executable, "-c", _PLAIN, ADDRESS, str(jobs)])
                plain = seconds_of(tasks.communicate()[0].decode())
                command = [sys.executable, "-c", _RUN, ADDRESS, str(jobs)]
                cost = measured(cluster.popen(command, CLUSTER=ADDRESS, PYTHONPATH=paths))
            finally:
                cluster.close()
            print(
                f"{jobs} jobs, {nodes} nodes: {cost.told(jobs)};"
                f" plain Ray tasks {plain / jobs * 1e3:.2f} ms ({cost.wall / plain:.1f} times)",
                flush=True,
            )


if __name__ == "__main__":
    main()
