from __future__ import annotations

import re
from pathlib import Path

import pytest

from pipeline.ground.jobs import State
from pipeline.ground.results import OUTCOMES
from pipeline.run.states import LEGAL, advance, exit_code

PAGE = Path(__file__).parents[3] / "docs" / "states.md"


def test_every_state_is_on_the_way_or_an_end() -> None:
    on_the_way = {State.PLANNED, State.WAITING, State.RUNNING}
    assert set(LEGAL) == set(State)
    assert set(OUTCOMES) == set(State) - on_the_way
    assert {state for state, following in LEGAL.items() if not following} == set(OUTCOMES)


def test_every_state_can_be_reached() -> None:
    reached = {State.PLANNED}
    while more := {state for known in reached for state in LEGAL[known]} - reached:
        reached |= more
    assert reached == set(State)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (State.PASSED, State.RUNNING),
        (State.PLANNED, State.PASSED),
        (State.WAITING, State.MISMATCH),
        (State.SKIPPED, State.WAITING),
    ],
)
def test_other_transitions_are_refused(old: State, new: State) -> None:
    with pytest.raises(RuntimeError, match=f"job: {old.value} -> {new.value}"):
        advance("job", old, new)


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        ([], 5),
        ([State.SKIPPED], 5),
        ([State.PASSED, State.SKIPPED, State.EXPECTED_FAILURE], 0),
        ([State.PASSED, State.INFRASTRUCTURE], 6),
        ([State.INFRASTRUCTURE, State.MISMATCH], 1),
        ([State.UNEXPECTED_PASS], 1),
        ([State.MISMATCH, State.INTERRUPTED, State.INFRASTRUCTURE], 2),
    ],
)
def test_exit_code_follows_from_all_ends(ends: list[State], code: int) -> None:
    assert exit_code(ends) == code


def test_docs_show_the_table_of_ends() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| ([a-z]+) \| (\d) \|", PAGE.read_text(), re.MULTILINE)
    assert rows == [
        (state.value, ending.outcome.value, str(ending.exit_code)) for state, ending in OUTCOMES.items()
    ]


def test_docs_show_the_legal_transitions() -> None:
    rows = re.findall(r"^\| `(planned|waiting|running)` \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    shown = {State(state): frozenset(map(State, re.findall(r"`([a-z-]+)`", to))) for state, to in rows}
    legal = {state: following for state, following in LEGAL.items() if following}
    ends = frozenset(OUTCOMES)
    assert shown == {
        state: following - ends if ends <= following else following for state, following in legal.items()
    }
