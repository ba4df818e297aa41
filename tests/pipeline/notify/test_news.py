from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from pipeline.ground.jobs import NEW, SINCE, Result, State
from pipeline.notify.news import LIMIT, markdown
from pipeline.report.results import RunResults

NIGHT_BEFORE = "20260309-040000-0000000001"

MakeResult = Callable[..., Result]
Told = Callable[..., RunResults]


@pytest.fixture
def red(result_of: MakeResult) -> MakeResult:
    """A red result: new in this run, or since another."""

    def make(name: str, state: State = State.MISMATCH, since: str = NEW, **of: Any) -> Result:
        return result_of(f"device/emu/g/{name}/small", state, facts={SINCE: since}, **of)

    return make


def sections(text: str) -> dict[str, list[str]]:
    """The entries under each heading."""
    parts = re.split(r"^### (.*)$", text, flags=re.MULTILINE)[1:]
    return {
        heading: [line for line in body.splitlines() if line.startswith("- ")]
        for heading, body in zip(parts[::2], parts[1::2], strict=True)
    }


def test_it_tells_what_is_new_fixed_sick_slower_and_old(
    told: Told, red: MakeResult, result_of: MakeResult
) -> None:
    jobs = (
        red("broken", message="y differs", causes=("bias-missing-1",)),
        red("slow", State.PERFORMANCE, message="cycles is 120"),
        red("old", State.CRASHED, since=NIGHT_BEFORE, message="SIGSEGV"),
        result_of("device/emu/g/mended/small"),
        result_of("device/emu/g/fine/small"),
    )
    sick = {"set_aside": {"npu-0": "JOB ends here as crashed"}, "undecided": {"npu-1": "all jobs hang"}}
    text = markdown(told(*jobs, **sick), {"device/emu/g/mended/small": NIGHT_BEFORE})
    assert text.startswith("## Failed (exit code 1): 3 of 5 jobs are red: ")
    found = sections(text)
    assert list(found) == ["New", "Fixed", "Sick devices", "Outside the limits of performance", "Still red"]
    for (heading, word), told_of in zip(
        (
            ("New", "broken"),
            ("Fixed", "mended"),
            ("Sick devices", "npu-0"),
            ("Outside the limits of performance", "slow"),
            ("Still red", "old"),
        ),
        (
            "bias-missing-1",
            NIGHT_BEFORE,
            "JOB ends here as crashed",
            "cycles is 120",
            NIGHT_BEFORE,
        ),
        strict=True,
    ):
        assert word in found[heading][0]
        assert told_of in found[heading][0]
    assert len(found["Sick devices"]) == 2
    assert "fine" not in text


def test_a_night_without_news_says_so(told: Told, result_of: MakeResult) -> None:
    text = markdown(told(result_of("device/emu/g/fine/small")), {})
    assert text.startswith("## Passed: no job is red: 1 passed\n")
    assert text.endswith("\nNothing is new.\n")


def test_a_fault_of_the_pipeline_is_told(told: Told, result_of: MakeResult) -> None:
    text = markdown(told(result_of("device/emu/g/fine/small"), problems=("the journal was removed",)), {})
    assert "**The pipeline itself failed:** `the journal was removed`" in text
    assert "Nothing is new" not in text


def test_many_causes_are_counted_and_long_ones_cut(told: Told, red: MakeResult) -> None:
    jobs = [red(f"k{number}", message=chr(103 + number) * 5000) for number in range(20)]
    text = markdown(told(*jobs), {})
    assert len(text.encode()) <= LIMIT
    assert sections(text)["New"][-1] == "- and 10 more"
    # The widest characters, in everything that is told.
    wide = [
        red(f"{number}{chr(0x1F600) * 400}", since=since, message=f"{chr(97 + number)}{chr(0x1F600) * 500}")
        for number in range(26)
        for since in (NEW, NIGHT_BEFORE)
    ]
    text = markdown(told(*wide, set_aside={chr(0x1F600) * 900: "x" * 9000}), {})
    assert len(text.encode()) <= LIMIT
    assert text.endswith("\n*More is left out.*\n")


def test_what_a_kernel_prints_is_no_markdown(told: Told, red: MakeResult) -> None:
    text = markdown(told(red("k", message="`x` @someone <img src=//evil>\n## Passed\n")), {})
    (entry,) = sections(text)["New"]
    assert "`ˋxˋ @someone <img src=//evil> ## Passed`" in entry
