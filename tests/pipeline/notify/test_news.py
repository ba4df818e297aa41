from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from pipeline.ground.jobs import State
from pipeline.ground.results import NEW, SINCE, Result
from pipeline.history.answers import Moved
from pipeline.notify.news import LIMIT, Moves, markdown
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
        red("old", State.CRASHED, since=NIGHT_BEFORE, message="SIGSEGV"),
        result_of("device/emu/g/mended/small"),
        result_of("device/emu/g/fine/small"),
    )
    sick = {"set_aside": {"npu-0": "JOB ends here as crashed"}, "undecided": {"npu-1": "all jobs hang"}}
    slow = Moved("device/emu/g/slow/small", "fused.cycles", 120, 100, 0, 20, 9, "")
    moves = Moves({"device/emu/g/mended/small": NIGHT_BEFORE}, (slow,))
    text = markdown(told(*jobs, **sick), moves)
    assert text.startswith("## Failed (exit code 1): 2 of 4 jobs are red: ")
    found = sections(text)
    expected = {
        "New": ("broken", "bias-missing-1"),
        "Fixed": ("mended", NIGHT_BEFORE),
        "Sick devices": ("npu-0", "JOB ends here as crashed"),
        "Slower": ("slow", "`fused.cycles` is 120, +20.0 % of the median 100 of 9 runs"),
        "Still red": ("old", NIGHT_BEFORE),
    }
    assert list(found) == list(expected)
    for heading, words in expected.items():
        assert all(word in found[heading][0] for word in words)
    assert len(found["Sick devices"]) == 2
    assert "fine" not in text


def test_what_the_history_cannot_say_is_not_passed_over(told: Told, result_of: MakeResult) -> None:
    text = markdown(told(result_of("device/emu/g/fine/small")), Moves(unknown="there is no history here"))
    assert text.endswith("\nWhat is fixed, and what is slower, is not known: `there is no history here`\n")


def test_a_night_without_news_says_so(told: Told, result_of: MakeResult) -> None:
    text = markdown(told(result_of("device/emu/g/fine/small")), Moves())
    assert text.startswith("## Passed: no job is red: 1 passed\n")
    assert text.endswith("\nNothing is new.\n")


def test_a_fault_of_the_pipeline_is_told(told: Told, result_of: MakeResult) -> None:
    text = markdown(
        told(result_of("device/emu/g/fine/small"), problems=("the journal was removed",)), Moves()
    )
    assert "**The pipeline itself failed:** `the journal was removed`" in text
    assert "Nothing is new" not in text


def test_many_causes_are_counted_and_long_ones_cut(told: Told, red: MakeResult) -> None:
    jobs = [red(f"k{number}", message=chr(103 + number) * 5000) for number in range(20)]
    text = markdown(told(*jobs), Moves())
    assert len(text.encode()) <= LIMIT
    assert sections(text)["New"][-1] == "- and 10 more"
    # The widest characters, in everything that is told.
    wide = [
        red(f"{number}{chr(0x1F600) * 400}", since=since, message=f"{chr(97 + number)}{chr(0x1F600) * 500}")
        for number in range(26)
        for since in (NEW, NIGHT_BEFORE)
    ]
    text = markdown(told(*wide, set_aside={chr(0x1F600) * 900: "x" * 9000}), Moves())
    assert len(text.encode()) <= LIMIT
    assert text.endswith("\n*More is left out.*\n")


def test_what_a_kernel_prints_is_no_markdown(told: Told, red: MakeResult) -> None:
    text = markdown(told(red("k", message="`x` @someone <img src=//evil>\n## Passed\n")), Moves())
    (entry,) = sections(text)["New"]
    assert "`ˋxˋ @someone <img src=//evil> ## Passed`" in entry
