from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.ground.patterns import Pattern, PatternError

NOT_LINEAR = "look-around and back-references are not supported, because a search must take linear time"


@given(before=st.text(), after=st.text())
def test_a_pattern_is_found_wherever_it_stands(before: str, after: str) -> None:
    """Whatever stands around it: lines, and characters that no encoding has."""
    assert Pattern("EL[0-9]{4}").occurs(f"{before}EL0004{after}")


def test_what_does_not_match_is_not_found() -> None:
    assert Pattern(r"\b507018\b").occurs("error 507018 of the runtime")
    assert not Pattern(r"\b507018\b").occurs("error 5070180")


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(a|a)+$", r"(\w+\s?)*:$", r"((a?){1,30}){1,30}c"])
def test_no_search_takes_longer_than_the_text_is_long(pattern: str) -> None:
    """Python's own `re` would take more than the age of the universe, and the last one minutes in RE2, too,
    if it kept what the groups matched.
    """
    assert not Pattern(pattern).occurs("a" * 1_000_000 + "b")


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("(", "missing ): (; correct it"),
        (r"(?<!\d)5", f"invalid perl operator: (?<!; {NOT_LINEAR}"),
        ("(?=a)b", f"invalid perl operator: (?=; {NOT_LINEAR}"),
        (r"(a)\1", rf"invalid escape sequence: \1; {NOT_LINEAR}"),
        ("(?P<n>a)(?P=n)", f"invalid perl operator: (?P; {NOT_LINEAR}"),
        ("a{1001}", "invalid repetition size: {1001}; correct it"),
        (r"(\pL{1,30}){1,30}9", "pattern too large - compile failed; correct it"),
        ("\ud800", "surrogates not allowed; correct it"),
    ],
)
def test_what_re2_does_not_take_is_refused_in_one_line_and_no_other(
    pattern: str, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(PatternError) as refusal:
        Pattern(pattern)
    assert str(refusal.value) == said
    assert capfd.readouterr() == ("", "")
