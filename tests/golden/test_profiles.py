"""Names of profiles and their seeds."""

from __future__ import annotations

from datetime import date

import pytest

from golden.profiles import ProfileError, parse, resolve, seed_of

KNOWN = ("small", "full-range", "ties", "edges", "impulse-even-even", "impulse-odd-odd", "channels")


def test_nightly_is_drawn_from_the_date_handed_in_and_can_be_replayed() -> None:
    assert resolve("full-range@nightly", date(2026, 3, 9)) == "full-range@20260309"
    assert resolve("full-range@20260309", date(2030, 1, 1)) == "full-range@20260309"
    assert resolve("small", date(2026, 3, 9)) == "small"
    assert parse("full-range@20260309", KNOWN) == ("full-range", 20260309)


def test_a_seed_is_that_of_the_name_and_0_where_it_gives_none() -> None:
    assert parse("small", KNOWN) == ("small", 0)
    assert (seed_of("small"), seed_of("small@0"), seed_of("full-range@20260309")) == (0, 0, 20260309)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("smal", "unknown profile 'smal': did you mean 'small'"),
        ("impulse", "unknown profile 'impulse'.*known are .*impulse-even-even"),
        ("", "unknown profile ''"),
        ("Small", "unknown profile 'Small'"),
        ("noise@nightly", "unknown profile 'noise'"),
        ("small@", "profile 'small@': the seed must be a plain number, as in small@7"),
        ("small@-1", "plain number"),
        ("small@07", "plain number"),
        ("small@1_0", "plain number"),
        ("small@1e3", "plain number"),
        ("small@7 ", "plain number"),
        ("small@7\n", "plain number"),
        ("small@٣", "plain number"),
        ("small@7@8", "plain number"),
        ("small@" + "9" * 400, "plain number"),
    ],
)
def test_names_that_are_not_understood_are_refused(name: str, message: str) -> None:
    with pytest.raises(ProfileError, match=message):
        parse(resolve(name, date(2026, 3, 9)), KNOWN)
