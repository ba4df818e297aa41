from __future__ import annotations

from collections.abc import Callable
from unittest.mock import create_autospec

from pipeline.ground.jobs import Job
from pipeline.run.executor import Executor
from pipeline.run.reach import Reach

MakeJob = Callable[..., Job]


def test_what_was_set_aside_cannot_be_had_and_new_places_can(make_job: MakeJob) -> None:
    job, anywhere = make_job(), make_job()
    places = {job.id: ("one", "two")}
    executor = create_autospec(Executor, instance=True, workers=4, set_aside={})
    executor.reach.side_effect = lambda of: places.get(of.id, ())
    executor.width.side_effect = {"one": 1, "two": 2, "three": 3}.__getitem__
    reach = Reach([job, anywhere], executor)
    told = reach.places
    assert (reach.of(job), reach.of(anywhere)) == (("one", "two"), ())
    assert reach.usable(job) == ("one", "two")

    executor.set_aside["one"] = "it is sick"
    places[job.id], executor.workers = ("one", "two", "three"), 2
    reach.take()
    assert reach.of(job) == ("one", "two", "three")
    assert reach.usable(job) == ("two", "three")
    assert reach.places is told
    assert reach.widths == {"one": 1, "two": 2, "three": 3}
    assert reach.most_workers == 4, "as many as could run at any time"
