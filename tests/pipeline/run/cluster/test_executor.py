"""The places of a cluster, with a liaison that says what the test wants."""

from __future__ import annotations

import itertools
import re
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Any

import msgspec
import pytest

from pipeline.engines.base import Availability
from pipeline.ground.jobs import Job, Platform, PlatformKind, State
from pipeline.ground.results import Blame, Result
from pipeline.ground.settings import Settings
from pipeline.run.cluster import needs, places
from pipeline.run.cluster.executor import ClusterExecutor
from pipeline.run.cluster.link import ClusterError
from pipeline.run.cluster.messages import (
    Able,
    Ask,
    Beat,
    Brought,
    Busy,
    Connected,
    Dismiss,
    Done,
    Found,
    FromLiaison,
    Gone,
    Granted,
    Hire,
    Return,
    Said,
    Survey,
    Tell,
    ToLiaison,
)
from pipeline.run.cluster.roster import Cluster
from pipeline.run.executor import Ended, Process, Site, Terms, Told
from pipeline.run.messages import Channel, Report, encode
from pipeline.run.waiting import LockWaits

MakeJob = Callable[..., Job]
REPORT = Report(0, None, 0.1, "", "", (), ())


@dataclass
class Scene:
    """An executor, the liaison's end of its socket, and what the executor told the run."""

    liaison: Channel[ToLiaison]
    executor: Any = None
    ended: list[tuple[int, Ended]] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)

    def say(self, *messages: object) -> None:
        for message in messages:
            self.liaison.send(message)

    def steward(self, node: str, said: object, left: tuple[str, ...] = ()) -> None:
        self.say(Said(node, msgspec.Raw(encode(said)), left))

    def hear(self) -> list[ToLiaison]:
        """What the executor has sent since the last time."""
        self.executor._link.send(Dismiss("end"))
        heard: list[ToLiaison] = []
        while heard[-1:] != [Dismiss("end")]:
            message = self.liaison.next()
            assert message is not None
            heard.append(message)
        return heard[:-1]

    def settle(self) -> None:
        """Let the executor take in what was said."""
        while self.executor._selector.select(0.05):
            self.executor._receive()

    def grant(self, node: str) -> None:
        (asked,) = (one for one in self.hear() if isinstance(one, Ask))
        assert node in asked.nodes
        self.say(Granted(asked.slot, node))
        self.settle()

    def begin(self, number: int, job: Job, folder: Path, *names: str) -> Any:
        """Take a place, which is free on the way, and start a process there."""
        place = self.executor.take(job, names)
        if place is not None:
            self.executor.start(Process(number, job, folder / "jobs" / "x" / str(number), place))
        return place

    def begin_on(self, node: str, number: int, job: Job, folder: Path, *names: str) -> Any:
        """As `begin`, once Ray gives the slot that the job asks for, on a node."""
        assert self.begin(number, job, folder, *names) is None
        self.grant(node)
        return self.begin(number, job, folder, *names)


Play = Callable[..., Scene]


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Play]:
    scenes = []

    def start(
        jobs: list[Job], surveys: dict[str, Survey], resources: Any = None, memory: Any = None, **changes: Any
    ) -> Scene:
        ours, theirs = socket.socketpair()
        scene = Scene(Channel(ours, msgspec.json.Decoder(ToLiaison)))
        process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        channel = Channel(theirs, msgspec.json.Decoder(FromLiaison))
        scenes.append((scene, process))
        for node, has in zip(surveys, resources or [{"CPU": 2.0, "NPU": 1.0}] * len(surveys), strict=True):
            scene.say(Found(node, f"host-{node}", has))
        scene.say(Connected())
        for node, survey in surveys.items():
            scene.steward(node, survey)
        terms = terms_of(jobs, tmp_path, memory or {})
        cluster = Cluster("head:1", lambda: (b"", "0"), tmp_path, "", **changes)
        scene.executor = ClusterExecutor(
            terms, cluster, lambda _errors: (process, channel), lambda address, _environment: address
        )
        told = Told(
            lambda *one: scene.ended.append(one), remark=scene.remarks.append, stop=scene.stopped.append
        )
        scene.executor.open(Site("RUN", tmp_path), selectors.DefaultSelector(), told)
        scene.hear()
        return scene

    yield start
    for scene, process in scenes:
        process.kill()
        if scene.executor is not None:
            scene.executor.close()
        process.wait()
        if process.stdin is not None:
            process.stdin.close()


def terms_of(jobs: list[Job], folder: Path, memory: Any) -> Terms:
    return Terms(
        *(jobs, folder, folder, 0, {}, Settings(), None, 1.0, (), "", {}),
        lambda _job: Availability(),
        memory,
    )


def survey(*devices: int, clock: float = 0.0, **facts: str) -> Survey:
    return Survey({"host": "h", **facts}, {}, (Able(),), {"emu": devices}, clock)


def test_places_are_the_devices_of_the_nodes_or_the_nodes(play: Play, make_job: MakeJob) -> None:
    job = make_job(devices=[0, 1])
    scene = play([job], {"a": survey(0, 1), "b": survey(), "c": survey(0)})
    assert set(scene.executor.reach(job)) == {
        *("host-a:emulated-0", "host-a:emulated-1"),
        "host-b:host",
        "host-c:emulated-0",
    }
    assert scene.executor.workers == 1, "there is one job"
    assert [scene.executor.width(name) for name in ("host-a:emulated-1", "host-b:host")] == [1, 2]


def test_a_node_with_another_version_is_refused_by_name(play: Play, make_job: MakeJob) -> None:
    scene = play([make_job()], {"a": survey(numpy="2.4"), "b": survey(numpy="1.26")}, facts={"numpy": "2.4"})
    assert scene.executor.reach(make_job()) == ("host-a:host",)
    assert "node host-b is not used: has other versions: numpy 1.26 (here 2.4)" in scene.executor.remarks()


def test_without_a_node_that_is_fit_no_run_begins(play: Play, make_job: MakeJob) -> None:
    with pytest.raises(ClusterError, match=r"no node can be used .host-a: has other versions: numpy none"):
        play([make_job()], {"a": survey()}, facts={"numpy": "2.4"})


def test_a_driver_that_ray_aborts_is_told_by_what_it_said_before_its_stack(tmp_path: Path) -> None:
    said = b"[2026-03-10 04:00:00,000 C 1 1] no raylet\n*** StackTrace Information ***\npython(_start+0x21)\n"

    def start(errors: IO[bytes]) -> Any:
        ours, theirs = socket.socketpair()
        errors.write(said)
        errors.flush()
        ours.shutdown(socket.SHUT_WR)
        process = subprocess.Popen(["sleep", "600"])
        return process, Channel(theirs, msgspec.json.Decoder(FromLiaison))

    cluster = Cluster("head:1", lambda: (b"", "0"), tmp_path, "")
    with pytest.raises(ClusterError) as refused:
        ClusterExecutor(terms_of([], tmp_path, {}), cluster, start, lambda address, _environment: address)
    assert str(refused.value).startswith(
        "--executor ray: head:1: Ray's driver ended before it had joined"
        " ([2026-03-10 04:00:00,000 C 1 1] no raylet); "
    )


def test_a_job_asks_for_what_all_nodes_have_that_can_run_it(play: Play, make_job: MakeJob) -> None:
    """Also the card's model and a compiler, if the nodes were started with them."""
    card = make_job(platform=Platform("cards", "pypto", "a2a3", kind=PlatformKind.CARD))
    offers = {"CPU": 2.0, "NPU": 8.0, "accelerator_type:Ascend910B": 1.0, "compiler": 1.0}
    bare = {"CPU": 2.0}

    def asked(*resources: dict[str, float]) -> Any:
        surveys = {str(number): survey(3) for number in range(len(resources))}
        scene = play([card], surveys, resources=resources, toolchains=lambda _plan: {"pypto": {}})
        assert scene.executor.take(card, scene.executor.reach(card)) is None
        (ask,) = (one for one in scene.hear() if isinstance(one, Ask))
        return ask.resources

    wanted = {"CPU": 1.0, "NPU": 1.0, "compiler": 1.0, "accelerator_type:Ascend910B": 0.001}
    assert asked(offers, offers) == wanted
    assert asked(offers, bare) == {"CPU": 1.0}, "else Ray would never give a slot of the other node"
    other = {**offers, "accelerator_type:Ascend310": 1.0}
    del other["accelerator_type:Ascend910B"]
    assert asked(offers, other) == {"CPU": 1.0, "NPU": 1.0, "compiler": 1.0}


def test_a_job_asks_for_the_memory_that_it_is_expected_to_need(play: Play, make_job: MakeJob) -> None:
    """In few amounts, so that jobs share slots; not for what no node has, which would never be given."""
    gib = 1024.0**3
    small, _, large, _, huge = jobs = [make_job() for _ in range(5)]
    needed = (0.3 * gib, 0.5 * gib, 3 * gib, 5 * gib, 9 * gib)
    memory = dict(zip((job.id for job in jobs), needed, strict=True))
    has = [{"CPU": 5.0, "memory": 2 * gib}, {"CPU": 5.0, "memory": 7 * gib}]
    scene = play(jobs * 2, {"a": survey(), "b": survey()}, resources=has, memory=memory)
    names = scene.executor.reach(small)

    def asked(job: Job, *names: str) -> Any:
        assert scene.executor.take(job, names) is None
        (ask,) = (one for one in scene.hear() if isinstance(one, Ask))
        return ask.resources.get("memory", 0) / gib

    assert [asked(job, *names) for job in jobs] == [0.5, 0.5, 4.0, 5.0, 0.0]
    assert asked(large, "host-a:host") == 0.0, "it is to run on the node that has less"
    (line,) = scene.remarks
    assert line == (
        f"no node has the 9216 MiB of memory that {huge.id} is expected to need:"
        " jobs that need too much ask Ray for none"
    )


def test_what_only_a_lost_node_had_is_asked_for_no_longer(play: Play, make_job: MakeJob) -> None:
    """Ray would wait for it for ever, and the run with it."""
    gib = 1024.0**3
    job = make_job()
    has = [{"CPU": 1.0, "memory": 2 * gib}, {"CPU": 1.0, "memory": 8 * gib}]
    scene = play([job], {"a": survey(), "b": survey()}, resources=has, memory={job.id: 4 * gib})
    assert scene.executor.take(job, scene.executor.reach(job)) is None
    (asked,) = (one for one in scene.hear() if isinstance(one, Ask))
    scene.say(Gone("b", "power"))
    scene.settle()
    assert scene.executor.take(job, scene.executor.reach(job)) is None
    heard = [one for one in scene.hear() if isinstance(one, Return | Ask)]
    assert heard[0] == Return(asked.slot)
    (again,) = heard[1:]
    assert isinstance(again, Ask)
    assert (again.nodes, again.resources) == (("a",), {"CPU": 1.0})


@pytest.mark.parametrize("here", [{"compiler": "clang 19"}, {}])
def test_a_node_with_another_toolchain_gets_no_job_that_needs_it(
    play: Play, make_job: MakeJob, here: dict[str, str]
) -> None:
    """That of this host counts; if there is none, that of the first node."""
    simulator = Platform("isa", "isa", "a2a3", kind=PlatformKind.SIMULATOR)
    plain, compiled = make_job(), make_job(platform=simulator)

    def with_compiler(version: str) -> Survey:
        able = (Able(), Able("" if version else "no compiler"))
        toolchains = {"isa": {"compiler": version} if version else {}}
        return Survey({"host": "h"}, {}, able, {}, 0.0, toolchains)

    surveys = {"a": with_compiler("clang 19"), "b": with_compiler("clang 20"), "c": with_compiler("")}
    scene = play([compiled, plain], surveys, toolchains=lambda _plan: {"isa": here})
    assert scene.executor.reach(plain) == ("host-a:host", "host-b:host", "host-c:host")
    assert scene.executor.reach(compiled) == ("host-a:host",)
    told = [line for line in scene.executor.remarks() if "no jobs on" in line]
    assert [line.partition("; no jobs")[0].split()[1] for line in told] == ["host-b"]
    where = "here" if here else "elsewhere"
    assert told[0].endswith(f"; no jobs on isa: compiler clang 20 ({where} clang 19)")


def test_a_clock_that_is_off_is_told(play: Play, make_job: MakeJob) -> None:
    surveys = {"a": survey(clock=time.time() - 60), "b": survey(clock=time.time() + 1)}
    told = play([make_job()], surveys).executor.remarks()
    (slow, _) = told
    assert re.search(r"; its clock is at least (59|60) s slow$", slow)
    assert ["its clock is" in line for line in told] == [True, False]


def test_a_job_waits_for_a_slot_on_a_node_that_it_can_use(
    play: Play, make_job: MakeJob, tmp_path: Path
) -> None:
    job = make_job(devices=[0])
    scene = play([job, job], {"a": survey(0), "b": survey(0)})
    names = ("host-a:emulated-0", "host-b:emulated-0")
    place = scene.begin_on("b", 1, job, tmp_path, *names)
    assert (place.name, place.number) == ("host-b:emulated-0", 0)
    assert scene.begin(2, job, tmp_path, "host-b:emulated-0") is None, "the device is in use"
    scene.steward("b", Done(1, REPORT, "", False), ("core",))
    scene.settle()
    ((number, ended),) = scene.ended
    assert (number, ended.report, ended.facts["node"]) == (1, REPORT, "host-b")
    assert "core" in ended.facts["left_on_node"]
    assert scene.begin(2, job, tmp_path, *names) is not None, "the slot is used again"


def test_what_waits_for_a_full_node_takes_no_slot_of_another(
    play: Play, make_job: MakeJob, tmp_path: Path
) -> None:
    """Else nothing could begin on the other one any more: a probe that is to tell whether it is at fault."""
    job = make_job()
    full = {"CPU": 1.0}
    scene = play([job] * 2, {"a": survey(), "b": survey()}, resources=[full, full])
    for _ in range(2):
        assert scene.executor.take(job, ["host-a:host"]) is None
    first, second = (one.slot for one in scene.hear() if isinstance(one, Ask))
    assert scene.executor.take(job, ["host-b:host"]) is None, "the run has asked for as many as it may have"
    scene.say(Granted(first, "a"))
    scene.settle()
    assert scene.begin(1, job, tmp_path, "host-a:host") is not None
    assert Return(second) in scene.hear()
    assert scene.executor.take(job, ["host-a:host"]) is None
    assert scene.executor.take(job, ["host-b:host"]) is None
    assert [one.nodes for one in scene.hear() if isinstance(one, Ask)] == [("b",)]


def test_a_process_whose_device_is_held_elsewhere_returns(
    play: Play, make_job: MakeJob, tmp_path: Path
) -> None:
    job = make_job(devices=[0])
    scene = play([job], {"a": survey(0)})
    scene.begin_on("a", 1, job, tmp_path, "host-a:emulated-0")
    scene.steward("a", Busy(1, "process 7"))
    scene.settle()
    assert scene.ended == [(1, Ended(returned=True))]
    assert scene.executor.held_elsewhere(["host-a:emulated-0"]) == ("host-a:emulated-0",)
    assert scene.executor.holder("host-a:emulated-0") == "process 7 on host-a"
    assert scene.begin(2, job, tmp_path, "host-a:emulated-0") is None


def test_a_held_device_is_named_once_while_it_is_tried_again_and_again(
    play: Play, make_job: MakeJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said to be waited for once a minute as on one host, also while a process tries to begin there."""
    monkeypatch.setattr(places, "_HELD_SECONDS", 0.0)
    job, name, seconds = make_job(devices=[0]), "host-a:emulated-0", itertools.count()
    scene = play([job], {"a": survey(0)})
    waits = LockWaits(scene.executor.holder, lambda: datetime.now(timezone.utc), lambda: float(next(seconds)))
    scene.begin(0, job, tmp_path, name)
    scene.grant("a")
    said = []
    for number in range(1, 20):
        assert scene.begin(number, job, tmp_path, name) is not None
        said.append(waits.observe(scene.executor.held_elsewhere([])))
        scene.steward("a", Busy(number, "process 7"))
        scene.settle()
        said.append(waits.observe(scene.executor.held_elsewhere([name])))
    assert [line for line in said if line] == [line for line in said if "held by process 7 on host-a" in line]
    assert sum(map(bool, said)) == 1
    scene.begin(20, job, tmp_path, name)
    scene.steward("a", Done(20, REPORT, "", False))
    scene.settle()
    assert scene.executor.held_elsewhere([name]) == (), "it was free"


def test_the_jobs_of_a_lost_node_end_by_its_fault_and_its_places_are_set_aside(
    play: Play, make_job: MakeJob, tmp_path: Path
) -> None:
    job = make_job()
    scene = play([job], {"a": survey(), "b": survey()})
    scene.begin_on("a", 1, job, tmp_path, "host-a:host")
    scene.say(Gone("a", "power"))
    scene.settle()
    ((_, ended),) = scene.ended
    assert ended.lost.state is State.INFRASTRUCTURE
    assert ended.lost.blames is Blame.DEVICE
    assert scene.executor.set_aside == {"host-a:host": "node host-a was lost: power"}
    assert scene.remarks == ["node host-a was lost: power"]
    assert [one.node for one in scene.hear() if isinstance(one, Hire)] == ["a"], "it is given another chance"
    scene.steward("a", survey())
    scene.settle()
    assert set(scene.executor.reach(job)) == {"host-b:host", "host-a#2:host"}


def golden_of_all(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the golden of all jobs."""
    entry = folder / "one.golden"
    entry.touch()
    monkeypatch.setattr(needs, "entry_of", lambda _wanted, _folder: entry)
    return entry


def test_a_golden_is_sent_to_a_node_once_and_draws_its_jobs_there(
    play: Play, make_job: MakeJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = golden_of_all(tmp_path, monkeypatch)
    job = make_job()
    scene = play([job] * 4, {"a": survey(), "b": survey()})
    for node in ("a", "b"):
        scene.begin(0, job, tmp_path, f"host-{node}:host")
        scene.grant(node)
    scene.begin(1, job, tmp_path, "host-b:host")
    tells = [one for one in scene.hear() if isinstance(one, Tell)]
    assert [one.goldens for one in tells] == [(str(entry),)]
    scene.say(Brought("b", (str(entry),)))
    scene.steward("b", Done(1, REPORT, "", False))
    scene.settle()
    assert scene.begin(2, job, tmp_path, "host-a:host", "host-b:host").name == "host-b:host"
    (tell,) = (one for one in scene.hear() if isinstance(one, Tell))
    assert tell.goldens == ()


def test_a_resumed_run_knows_the_places_of_what_had_ended(play: Play, make_job: MakeJob) -> None:
    """They are evidence about those places, as are those of the jobs that it runs itself."""
    on_device, plain = make_job(devices=[0]), make_job()
    scene = play([on_device], {"a": survey(0)})
    there = {"node": "host-a"}

    def place_of(result: Result) -> str:
        place: str = scene.executor.place_of(result)
        return place

    assert place_of(Result(on_device, State.PASSED, device=0, facts=there)) == "host-a:emulated-0"
    assert place_of(Result(plain, State.PASSED, facts=there)) == "host-a:host"
    assert place_of(Result(plain, State.SKIPPED)) == "", "it ran nowhere"


def test_a_job_goes_where_its_kernel_was_built(play: Play, make_job: MakeJob, tmp_path: Path) -> None:
    """Another job of it, such as one with another profile, needs not build it again."""
    built, again, other = jobs = [make_job(), make_job(profile="large"), make_job("ends_as:passed")]
    both_kernels = Survey({"host": "h"}, {}, (Able(), Able()), {}, 0.0)
    scene = play(jobs, {"a": both_kernels, "b": both_kernels})
    for node in ("a", "b"):
        scene.begin(0, built, tmp_path, f"host-{node}:host")
        scene.grant(node)
    names = ("host-a:host", "host-b:host")
    assert scene.begin(1, built, tmp_path, "host-b:host") is not None
    scene.steward("b", Done(1, REPORT, "", False))
    scene.settle()
    place = scene.begin(2, again, tmp_path, *names)
    assert place.name == "host-b:host"
    scene.steward("b", Done(2, REPORT, "", False))
    scene.settle()
    assert scene.begin(3, other, tmp_path, *names).name == "host-a:host", "nobody has built that one"


def test_an_idle_slot_is_given_back_for_a_job_to_which_it_is_of_no_use(
    play: Play, make_job: MakeJob, tmp_path: Path
) -> None:
    """Else the run would wait for ever: Ray may have nothing else to give. One that is in use stays."""
    device, plain = make_job(devices=[0]), make_job(platform=Platform("plain", "emulator", "a2a3"))
    surveys = {"a": Survey({"host": "h"}, {}, (Able(), Able()), {"emu": (0,)}, 0.0)}
    scene = play([plain, device], surveys, resources=[{"CPU": 1.0, "emulated": 1.0}])
    name, needy = "host-a:host", "host-a:emulated-0"
    scene.begin(1, plain, tmp_path, name)
    (asked,) = (one for one in scene.hear() if isinstance(one, Ask))
    scene.say(Granted(asked.slot, "a"))
    scene.settle()
    assert scene.begin(1, plain, tmp_path, name) is not None
    assert scene.begin(2, device, tmp_path, needy) is None
    assert not [one for one in scene.hear() if isinstance(one, Return | Ask)]
    scene.steward("a", Done(1, REPORT, "", False))
    scene.settle()
    assert scene.begin(2, device, tmp_path, needy) is None
    back, again = (one for one in scene.hear() if isinstance(one, Return | Ask))
    assert back == Return(asked.slot)
    assert isinstance(again, Ask)
    assert again.resources == {"CPU": 1.0, "emulated": 1.0}


def test_a_node_that_says_nothing_is_lost(
    play: Play, make_job: MakeJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although Ray reaches it. Nodes that have nothing else to say say so, and are not lost."""
    job = make_job()
    scene = play([job], {"a": survey(), "b": survey()})
    scene.begin_on("a", 1, job, tmp_path, "host-a:host")
    scene.hear()
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 50.0)
    scene.steward("b", Beat())
    scene.settle()
    scene.executor.wake()
    assert scene.ended == []
    assert now + 50.0 < scene.executor.wake_at <= now + 60.0, "else nobody would look in time"
    monkeypatch.setattr(time, "monotonic", lambda: now + 61.0)
    scene.executor.wake()
    ((_, ended),) = scene.ended
    reason = "node host-a was lost: it has said nothing for 60 s"
    assert (ended.lost.state, ended.lost.message) == (State.INFRASTRUCTURE, reason)
    assert scene.remarks == [reason]
    assert Dismiss("a") in scene.hear(), "it may still work, and hold its devices"
    assert scene.executor.reach(job) == ("host-b:host",)


def test_a_golden_that_a_node_kept_of_an_earlier_run_is_not_sent(
    play: Play, make_job: MakeJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    golden_of_all(tmp_path, monkeypatch)
    job, names = make_job(), ("host-a:host", "host-b:host")
    scene = play([job] * 2, {"a": survey(), "b": msgspec.structs.replace(survey(), goldens=("one.golden",))})
    for _ in names:
        assert scene.executor.take(job, names) is None
    asked = [one for one in scene.hear() if isinstance(one, Ask)]
    scene.say(*(Granted(one.slot, node) for one, node in zip(asked, "ab", strict=True)))
    scene.settle()
    assert scene.begin(1, job, tmp_path, *names).name == "host-b:host"
    (tell,) = (one for one in scene.hear() if isinstance(one, Tell))
    assert tell.goldens == ()


def test_without_any_node_the_run_is_stopped_and_can_be_resumed(
    play: Play, make_job: MakeJob, tmp_path: Path
) -> None:
    job = make_job()
    scene = play([job], {"a": survey()})
    scene.begin_on("a", 1, job, tmp_path, "host-a:host")
    scene.say(Gone("a", "power"))
    scene.settle()
    assert scene.stopped == ["no node of the cluster is left; node host-a was lost: power"]
    assert [ended.lost.state for _, ended in scene.ended] == [State.INTERRUPTED]


def test_one_job_builds_on_a_node_while_the_others_take_no_place_there(
    play: Play, make_job: MakeJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what a node builds once, it says what it lacks. One that could not begin has built nothing."""
    monkeypatch.setattr(places, "_HELD_SECONDS", 0.0)
    job, other = make_job(platform=Platform("cann", "cann", "a2a3")), make_job(profile=None)
    full = msgspec.structs.replace(survey(), able=(Able(), Able()))
    scene = play([job, other], {"a": msgspec.structs.replace(full, lacks={"cann": "a library"}), "b": full})
    names = ("host-a:host", "host-b:host")

    def ready(job: Job) -> Any:
        return scene.executor.ready(job, names)

    def built_by(number: int, how: object) -> None:
        if number == 1:
            scene.begin(number, job, tmp_path, "host-a:host")
            scene.grant("a")
        scene.begin(number, job, tmp_path, "host-a:host")
        assert ready(job) == ("host-b:host",)
        assert ready(other) == names
        scene.steward("a", how)
        scene.settle()

    assert ready(job) == names
    built_by(1, Busy(1, "process 7"))
    assert ready(job) == names
    built_by(2, Done(2, REPORT, "", False))
    scene.begin(3, job, tmp_path, "host-a:host")
    assert ready(job) == names, "it is built"


def test_a_job_that_waits_for_a_build_takes_no_slot_from_others(
    play: Play, make_job: MakeJob, tmp_path: Path
) -> None:
    """The slot on the node that builds is idle, and the next job that needs nothing there has it."""
    job, other = make_job(platform=Platform("cann", "cann", "a2a3")), make_job(profile=None)
    lacks = msgspec.structs.replace(survey(), able=(Able(), Able()), lacks={"cann": "a library"})
    scene = play([job, other], {"a": lacks, "b": lacks})
    for _ in range(2):
        assert scene.executor.take(job, ("host-a:host", "host-b:host")) is None
    scene.say(*(Granted(one.slot, "a") for one in scene.hear() if isinstance(one, Ask)))
    scene.settle()
    scene.begin(1, job, tmp_path, "host-a:host")
    assert scene.begin(2, job, tmp_path, *scene.executor.ready(job, ("host-a:host", "host-b:host"))) is None
    assert [one for one in scene.hear() if isinstance(one, Return | Ask)] == []
    assert scene.begin(3, other, tmp_path, "host-a:host", "host-b:host").name == "host-a:host"
