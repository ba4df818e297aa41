from __future__ import annotations

from collections.abc import Callable

from pipeline.ground.jobs import Job
from pipeline.run.builders import Builders

MakeJob = Callable[..., Job]


def test_a_job_waits_for_what_another_one_builds_until_that_has_ended(make_job: MakeJob) -> None:
    first, second, other = make_job(), make_job(), make_job()
    builders = Builders({first.id: {"a"}, second.id: {"a", "b"}})
    assert not builders.is_being_built(second, [])
    assert not builders.is_being_built(second, [other])
    assert builders.is_being_built(second, [other, first])
    assert not builders.is_being_built(other, [first])
    builders.end(first)
    assert not builders.is_being_built(second, [first])
    assert builders.needed_by(second) == {"a", "b"}


def test_the_first_job_to_end_has_built_and_the_others_waited(make_job: MakeJob) -> None:
    first, second, third = make_job(), make_job(), make_job()
    builders = Builders({first.id: {"a"}, second.id: {"a", "b"}, third.id: {"b"}})
    assert builders.waited() == {}
    builders.end(second)
    builders.end(first)
    assert builders.waited() == {second.id: {first.id, third.id}}
