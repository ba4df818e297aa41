from __future__ import annotations

from collections.abc import Callable

from pipeline.run.queue import Queue


def offered(queue: Queue[str], late: Callable[[str], bool] = lambda _task: False) -> list[str]:
    return [task for _, task in queue.offered(late)]


def filled(*tasks: str) -> Queue[str]:
    """Tasks whose kind is their first letter."""
    queue: Queue[str] = Queue()
    for task in tasks:
        queue.add(task, task[0])
    return queue


def test_only_the_first_of_each_kind_is_offered_in_the_order_of_all() -> None:
    assert offered(filled("b1", "a1", "b2", "c1", "a2")) == ["b1", "a1", "c1"]


def test_behind_a_task_that_is_taken_the_next_of_its_kind_is_offered_in_its_place() -> None:
    queue = filled("a1", "b1", "a2", "c1", "a3")
    seen = []
    for kind, task in queue.offered(lambda _task: False):
        seen.append(task)
        if task != "b1":
            assert queue.take(kind) == task
    assert seen == ["a1", "b1", "a2", "c1", "a3"]
    assert list(queue.drain()) == ["b1"]
    assert not queue


def test_a_task_that_returns_is_the_first_or_the_last() -> None:
    queue = filled("a1", "b1")
    queue.add("c1", "c", first=True)
    queue.add("a0", "a", first=True)
    queue.add("b2", "b")
    assert len(list(queue)) == 5
    assert offered(queue) == ["a0", "c1", "b1"]
    assert list(queue.drain()) == ["a0", "c1", "a1", "b1", "b2"]


def test_late_tasks_come_behind_the_others() -> None:
    assert offered(filled("a1", "b1", "c1"), lambda task: task == "a1") == ["b1", "c1", "a1"]


def test_of_hundreds_of_kinds_only_those_are_looked_at_that_are_asked_for() -> None:
    queue = filled(*map(chr, range(1000, 1500)))
    looked: list[str] = []
    for kind, task in queue.offered(lambda task: bool(looked.append(task))):
        assert queue.take(kind) == task
        break
    assert looked == [chr(1000)]
