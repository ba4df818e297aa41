"""Makes a job's result from how its process ended and what it wrote. This module starts no processes."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import msgspec

from pipeline.ground.jobs import Blame, Job, Result, State
from pipeline.ground.patterns import Pattern
from pipeline.run.messages import Ended, Report, read_result
from pipeline.run.states import is_end


@dataclass(frozen=True)
class Mark:
    """A regular expression that marks an infrastructure error, and what such an error blames."""

    text: str
    blames: Blame = Blame.DEVICE


_FULL = ("No space left on device", "Disk quota exceeded", "Read-only file system")
_SICK = (507018, 507010, 507899, 507901)

DEFAULT_MARKS = (
    *(Mark(text, Blame.HOST) for text in _FULL),
    *(Mark(f"(^|[^0-9]){code}([^0-9]|$)") for code in _SICK),
)
"""What the system reports when the disk is full or read-only, and what a sick device prints (CANN's aclError
list): AICPU exception, lost heartbeat, driver internal error, host-device channel disconnected.

The first one found counts, so a device is not blamed for a full disk."""

Marks = Sequence[tuple[Pattern, Blame]]
"""Marks, compiled."""


def compiled(mark: Mark) -> tuple[Pattern, Blame]:
    """A mark with its pattern compiled. Raises `PatternError`."""
    return Pattern(mark.text), mark.blames


_CRASH_SIGNALS = frozenset({"SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP", "SIGSYS"})
# A mismatch or a compile error is a judgement on the kernel; a mark in the text does not change it.
_MAYBE_INFRASTRUCTURE = frozenset({State.CRASHED, State.KILLED, State.TIMED_OUT, State.NO_RESULT})
_EXPECTABLE = frozenset({State.MISMATCH, State.REFUTED, State.COMPILE_ERROR, State.PERFORMANCE})
_JUDGED = _EXPECTABLE | {State.PASSED}
# The end states that only the controller sets.
_NOT_A_WORKERS = frozenset(
    {State.EXPECTED_FAILURE, State.UNEXPECTED_PASS, State.NONDETERMINISTIC, State.INTERRUPTED}
)


def judge(job: Job, report: Report, result_file: Path, marks: Marks) -> Result:
    """The result of one process of `job`: the one it wrote if it ended well, else one that says how it ended.

    `marks` identify infrastructure errors in the text of a job that was not judged.
    """
    written, fault = _read(result_file, job)
    state, message = _ending(job, report, written, fault)
    result = replace(
        written or Result(job, state),
        state=state,
        message=message,
        seconds=report.seconds,
        output=report.output,
    )
    if state in _MAYBE_INFRASTRUCTURE:
        result = replace(result, details="\n".join(part for part in (result.details, report.stacks) if part))
    if report.swept:
        result = replace(result, facts={**result.facts, "swept_processes": "; ".join(report.swept)})
    return _infrastructure(result, marks) if state in _MAYBE_INFRASTRUCTURE else result


def _read(path: Path, job: Job) -> tuple[Result | None, str]:
    try:
        result = read_result(path, job)
    except FileNotFoundError:
        return None, "it wrote no result"
    except (msgspec.DecodeError, ValueError, OSError) as error:
        return None, f"its result file is damaged: {error}"
    if not is_end(result.state) or result.state in _NOT_A_WORKERS:
        return None, f"its result claims the state {result.state.value}"
    return result, ""


def _ending(job: Job, report: Report, written: Result | None, fault: str) -> tuple[State, str]:
    if report.ended is Ended.TIMED_OUT:
        stacks = "" if report.stacks else "; it did not write its stacks"
        return State.TIMED_OUT, f"did not end within {job.timeout:g} s{stacks}"
    if report.ended is Ended.CANCELLED:
        return State.INTERRUPTED, ""
    if report.status < 0:
        name = _name(-report.status)
        if name in _CRASH_SIGNALS:
            return State.CRASHED, f"crashed by {name}"
        memory = " (out of memory?)" if name == "SIGKILL" else ""
        return State.KILLED, f"killed from outside by {name}{memory}"
    if report.status > 0:
        after = f"{fault}" if fault else f"its result said {written.state.value}" if written else ""
        return State.CRASHED, f"exit code {report.status}; {after}"
    if written is None:
        return State.NO_RESULT, f"exit code 0, but {fault}"
    return written.state, written.message


def _name(number: int) -> str:
    """A signal's name; most real-time signals have none and are given by number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def judge_lost(job: Job, fault: str, gave_up: bool) -> Result:
    """The result of a job whose keeper ended without a report.

    `gave_up`: the keeper was ended because it no longer answered. `fault`: the error that the keeper or the
    nursery reported; empty if it was killed.
    """
    if gave_up:
        return Result(job, State.TIMED_OUT, f"did not end within {job.timeout:g} s; its keeper did not reply")
    if fault:
        return Result(job, State.NO_RESULT, "its keeper failed", fault)
    return Result(job, State.KILLED, "its keeper was killed")


def _infrastructure(result: Result, marks: Marks) -> Result:
    """The result, turned into an infrastructure error if a pattern marks it as one."""
    for pattern, blames in marks:
        if any(map(pattern.occurs, (result.message, result.details, result.output))):
            message = f"infrastructure pattern {pattern.text} ({result.state.value}: {result.message})"
            return replace(result, state=State.INFRASTRUCTURE, message=message, blames=blames)
    return result


def is_judged(result: Result) -> bool:
    """True if the kernel was judged, so that a further repeat can be compared with this result."""
    return result.state in _JUDGED


def merge_repeats(results: Sequence[Result]) -> Result:
    """The result of a job that ran several times: `nondeterministic` if the outputs or verdicts differ.

    After a repeat that was not judged (a crash, a hang) there is no further one; its result is the job's.
    """
    last = results[-1]
    if len(results) == 1:
        return last
    where = f"repeat {len(results)}"
    if not is_judged(last):
        return replace(last, message=f"{where}: {last.message}")
    first, *others = (_outputs(one) for one in results)
    differing = [number for number, other in enumerate(others, 2) if other != first]
    facts = {**results[0].facts, "repeats": str(len(results))}
    if not differing:
        return replace(results[0], facts=facts)
    odd = results[differing[0] - 1]
    names = ", ".join(sorted({name for name, _ in _outputs(odd) ^ first}))
    return replace(
        odd,
        state=State.NONDETERMINISTIC,
        message=f"{len(differing)} of {len(results)} repeats differ from the first, in {names}",
        details=f"first: {results[0].message}\nrepeat {differing[0]}: {odd.message}\n{odd.details}",
        facts=facts,
    )


def _outputs(result: Result) -> frozenset[tuple[str, str]]:
    """What must be equal in all repeats: the job's verdict, the stages' verdicts and the outputs' hashes."""
    stages = {(stage.name, stage.state.value) for stage in result.stages}
    hashes = {
        (f"{stage.name}: {diff.tensor}", diff.actual_sha) for stage in result.stages for diff in stage.diffs
    }
    return frozenset({("verdict", result.state.value)} | stages | hashes)


def apply_expectation(result: Result, today: date) -> Result:
    """Excuse an expected failure, and fail a job that passes although it is expected to fail.

    Only a judgement on the kernel can be the expected failure: a hang, a crash or an infrastructure error
    says nothing about the known fault. After its last day an expectation no longer applies.
    """
    expected = result.job.expected_failure
    if expected is None or (expected.until is not None and today > expected.until):
        return result
    known = f"{expected.reason} ({expected.link})"
    if result.state in _EXPECTABLE:
        return replace(
            result,
            state=State.EXPECTED_FAILURE,
            message=f"expected: {known}; {result.state.value}: {result.message}",
        )
    if result.state is State.PASSED:
        return replace(result, state=State.UNEXPECTED_PASS, message=f"passed, but expected to fail: {known}")
    return result


def apply_requirement(result: Result) -> Result:
    """Turn a skipped job into an error if its platform is required."""
    if result.state is not State.SKIPPED or not result.job.platform.required:
        return result
    return replace(
        result,
        state=State.INFRASTRUCTURE,
        message=f"required platform {result.job.platform.name} is not available: {result.message}",
        blames=Blame.HOST,
    )
