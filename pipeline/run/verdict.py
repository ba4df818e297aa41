"""Makes a job's result from how its process ended and what it wrote. This module starts no processes."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from pipeline.engines.host_faults import FULL_DISK
from pipeline.ground.jobs import EXCUSABLE, Job, State
from pipeline.ground.patterns import Pattern
from pipeline.ground.results import OUTCOMES, Blame, Diff, Region, Result
from pipeline.ground.words import listed
from pipeline.run.messages import Report, read_result


@dataclass(frozen=True)
class Mark:
    """What marks an infrastructure error in a job's text, and what such an error blames."""

    pattern: Pattern
    blames: Blame = Blame.DEVICE


_SICK = (507015, 507018, 507010, 507899, 507901)

DEFAULT_MARKS = (
    *(Mark(Pattern(text), Blame.HOST) for text in FULL_DISK),
    *(Mark(Pattern(f"(^|[^0-9]){code}([^0-9]|$)")) for code in _SICK),
)
"""What the system reports when the disk is full or read-only, and what a sick device prints (CANN's aclError
list): AI core exception, AICPU exception, lost heartbeat, driver internal error, host-device channel
disconnected. A kernel can cause some of them: `evidence.py` decides who is at fault.

The first one found counts, so a device is not blamed for a full disk."""

_CRASH_SIGNALS = frozenset({"SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP", "SIGSYS"})
# A mismatch or a compile error is a judgement on the kernel; a mark in the text does not change it.
_MAYBE_INFRASTRUCTURE = frozenset({State.CRASHED, State.KILLED, State.TIMED_OUT, State.NO_RESULT})
JUDGED = frozenset({State.PASSED, *EXCUSABLE})
"""The kernel was judged, so that a further repeat can be compared with this result."""

# The end states that only the controller sets; a worker can claim the others.
_CONTROLLERS = (
    State.EXPECTED_FAILURE,
    State.KNOWN_FAILURE,
    State.UNEXPECTED_PASS,
    State.NONDETERMINISTIC,
    State.DEVICE_DEPENDENT,
    State.PROVOKED,
    State.INTERRUPTED,
)
_WORKERS = frozenset(OUTCOMES).difference(_CONTROLLERS)


def judge(job: Job, report: Report, result_file: Path, marks: Sequence[Mark]) -> Result:
    """The result of one process of `job`: the one it wrote if it ended well, else one that says how it ended.

    `marks` identify infrastructure errors in the text of a job that was not judged.
    """
    written, fault = _read(result_file, job)
    state, message = _ending(job, report, written, fault)
    result = written or Result(job, state)
    result = replace(
        result,
        state=state,
        message=message,
        seconds=report.seconds,
        output=report.output,
        peak_memory=report.peak_memory,
    )
    if report.swept:
        result = replace(result, facts={**result.facts, "swept_processes": "; ".join(report.swept)})
    if state not in _MAYBE_INFRASTRUCTURE:
        return result
    result = replace(result, details="\n".join(filter(None, (result.details, report.stacks))))
    for mark in marks:
        if any(map(mark.pattern.occurs, (result.message, result.details, result.output))):
            message = f"infrastructure pattern {mark.pattern.text} ({state.value}: {result.message})"
            return replace(result, state=State.INFRASTRUCTURE, message=message, blames=mark.blames)
    return result


def _read(path: Path, job: Job) -> tuple[Result | None, str]:
    try:
        result = read_result(path, job)
    except FileNotFoundError:
        return None, "it wrote no result"
    except (msgspec.DecodeError, ValueError, OSError) as error:
        return None, f"its result file is damaged: {error}"
    if result.state not in _WORKERS:
        return None, f"its result claims the state {result.state.value}"
    return result, ""


def _ending(job: Job, report: Report, written: Result | None, fault: str) -> tuple[State, str]:
    if report.ended is State.TIMED_OUT:
        stacks = "" if report.stacks else "; it did not write its stacks"
        return State.TIMED_OUT, f"did not end within {job.timeout:g} s{stacks}"
    if report.ended is State.INTERRUPTED:
        return State.INTERRUPTED, ""
    if report.status < 0:
        # Most real-time signals have no name.
        names = (one.name for one in signal.Signals if one == -report.status)
        name = next(names, f"signal {-report.status}")
        if name in _CRASH_SIGNALS:
            return State.CRASHED, f"crashed by {name}"
        memory = " (out of memory?)" if name == "SIGKILL" else ""
        return State.KILLED, f"killed from outside by {name}{memory}"
    if report.status > 0:
        after = f"its result said {written.state.value}" if written else fault
        return State.CRASHED, f"exit code {report.status}; {after}"
    if written is None:
        return State.NO_RESULT, f"exit code 0, but {fault}"
    return written.state, written.message


def judge_lost(job: Job, fault: str, gave_up: bool) -> Result:
    """The result of a job whose keeper ended without a report.

    `gave_up`: the keeper was ended because it no longer answered. `fault`: the error that the keeper or the
    nursery reported, which is one of the pipeline itself; empty if it was killed. That says nothing about the
    job: its host is blamed.
    """
    if gave_up:
        return Result(job, State.TIMED_OUT, f"did not end within {job.timeout:g} s; its keeper did not reply")
    if fault:
        return Result(job, State.NO_RESULT, "its keeper failed", fault)
    return Result(job, State.INFRASTRUCTURE, "its keeper was killed", blames=Blame.HOST)


def merge_repeats(results: Sequence[Result]) -> Result:
    """The result of a job that ran several times: `nondeterministic` if the outputs or verdicts differ.

    After a repeat that was not judged (a crash, a hang) there is no further one; its result is the job's.
    """
    last = results[-1]
    if len(results) == 1:
        return last
    if last.state not in JUDGED:
        return replace(last, message=f"repeat {len(results)}: {last.message}")
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
        message=f"{len(differing)} of {len(results)} repeats differ from the first, in {names}"
        + _where(results),
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


def _where(results: Sequence[Result]) -> str:
    """In which channels and ACC tiles outputs vary between repeats, where it is not in all of them."""
    outputs: dict[str, list[Diff]] = {}
    for stage in (stage for result in results for stage in result.stages):
        for diff in stage.diffs:
            outputs.setdefault(f"{stage.name}: {diff.tensor}", []).append(diff)
    told = ""
    for name, diffs in outputs.items():
        channels = _varying([diff.channels for diff in diffs], [diff.crcs for diff in diffs])
        tiles = _varying([diff.tiles for diff in diffs], [diff.crcs[len(diff.channels) :] for diff in diffs])
        if channels or tiles:
            told += f"; {name} varies only in {' and '.join(filter(None, (channels, tiles)))}"
    return told


def _varying(repeats: Sequence[Sequence[Region]], crcs: Sequence[Sequence[int]]) -> str:
    """Regions that differ between repeats, of each repeat with their checksums; empty if all do, or none."""
    wrong = [
        {region.name: crc for region, crc in zip(*each, strict=False) if region.mismatches}
        for each in zip(repeats, crcs, strict=True)
    ]
    names = [name for name in set().union(*wrong) if len({each.get(name) for each in wrong}) > 1]
    total = max(map(len, repeats))
    if not 0 < len(names) < total:
        return ""
    numbers = sorted(int(name.split()[-1]) for name in names)
    return f"{names[0].rpartition(' ')[0]}s {listed(numbers)} of {total}"


def apply_requirement(result: Result) -> Result:
    """Turn a skipped job into an error if its platform is required."""
    if result.state is not State.SKIPPED or not result.job.platform.required:
        return result
    message = f"required platform {result.job.platform.name} is not available: {result.message}"
    return replace(result, state=State.INFRASTRUCTURE, message=message, blames=Blame.HOST)
