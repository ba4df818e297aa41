from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.ground.jobs import State
from pipeline.ground.results import Metric, Source, StageResult
from pipeline.report.text import bounded, cut, facts_of, likely, one_line, safe, shown

ANY_TEXT = st.text(st.characters(categories=None, exclude_categories=()))
"""Every code point Python has, lone surrogates and NUL among them."""


def parsed_back(text: str) -> tuple[str, str]:
    element = ET.Element("a", {"b": text})
    element.text = text
    data = ET.tostring(element, encoding="utf-8").replace(b"\r", b"&#13;")
    read = ET.fromstring(data)
    return read.text or "", read.get("b", "")


@given(ANY_TEXT)
def test_any_text_becomes_xml_that_reads_back_the_same(text: str) -> None:
    assert parsed_back(safe(text)) == (safe(text), safe(text))


@given(ANY_TEXT)
def test_making_text_safe_twice_changes_nothing_more(text: str) -> None:
    assert safe(safe(text)) == safe(text)


@given(ANY_TEXT)
def test_one_line_is_one_line(text: str) -> None:
    assert len(one_line(text).splitlines()) <= 1


@given(st.text(max_size=120), st.integers(0, 40))
def test_a_cut_keeps_head_and_tail_and_says_what_went(text: str, limit: int) -> None:
    half = limit // 2
    gone = len(text) - 2 * half
    note = f"\n[... {gone} of {len(text)} characters cut ...]\n"
    # A note that is as long as what it stands for saves nothing.
    whole = len(text) <= limit or gone <= len(note)
    assert cut(text, limit) == (text if whole else text[:half] + note + text[len(text) - half :])


def test_hostile_texts_end_bounded_and_readable(hostile_texts: list[str]) -> None:
    assert len(hostile_texts) > 10
    for text in hostile_texts:
        short = bounded(text, 1000)
        assert len(short) < 1100
        assert parsed_back(short) == (short, short)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b alone", " alone"),
        ("nul\x00byte", "nulbyte"),
        ("lone \ud800 surrogate", "lone  surrogate"),
        ("\ufffe and \uffff", " and "),
        ("emoji \U0001f9ee and \U0001ffff", "emoji \U0001f9ee and "),
        ("tab\tline\nreturn\r", "tab\tline\nreturn\r"),
        ("\x85 \ufeff 中文 мир שלום", "\x85 \ufeff 中文 мир שלום"),
        ("]]> <failure>&amp;", "]]> <failure>&amp;"),
    ],
)
def test_only_what_xml_cannot_carry_goes(text: str, expected: str) -> None:
    assert safe(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # xunit-viewer reads a file with this character again, in an encoding that it does not know.
        (b"\xff is no text".decode(errors="replace"), "\\ufffd is no text"),
        # junit-viewer hands these to JavaScript, where they end the line.
        ("one\u2028two\u2029three", "one\\u2028two\\u2029three"),
        # A text with these can look like another one: all that Unicode calls Bidi_Control.
        *(
            (f"a{chr(code)}b", f"a\\u{code:04x}b")
            for code in (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
        ),
    ],
)
def test_legal_characters_at_which_viewers_or_readers_fail_are_escaped(text: str, expected: str) -> None:
    assert safe(text) == one_line(text) == expected


@pytest.mark.parametrize("text", ["[[ATTACHMENT|/etc/passwd]]", "[[ATT\x00ACHMENT|/etc/passwd]]"])
def test_a_kernel_cannot_attach_a_file_of_the_host(text: str) -> None:
    assert "[[ATTACHMENT|" not in safe(text)
    assert "/etc/passwd" in safe(text)


@pytest.mark.parametrize(
    ("metric", "text"),
    [
        (Metric("gm_read.x", 2_351_104.0, "B", Source.COUNTER), "2351104"),
        (Metric("l1_peak", 1024, "B", Source.COMPILER, 524_288), "1024 of 524288"),
        (Metric("l1_peak", 0, "B", Source.COMPILER, 0), "0 of 0"),
        (Metric("cycles", 12_345_678, "cycles", Source.COST_MODEL), "12345678"),
        (Metric("estimated_cycles.serial", 599.6, "cycles", Source.ESTIMATE), "600"),
        (Metric("device_us", 120, "us", Source.DEVICE_CLOCK), "120.0"),
    ],
)
def test_a_metric_is_shown_as_its_unit_has_it(metric: Metric, text: str) -> None:
    assert shown(metric) == text


def test_metrics_and_facts_are_lines_of_one_record() -> None:
    metrics = (Metric("cycles", 7, "cycles", Source.COST_MODEL),)
    stage = StageResult("fused", State.PASSED, facts={"tiling": "x"}, metrics=metrics)
    assert facts_of(stage) == {"cycles": "7", "tiling": "x"}


def test_a_cause_that_is_unknown_is_not_called_likely() -> None:
    assert likely("unwritten: in words") == "most likely: unwritten: in words"
    assert likely("cause unknown: why", quote="<{}>".format) == "cause unknown: <why>"
