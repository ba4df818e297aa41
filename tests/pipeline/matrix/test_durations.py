from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.matrix.durations import parse_duration


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("90s", 90),
        ("5m", 300),
        ("1h30m", 5400),
        ("1h0m2.5s", 3602.5),
        ("2h", 7200),
        ("45", 45),
        ("0.5", 0.5),
        (45, 45),
        (0.25, 0.25),
    ],
)
def test_documented_forms(written: str | float, seconds: float) -> None:
    assert parse_duration(written) == seconds


@pytest.mark.parametrize(
    "written",
    [
        "",
        "abc",
        "169h",
        "1000000",
        "-1",
        "0",
        "0s",
        "0h0m",
        "nan",
        "inf",
        "1e3",
        "5 m",
        "30m1h",
        "1h30",
        "5M",
        "٣s",
        "90s\n",
    ],
)
def test_other_text_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="a duration is `90s`"):
        parse_duration(written)


@pytest.mark.parametrize("written", [0, -1, 604_800.1, 1e300, math.nan, math.inf, True, None, [5]])
def test_other_values_are_refused(written: object) -> None:
    with pytest.raises(ValueError, match="a duration is `90s`"):
        parse_duration(written)


@given(st.integers(0, 99), st.integers(0, 99), st.integers(0, 99))
def test_parts_add_up(hours: int, minutes: int, seconds: int) -> None:
    total = hours * 3600 + minutes * 60 + seconds
    if total:
        assert parse_duration(f"{hours}h{minutes}m{seconds}s") == total
