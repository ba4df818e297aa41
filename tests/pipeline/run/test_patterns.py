from __future__ import annotations

import re
import signal

import pytest

from pipeline.run.patterns import SearchError, occurs


def test_a_pattern_is_looked_for_in_every_text() -> None:
    assert occurs(re.compile(r"\b507018\b"), ("", "error 507018 of the runtime"))
    assert not occurs(re.compile(r"\b507018\b"), ("", "error 5070180"))


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(a|a)+$", r"(\w+\s?)*:$", r"(?=(a+)+$)b"])
def test_a_search_without_end_is_given_up_and_leaves_no_timer(pattern: str) -> None:
    before = signal.getsignal(signal.SIGVTALRM)
    with pytest.raises(SearchError):
        occurs(re.compile(pattern), ["short", "a" * 60 + "b"], 0.01)
    assert signal.getsignal(signal.SIGVTALRM) == before
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
