"""The search for the lines to blame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from emulator.backward import Suspicion
from emulator.blame.finding import Finding, Hint
from emulator.blame.groups import grouped, merged
from emulator.blame.lines import located, passed
from emulator.blame.task import Task
from emulator.blame.trials import Trials
from emulator.blame.words import parts_of, tensor_of, words_of
from emulator.errors import AccessError
from emulator.operands import Position, Ref
from emulator.repair import Change, numbered
from emulator.terms import Numbering
from emulator.trace import Copy


def blame(task: Task) -> tuple[Finding, ...]:
    """Find the lines to blame for a proof that failed.

    Args:
        task: the program, and what it must do.

    Returns:
        The findings, the one that most elements are wrong by first; none where nothing was found.

    Raises:
        CapacityError: a memory is over its capacity.
    """
    try:
        found = task.suspicions()
    except AccessError as error:
        return (_refused(error),)
    groups = grouped(found)
    trials = Trials(task, groups)
    findings = []
    for group in groups:
        findings.append(_finding(task, group, trials))
        if trials.mended is not None:  # what else is wrong follows from it
            return (_alone(findings[-1], trials.sharing(trials.mended), groups),)
    return tuple(merged(findings))


def _alone(finding: Finding, sharing: Sequence[Position], groups: Sequence[Sequence[Suspicion]]) -> Finding:
    """The finding that everything follows from, with the other lines that its number is right for."""
    others = dict.fromkeys((*finding.others, *sharing))
    return replace(
        finding,
        elements=sum(suspicion.count for group in groups for suspicion in group),
        others=tuple(line for line in others if line != finding.position),
    )


def _refused(error: AccessError) -> Finding:
    """What the walk itself refused."""
    return Finding(error.position, error.operator.removeprefix("pl."), error.rounds, "", error.problem, 0)


def _finding(task: Task, group: Sequence[Suspicion], trials: Trials) -> Finding:
    """The finding of suspicions that are one cause."""
    program, numbering, first = task.program, task.numbering, group[0]
    call = first.event.step.call
    finding = Finding(
        call.position,
        call.operator,
        first.event.step.rounds,
        tensor_of(numbering, first),
        words_of(numbering, first),
        sum(each.count for each in group),
        (*(each.also.step.call.position for each in group if each.also is not None), *_elsewhere(group)),
    )
    if words := _of_host(numbering, first):
        return replace(finding, operator="host", words=words)
    if (argument := passed(program, numbering, first)) is not None:
        line, words = argument
        return replace(
            finding, position=line, operator="call", rounds={}, words=words, others=(call.position,)
        )
    finding = located(program, finding, first)
    change = trials.change(group)
    words = finding.words
    if change is None:
        words += "; no single number would mend every round" if numbered(group) else ""
        return replace(finding, words=words)
    if change.operand in ("start", "stop") and change.leaf.position != finding.position:
        others = (finding.position, *finding.others)
        finding = replace(finding, position=change.leaf.position, operator="for", others=others)
    if not change.everywhere(program):
        named = "" if isinstance(change.value, Ref) else f"; {parts_of(change)}"
        return replace(finding, words=words + named)
    if change.leaf.source is None:  # the source does not say it
        starts = f"the loop starts at {change.leaf.value}, {change.value} would be right"
        return replace(finding, words=f"{words}; {starts}")
    return replace(finding, hint=_hint(change))


def _elsewhere(group: Sequence[Suspicion]) -> list[Position]:
    """The same line where another line called its helper; not where only a line around that is another."""
    positions = {each.event.step.call.position: each.event.step.call.position.caller for each in group}
    lines = {
        caller and (caller.file, caller.line): position for position, caller in reversed(positions.items())
    }
    return [*lines.values()]


def _of_host(numbering: Numbering, suspicion: Suspicion) -> str:
    """What is wrong with a tensor that the host makes; empty if it is right, or none is read."""
    event = suspicion.event
    if not isinstance(event, Copy) or not event.source.given or numbering.knows(event.source.name):
        return ""
    if suspicion.wanted in event.held:
        return ""
    must = numbering.name(suspicion.wanted)
    return f"{event.source.name}, which the host makes, does not hold {must}, which is needed"


def _hint(change: Change) -> Hint:
    leaf = change.leaf
    origin = "" if leaf.origin is None else f"{leaf.origin.text}, {leaf.origin.position}"
    value = leaf.text if isinstance(leaf.value, Ref) else leaf.value
    right = change.text if isinstance(change.value, Ref) else change.value
    return Hint(change.operand, leaf.text, leaf.position, value, right, origin)
