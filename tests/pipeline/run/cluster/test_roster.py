from __future__ import annotations

import pytest

from pipeline.run.cluster.roster import clock_error


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
