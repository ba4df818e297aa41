"""What a hundred hosts cost the controller: a run on nodes that are simulated, against one on four of them.

Run as `python -m benchmarks.hosts [NODES...] [--jobs N]`: by default 4 and 100 nodes of 8 devices each, and
10,000 jobs that end at once. The nodes, and Ray, are one process that says what the liaison would say
(`pipeline/run/cluster/messages.py`); plan, places, journal and verdicts are the real ones. Printed are the
controller's processor time a job and its memory, and the ratio to the first number of nodes. Needs no Ray.
"""

from __future__ import annotations

import argparse
import json
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import IO

import msgspec

from pipeline.engines.base import Availability
from pipeline.ground.jobs import Job, Lane, Platform, State, WorkloadName
from pipeline.ground.results import Result
from pipeline.run.cluster.executor import ClusterExecutor
from pipeline.run.cluster.head import AUTO
from pipeline.run.cluster.link import Start
from pipeline.run.cluster.messages import (
    Able,
    Ask,
    Connect,
    Connected,
    Done,
    Expect,
    Found,
    FromLiaison,
    Granted,
    Hire,
    Inspect,
    Return,
    Run,
    Said,
    Survey,
    Tell,
    ToLiaison,
    ToSteward,
)
from pipeline.run.cluster.roster import Cluster
from pipeline.run.controller import Host, RunOptions, run_jobs
from pipeline.run.messages import Channel, Report, encode, write_atomically
from pipeline.run.processes import start_interpreter

DEVICES = 8
"""Of each node; it has as many processors."""

_REPORT = Report(0, None, 0.0, "", "", (), ())
_LIAISON = "from benchmarks.hosts import liaison; liaison(*map(int, sys.argv[1:]))"
_CONTROLLER = "import sys; from benchmarks.hosts import controller; controller(*map(int, sys.argv[1:]))"


def simulated(nodes: int) -> Start:
    """Starts a liaison, `liaison`, of so many nodes."""

    def start(errors: IO[bytes]) -> tuple[subprocess.Popen[bytes], Channel[FromLiaison]]:
        process, ours = start_interpreter(_LIAISON, [str(nodes)], errors)
        return process, Channel[FromLiaison](ours, msgspec.json.Decoder(FromLiaison))

    return start


class _Nodes:
    """So many nodes, each with its processors."""

    def __init__(self, control: Channel[ToLiaison], nodes: int) -> None:
        self._control = control
        self._names = [f"10.0.{number // 256}.{number % 256}" for number in range(nodes)]
        self._used: Counter[str] = Counter()
        self._slots: dict[int, str] = {}
        self._results: dict[tuple[str, int], str] = {}

    def answer(self, message: ToLiaison) -> None:
        """What the liaison and the stewards would do."""
        if isinstance(message, Connect):
            for name in self._names:
                self._control.send(Found(name, name, {"CPU": float(DEVICES)}))
            self._control.send(Connected())
        elif isinstance(message, Hire):
            asked = msgspec.json.decode(message.line, type=ToSteward)
            assert isinstance(asked, Inspect)
            able = tuple(Able() for _ in asked.jobs)
            pools = {job.platform.name: tuple(range(DEVICES)) for job in asked.jobs}
            self._say(message.node, Survey({"host": message.node}, {}, able, pools, time.time()))
        elif isinstance(message, Ask):
            node = min(message.nodes, key=self._used.__getitem__)
            self._used[node] += 1
            self._slots[message.slot] = node
            self._control.send(Granted(message.slot, node))
        elif isinstance(message, Return):
            self._used[self._slots.pop(message.slot)] -= 1
        elif isinstance(message, Expect):
            self._results[message.node, message.number] = message.result
        elif isinstance(message, Tell):
            told = msgspec.json.decode(message.line, type=ToSteward)
            if isinstance(told, Run):
                passed = encode(Result(told.job, State.PASSED))
                write_atomically(Path(self._results.pop((message.node, told.number))), passed)
                self._say(message.node, Done(told.number, _REPORT, "", False))

    def _say(self, node: str, said: object) -> None:
        self._control.send(Said(node, msgspec.Raw(encode(said))))


def liaison(descriptor: int, nodes: int) -> None:
    """Answer the controller at the other end of the socket `descriptor`."""
    control = Channel[ToLiaison](socket.socket(fileno=descriptor), msgspec.json.Decoder(ToLiaison))
    there = _Nodes(control, nodes)
    while (message := control.next()) is not None:
        there.answer(message)


def controller(nodes: int, jobs: int) -> None:
    """Run so many jobs on so many nodes, and print as JSON what that cost."""
    workload, geometry = WorkloadName("gemm"), {"m": 32, "k": 32, "n": 32}
    platform = Platform("emu", "emulator", "a2a3", devices=tuple(range(DEVICES)))
    plan = [
        Job(f"device/emu/{number}", Lane.DEVICE, platform, workload, "g", geometry, "fused", "small", 60.0)
        for number in range(jobs)
    ]
    cluster = Cluster(AUTO, lambda: (b"", "0"), Path.cwd(), "")

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        options = RunOptions(root, root / "cache", root / "locks", preload=())
        host = Host(
            available=lambda _job: Availability(),
            executor=lambda terms: ClusterExecutor(terms, cluster, simulated(nodes)),
        )
        wall, own = time.perf_counter(), time.process_time()
        summary = run_jobs(plan, options, [], host)
        spent = [time.perf_counter() - wall, time.process_time() - own]
    assert summary.exit_code == 0, summary.problems
    own_use = resource.getrusage(resource.RUSAGE_SELF)
    sys.stdout.write(json.dumps([*spent, own_use.ru_maxrss / 1024]))


def main() -> None:
    """Measure and print a line for each number of nodes, each in a controller of its own."""
    options = argparse.ArgumentParser()
    options.add_argument("nodes", nargs="*", type=int, default=[4, 100])
    options.add_argument("--jobs", type=int, default=10_000)
    given = options.parse_args()
    first = 0.0
    for nodes in given.nodes:
        command = [sys.executable, "-c", _CONTROLLER, str(nodes), str(given.jobs)]
        ended = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        wall, own, mebibytes = json.loads(ended.stdout)
        first = first or own
        print(
            f"{given.jobs} jobs, {nodes} nodes: {own / given.jobs * 1e3:.2f} ms of the controller a job"
            f" ({own / first:.2f} times that of the first line), {mebibytes:.0f} MiB;"
            f" {wall / given.jobs * 1e3:.2f} ms on the wall",
            flush=True,
        )


if __name__ == "__main__":
    main()
