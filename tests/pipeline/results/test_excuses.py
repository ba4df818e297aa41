"""What an expected failure excuses, and what it does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import yaml

from pipeline.diff.compare import compare
from pipeline.ground.jobs import ExpectedFailure, Job, Lane, Platform, State, WorkloadName
from pipeline.ground.results import FINGERPRINT, Diff, Result, StageResult
from pipeline.report.text import one_line
from pipeline.results.excuses import UNEXPLAINED, Earlier, entry, outputs_of, with_excuse
from pipeline.results.fingerprint import fingerprint

LINK = "https://issues.example/7"
REASON = "offset read unsigned"
UNNAMED = ExpectedFailure(REASON, LINK)
RUN = "20260301-040000-1a2b3c4d5e"


def job(expected: ExpectedFailure | None = UNNAMED) -> Job:
    platform = Platform("emu", "emulator", "a2a3")
    workload = WorkloadName("conv-pair")
    return Job(
        "compare/emu/g/small", Lane.COMPARE, platform, workload, "g", {}, "all", "small", 60.0, expected
    )


def differing(by: int = 9, against: str = "golden") -> Diff:
    """A quarter of the elements is off by so much, each has another value."""
    golden = np.arange(16 * 32, dtype=np.int16).reshape(16, 32) % 100
    actual = golden.astype(np.int8)
    actual[-4:] += by
    return compare("y", actual, golden.astype(np.int8), width=4, band_rows=4, sentinel=-86, against=against)


def wrong(name: str, *causes: str, diff: Diff | None = None) -> StageResult:
    return StageResult(name, State.MISMATCH, "differs", diffs=(diff or differing(),), causes=causes)


def failed(*stages: StageResult, expected: ExpectedFailure | None = UNNAMED) -> Result:
    """The result of a job with these wrong stages, as a review hands it over."""
    causes = next((stage.causes for stage in stages if stage.causes), ())
    result = Result(job(expected), stages[0].state, stages[0].message, stages=stages, causes=causes)
    return replace(result, facts={FINGERPRINT: fingerprint(result)})


def never(_result: Result) -> Sequence[Earlier]:
    return ()


def excused(result: Result, *earlier: Earlier) -> bool:
    """Whether it is; a failure that is not keeps its state and message, and says what is excused."""
    judged = with_excuse(result, lambda _result: earlier)
    assert (REASON in judged.message) == (LINK in judged.message) == (result.job.expected_failure is not None)
    if judged.state is State.EXPECTED_FAILURE:
        return True
    assert judged.state is result.state
    assert judged.message.startswith(f'{result.message}; not excused: the entry "{REASON}" ({LINK}) ')
    return False


def naming(cause: str | None = None, fingerprint: str | None = None) -> ExpectedFailure:
    return ExpectedFailure(REASON, LINK, cause, fingerprint)


def test_an_entry_with_a_cause_excuses_that_cause_alone() -> None:
    expected = naming("offset-unsigned-2")
    assert excused(failed(wrong("fused", "offset-unsigned-2", "offset-sign-2"), expected=expected))
    assert excused(failed(wrong("fused", "offset-sign-2", "offset-unsigned-2"), expected=expected))
    assert not excused(failed(wrong("fused", "half-away-2"), expected=expected))
    assert not excused(failed(wrong("fused"), expected=expected))
    judged = with_excuse(failed(wrong("fused", "half-away-2"), expected=expected), never)
    what = "is for cause offset-unsigned-2; this failure has cause half-away-2"
    assert judged.message.endswith(f"{what}; if it is known too, add an entry with `cause: half-away-2`")


def test_a_cause_excuses_a_job_only_if_it_explains_all_that_is_wrong() -> None:
    expected = naming("unwritten")
    one, two = wrong("fused", "unwritten"), wrong("pass2", "unwritten", "band-up")
    assert excused(failed(one, two, expected=expected))
    assert excused(failed(one, wrong("fused-vs-pass2", diff=differing(against="fused")), expected=expected))
    refused = StageResult("pass1", State.COMPILE_ERROR, "L1 is full")
    for other in (wrong("pass2", "half-away-2"), wrong("pass2"), refused):
        assert not excused(failed(one, other, expected=expected))
        assert not excused(failed(other, one, expected=expected))


def test_an_entry_with_a_fingerprint_excuses_that_fingerprint_alone() -> None:
    refused = StageResult("fused", State.COMPILE_ERROR, "L1 needs 600000 B")
    expected = naming(fingerprint="compile-error fused L1 needs # B")
    assert excused(failed(refused, expected=expected))
    assert excused(failed(replace(refused, message="L1 needs 700000 B"), expected=expected))
    assert not excused(failed(replace(refused, message="no such operator"), expected=expected))
    assert not excused(failed(wrong("fused", "unwritten"), expected=expected))
    assert not excused(failed(refused, wrong("pass2"), expected=expected))
    other = replace(refused, message="L2 needs 600000 B")
    assert not excused(failed(other, expected=expected))
    assert excused(failed(other, expected=naming(fingerprint="compile-error fused L# needs # B")))


def test_a_message_that_is_not_excused_shows_both_failures_whole() -> None:
    """Reports show 500 characters of a message and cut its middle."""
    known, new = (f"L1 is full: {'tile ' * 60}{end}" for end in "ab")
    expected = naming(fingerprint=failed(StageResult("fused", State.COMPILE_ERROR, known)).facts[FINGERPRINT])
    result = failed(StageResult("fused", State.COMPILE_ERROR, new), expected=expected)
    judged = with_excuse(result, never)
    shown = one_line(judged.message)
    assert shown == judged.message
    assert shown.startswith("L1 is full: tile ")
    assert f"is for fingerprint {expected.fingerprint}; " in shown
    assert shown.endswith(f'add an entry with `fingerprint: "{result.facts[FINGERPRINT]}"`')
    assert judged.details.startswith(new)


def test_an_entry_that_names_both_wants_both() -> None:
    result = failed(wrong("fused", "unwritten"))
    kind = result.facts[FINGERPRINT]
    for cause, found, right in [
        ("unwritten", kind, True),
        ("band-up", kind, False),
        ("unwritten", "other", False),
    ]:
        with_entry = replace(result, job=job(naming(cause, found)))
        assert excused(with_entry) is right


def test_an_entry_that_names_neither_excuses_a_plain_mismatch_and_says_what_to_name() -> None:
    judged = with_excuse(failed(wrong("fused", "half-away-2")), never)
    assert judged.state is State.EXPECTED_FAILURE
    assert f"({LINK}), which names no cause: add `cause: half-away-2` to it; mismatch: " in judged.message
    judged = with_excuse(failed(wrong("fused", diff=differing(by=1))), never)
    assert 'add `fingerprint: "mismatch fused rounding: ' in judged.message
    named = with_excuse(failed(wrong("fused", "half-away-2"), expected=naming("half-away-2")), never)
    assert named.message == f"expected: {REASON} ({LINK}); mismatch: differs"


@pytest.mark.parametrize(
    "changes", [{"unwritten": 32}, {"problem": "dtype is int32, must be int8"}, {"single": 0}]
)
def test_an_entry_that_names_neither_excuses_no_degenerate_output(changes: dict[str, object]) -> None:
    result = failed(wrong("fused"), wrong("pass2", diff=replace(differing(), **changes)))  # type: ignore[arg-type]
    assert not excused(result)
    assert excused(replace(result, job=job(naming(fingerprint=result.facts[FINGERPRINT]))))


@pytest.mark.parametrize("state", [State.COMPILE_ERROR, State.PERFORMANCE])
def test_an_entry_that_names_neither_excuses_mismatches_only(state: State) -> None:
    assert not excused(failed(StageResult("fused", state, "600 cycles")))
    assert not excused(failed(wrong("fused"), StageResult("pass1", state, "600 cycles")))


def test_an_entry_that_names_neither_excuses_what_it_excused_before() -> None:
    result = failed(wrong("fused", "half-away-2"))
    other = Earlier(RUN, "mismatch fused unwritten")
    assert excused(result, Earlier(RUN, "mismatch fused half-away-2"), other)
    assert not excused(result, other)
    judged = with_excuse(result, lambda _result: [other])
    assert (
        f"fails otherwise than in run {RUN}, which had fingerprint mismatch fused unwritten" in judged.message
    )
    named = replace(result, job=job(naming("half-away-2")))
    assert excused(named, other)


def of_night(run: str, *stages: StageResult) -> Earlier:
    return Earlier(run, fingerprint(failed(*stages)), outputs_of(stages))


@pytest.mark.parametrize("named", [True, False])
def test_an_entry_without_a_cause_excuses_an_output_only_until_it_changes(named: bool) -> None:
    """Both bugs have the same form, so that they have the same fingerprint."""
    one, two = wrong("fused", diff=differing(by=9)), wrong("fused", diff=differing(by=11))
    kind = fingerprint(failed(one))
    assert fingerprint(failed(two)) == kind
    expected = naming(fingerprint=kind if named else None)
    tonight = failed(two, expected=expected)
    assert excused(tonight)
    assert excused(tonight, of_night(RUN, two))
    assert not excused(tonight, of_night(RUN, one))
    judged = with_excuse(tonight, lambda _result: [of_night(RUN, one)])
    said = f"otherwise than in run {RUN}: on the same inputs the output is another"
    assert said in judged.message
    # Of each output the last night counts that had the same golden.
    assert excused(tonight, of_night("newer", two), of_night(RUN, one))
    on_other_inputs = wrong("fused", diff=replace(differing(by=5), golden_sha="of other inputs"))
    assert excused(tonight, of_night("newer", on_other_inputs))
    assert not excused(tonight, of_night("newer", on_other_inputs), of_night(RUN, one))
    # A cause says what is wrong whatever the output.
    of_cause = failed(wrong("fused", "band-up", diff=differing(by=11)), expected=naming("band-up"))
    assert excused(of_cause, of_night(RUN, one))


def test_a_stage_that_was_right_is_not_excused_with_one_of_the_same_form() -> None:
    bad, good = differing(), differing(by=0)
    before = of_night(RUN, wrong("fused", diff=bad), StageResult("pass2", State.PASSED, diffs=(good,)))
    kind = fingerprint(failed(wrong("fused", diff=bad)))
    expected = naming(fingerprint=kind)
    assert excused(failed(wrong("fused", diff=bad), expected=expected), before)
    assert not excused(failed(wrong("fused", diff=bad), wrong("pass2", diff=bad), expected=expected), before)


@pytest.mark.parametrize(
    "state",
    [State.CRASHED, State.TIMED_OUT, State.INFRASTRUCTURE, State.NONDETERMINISTIC, State.SKIPPED],
)
def test_what_says_nothing_about_the_known_fault_stays_what_it_is(state: State) -> None:
    for expected in (UNNAMED, naming(fingerprint=f"{state.value} why")):
        result = Result(job(expected), state, "why", facts={FINGERPRINT: f"{state.value} why"})
        assert with_excuse(result, never) == result


def test_a_pass_is_red_while_a_failure_is_expected() -> None:
    assert with_excuse(Result(job(), State.PASSED), never).state is State.UNEXPECTED_PASS
    assert with_excuse(Result(job(None), State.PASSED), never).state is State.PASSED
    unexpected = failed(wrong("fused"), expected=None)
    assert with_excuse(unexpected, never) == unexpected


def test_an_entry_is_yaml_and_names_the_failure_whatever_its_text_holds() -> None:
    hostile = 'no "quotes": # or \\ \x1b[31mcolours\x07\n\u2028ends'
    results = [
        failed(wrong("fused", "unwritten"), expected=None),
        failed(StageResult("fused", State.COMPILE_ERROR, hostile), expected=None),
        Result(job(None), State.CRASHED, "why", facts={FINGERPRINT: "crashed why"}),
    ]
    text = "\n".join(["expected_failures:", *(line for result in results for line in entry(result))])
    first, second = yaml.safe_load(text)["expected_failures"]
    assert first == {"jobs": "compare/emu/g/small", "cause": "unwritten", "reason": None, "link": None}
    assert second["fingerprint"] == results[1].facts[FINGERPRINT]
    assert second["fingerprint"].isprintable()
    assert "# compare/emu/g/small: crashed: no entry excuses that" in text


def test_the_entry_of_a_failure_with_several_kinds_excuses_all_of_them_and_no_other() -> None:
    result = failed(wrong("fused", "unwritten"), wrong("pass2", "half-away-2"), expected=None)
    (written,) = yaml.safe_load("\n".join(["entries:", *entry(result)]))["entries"]
    assert written["fingerprint"] == "mismatch fused unwritten; mismatch pass2 half-away-2"
    expected = naming(fingerprint=written["fingerprint"])
    assert excused(replace(result, job=job(expected)))
    assert not excused(failed(wrong("fused", "unwritten"), expected=expected))


def test_an_entry_says_before_it_is_pasted_that_no_fault_explains_the_mismatch() -> None:
    assert next(entry(failed(wrong("fused"), expected=None))) == UNEXPLAINED
    assert UNEXPLAINED not in entry(failed(wrong("fused", "unwritten"), expected=None))
    refused = StageResult("fused", State.COMPILE_ERROR, "L1 is full")
    assert UNEXPLAINED not in entry(failed(refused, expected=None))


def test_two_engines_take_over_the_entries_of_device_jobs() -> None:
    other = replace(job(None), other=Platform("sim", "pypto", "a5"))
    (line,) = entry(replace(failed(wrong("fused", "unwritten"), expected=None), job=other))
    assert line.strip().startswith("# compare/emu/g/small: mismatch: ")
