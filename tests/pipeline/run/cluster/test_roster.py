from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from pipeline.ground.jobs import Job, WorkloadName
from pipeline.run.cluster.messages import Able, Survey
from pipeline.run.cluster.roster import Cluster, Node, Roster, clock_error

MakeJob = Callable[..., Job]


def roster_of(*jobs: Job, **resources: dict[str, float]) -> Roster:
    """Nodes with such resources that have not answered yet; the sources here are `SOURCES`."""
    roster = Roster(jobs, Cluster("head:1", lambda: (b"", ""), Path(), "", sources=SOURCES))
    roster.nodes.update((key, Node(f"host-{key}", has, 0.0, 0.0)) for key, has in resources.items())
    return roster


def survey(able: int, devices: tuple[int, ...] = (), others: Mapping[str, str] = {}) -> Survey:
    """What a node answers that can run so many kinds of jobs; its files are those here, but for `others`."""
    return Survey({"host": "h"}, {**SOURCES, **others}, (Able(),) * able, {"emu": devices}, 0.0)


SOURCES = {"kernels/": "k", "inputs": "i", "workload.mine": "w"}
HAS = {"CPU": 2.0}


@pytest.mark.parametrize("changed", ["kernels/", "inputs"])
def test_a_node_with_other_files_is_not_used(make_job: MakeJob, changed: str) -> None:
    """Its results would be those of other sources or inputs."""
    job = make_job()
    roster = roster_of(job, same=HAS, other=HAS)
    assert roster.admit("same", survey(1), 0.0, ()) == ""
    refused = roster.admit("other", survey(1, others={changed: "x"}), 0.0, ())
    assert refused == f"has other files: {changed} x (here {SOURCES[changed]})"
    assert roster.reach(job) == ("host-same:host",)


def test_a_job_runs_where_the_file_of_its_workload_is_the_one_here(make_job: MakeJob) -> None:
    """Other jobs run on the other nodes too; that no node has it is told with what helps."""
    own = make_job(workload=WorkloadName("mine", "/lab/mine.py"))
    shipped = make_job()
    roster = roster_of(own, shipped, same=HAS, other=HAS)
    assert roster.admit("other", survey(2, others={"workload.mine": "unreadable"}), 0.0, ()) == ""
    assert roster.reach(own) == ()
    cannot = roster.available(own)
    assert cannot.reason == "/lab/mine.py is missing or another file on the nodes"
    assert cannot.remedy == "copy it to every node"
    assert roster.admit("same", survey(2), 0.0, ()) == ""
    assert roster.reach(own) == ("host-same:host",)
    assert set(roster.reach(shipped)) == {"host-same:host", "host-other:host"}


def test_a_job_on_an_emulated_device_asks_for_one_if_all_nodes_have_them(make_job: MakeJob) -> None:
    """So runs of several users share them; a job that uses none asks for none."""
    on_device, plain = make_job(devices=[0, 1]), make_job()
    emulated = {**HAS, "emulated": 2.0}
    roster = roster_of(on_device, plain, a=emulated, b=emulated, bare=HAS)
    for key in ("a", "b"):
        assert roster.admit(key, survey(2, (0, 1)), 0.0, ()) == ""
    assert roster.resources(on_device) == {"CPU": 1.0, "emulated": 1.0}
    assert roster.resources(plain) == {"CPU": 1.0}
    assert roster.admit("bare", survey(2, (0, 1)), 0.0, ()) == ""
    assert roster.resources(on_device) == {"CPU": 1.0}


@pytest.mark.parametrize(
    ("clock", "answered", "told"),
    [
        (1000.0, 1000.1, ""),
        (1005.0, 1000.1, ""),
        (1006.0, 1000.5, "at least 6 s fast"),
        (994.0, 1000.1, "at least 6 s slow"),
        # After 20 s the clock may have been read at any time since the question.
        (1020.0, 1020.0, ""),
        (1000.0, 1020.0, ""),
        (996.0, 1020.0, ""),
        (1026.0, 1020.0, "at least 6 s fast"),
        (990.0, 1020.0, "at least 10 s slow"),
    ],
)
def test_a_clock_is_wrong_if_no_time_between_question_and_answer_explains_it(
    clock: float, answered: float, told: str
) -> None:
    assert clock_error(1000.0, clock, answered) == (f"; its clock is {told}" if told else "")
