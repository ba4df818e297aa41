from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.ground.computed import Computed

SOURCES = st.lists(st.integers(), max_size=6)


@given(SOURCES, st.slices(6))
def test_it_is_the_sequence_that_it_computes(sources: list[int], where: slice) -> None:
    made = Computed(str, sources)
    assert list(made) == [str(one) for one in sources]
    assert list(made[where]) == [str(one) for one in sources[where]]
    assert len(made) == len(sources)


def test_an_item_is_made_each_time_and_only_when_it_is_asked_for() -> None:
    asked: list[str] = []
    made = Computed(asked.append, ["a", "b", "c"])
    assert asked == []
    made[-1], made[0], made[0]
    assert asked == ["c", "a", "a"]
    with pytest.raises(IndexError):
        made[3]
