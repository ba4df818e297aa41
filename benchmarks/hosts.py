"""What a hundred hosts cost the controller: a run on nodes that are simulated, against one on four of them.

Run as `python -m benchmarks.hosts [NODES...] [--jobs N]`: by default 4 and 100 nodes of 8 devices each, and
10,000 jobs that end at once. The nodes, and Ray, are one process that says what the liaison would say
(`pipeline/run/cluster/messages.py`); plan, places, journal and verdicts are the real ones. Printed are the
controller's processor time a job and its memory, the ratio to the first number of nodes, and what `Model`
says of the wall time, with constants of shorter runs on the first number of nodes. Needs no Ray.
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
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec

from pipeline.engines.base import Availability
from pipeline.ground.jobs import Job, Lane, Platform, State, WorkloadName
from pipeline.ground.results import Result
from pipeline.run.begin import run_jobs
from pipeline.run.cluster.executor import ClusterExecutor
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
from pipeline.run.messages import Channel, Report, encode, write_atomically
from pipeline.run.options import Host, RunOptions
from pipeline.run.processes import processors, start_interpreter

DEVICES = 8
"""Of each node; it has as many processors."""

_FEW, _MORE = 500, 2500
"""Numbers of jobs of the two runs that give the constants: what they differ in is what a job costs."""

_REPORT = Report(0, None, 0.0, "", "", (), ())
_LIAISON = "from benchmarks.hosts import liaison; liaison(*map(int, sys.argv[1:]))"
_CONTROLLER = "import sys; from benchmarks.hosts import controller; controller(*map(int, sys.argv[1:]))"


@dataclass(frozen=True)
class Model:
    """How long a run of jobs takes that do nothing. All constants are seconds.

    Args:
        begin: of the run without its jobs.
        turn: for which a job keeps its place: the way to the node and back is most of it.
        controller: of processor time that a job takes of the controller, which has one thread.
        liaison: the same of the liaison, which passes on no two jobs at the same time.
        everything: the same of all processes together.
    """

    begin: float
    turn: float
    controller: float
    liaison: float
    everything: float

    @property
    def narrowest(self) -> float:
        """Seconds a job of the process through which all jobs of a cluster have to go."""
        return max(self.controller, self.liaison)

    def wall(self, jobs: int, places: int) -> float:
        """Seconds of a run of so many jobs, at so many places on nodes that share this host's processors."""
        shared = self.everything / processors()
        return self.begin + jobs * max(self.narrowest, self.turn / places, shared)

    def compared(self, wall: float, jobs: int, places: int) -> str:
        """What the model says of a run that took so many seconds, in words."""
        said = self.wall(jobs, places)
        return f"the model says {said / jobs * 1e3:.2f} ms, measured are {wall / said:.2f} times that"

    def at_most(self, places: int) -> str:
        """What the model says of so many places on nodes with processors of their own, in words."""
        return (
            f"at most {1 / self.narrowest:.0f} jobs a second, so that places stay busy if a job takes"
            f" {places * self.narrowest:.1f} s or more on average"
        )

    def __str__(self) -> str:
        parts = {
            "a place is taken for": self.turn,
            "processor time of the controller": self.controller,
            "of the liaison": self.liaison,
            "of all processes": self.everything,
        }
        told = ", ".join(f"{name} {seconds * 1e3:.2f} ms" for name, seconds in parts.items())
        return f"{told}; the run itself takes {self.begin:.1f} s"


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
    cluster = Cluster("simulated", lambda: (b"", "0"), Path.cwd(), "")

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        options = RunOptions(root, root / "cache", root / "locks", preload=())
        host = Host(
            available=lambda _job: Availability(),
            executor=lambda terms: ClusterExecutor(
                terms, cluster, simulated(nodes), lambda address, _environment: address
            ),
        )
        wall, own = time.perf_counter(), time.process_time()
        summary = run_jobs(plan, options, [], host)
        spent = [time.perf_counter() - wall, time.process_time() - own]
    assert summary.exit_code == 0, summary.problems
    own, others = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    spent.append(others.ru_utime + others.ru_stime)
    sys.stdout.write(json.dumps([*spent, own.ru_maxrss / 1024]))


def measured(nodes: int, jobs: int) -> tuple[float, float, float, float]:
    """Of such a run: seconds on the wall, of the controller, of the nodes; the controller's MiB."""
    command = [sys.executable, "-c", _CONTROLLER, str(nodes), str(jobs)]
    ended = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    wall, own, others, mebibytes = json.loads(ended.stdout)
    return wall, own, others, mebibytes


def main() -> None:
    """Measure and print a line for each number of nodes, each in a controller of its own."""
    options = argparse.ArgumentParser()
    options.add_argument("nodes", nargs="*", type=int, default=[4, 100])
    options.add_argument("--jobs", type=int, default=10_000)
    given = options.parse_args()
    few, more = (measured(given.nodes[0], jobs) for jobs in (_FEW, _MORE))
    own, others = ((b - a) / (_MORE - _FEW) for a, b in zip(few[1:3], more[1:3], strict=True))
    model = Model(max(0.0, few[0] - _FEW * max(own, others)), 0.0, own, others, own + others)
    print(f"constants, {given.nodes[0]} nodes: {model}", flush=True)
    first = 0.0
    for nodes in given.nodes:
        wall, own, _, mebibytes = measured(nodes, given.jobs)
        first = first or own
        print(
            f"{given.jobs} jobs, {nodes} nodes: {own / given.jobs * 1e3:.2f} ms of the controller a job"
            f" ({own / first:.2f} times that of the first line), {mebibytes:.0f} MiB;"
            f" {wall / given.jobs * 1e3:.2f} ms on the wall;"
            f" {model.compared(wall, given.jobs, nodes * DEVICES)}",
            flush=True,
        )


if __name__ == "__main__":
    main()
