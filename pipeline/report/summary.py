"""A run as Markdown for a step or check summary: what broke, where, most likely why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pipeline.ground.jobs import State
from pipeline.ground.words import counted
from pipeline.report.compiled import COLUMNS, rows
from pipeline.report.notices import notices
from pipeline.report.overview import Group, overview
from pipeline.report.text import likely, one_line, quoted
from pipeline.run.listener import RunSummary

CHECK_LIMIT = 65_535
"""Bytes of a check run's summary, the smallest limit of the consumers."""

_COMPILED = "### Compiled"
_JOBS_SHOWN = 10
_NOTE_BYTES = 200


def markdown(summary: RunSummary, facts: Mapping[str, str]) -> str:
    """Write a run's summary, the most urgent first, in at most `CHECK_LIMIT` bytes of UTF-8.

    Groups of the same state, and of the same cause or none, are similar: only their texts differ. If there is
    no room for all of them, the first stays and one line tells of those that are left out. The last line says
    how many other paragraphs are left out.
    """
    blocks = list(_blocks(summary, facts))
    texts = [block if isinstance(block, str) else _broken(block) for block in blocks]
    similar: dict[tuple[State, str], dict[int, Group]] = {}
    for number, block in enumerate(blocks):
        if isinstance(block, Group):
            similar.setdefault((block.state, block.cause), {})[number] = block
    repeats = {number: group for groups in similar.values() for number, group in list(groups.items())[1:]}

    def rank(number: int) -> int:
        if number in repeats:
            return 1 if repeats[number].judged else 3
        return 2 if texts[number].startswith(_COMPILED) else 0

    # Reckoned with the longest lines that there can be.
    lines = [_more(list(groups.values())) for groups in similar.values() if len(groups) > 1]
    room = CHECK_LIMIT - _NOTE_BYTES - sum(map(_size, lines))
    left_out = set()
    for number in sorted(range(len(texts)), key=rank):
        if _size(texts[number]) <= room:
            room -= _size(texts[number])
        else:
            left_out.add(number)
    for groups in similar.values():
        if rest := [number for number in groups if number in repeats and number in left_out]:
            texts[rest[0]] = _more([groups[number] for number in rest])
            left_out.remove(rest[0])
    kept = [text for number, text in enumerate(texts) if number not in left_out]
    if gone := len(left_out - set(repeats)):
        kept.append(f"*{counted(gone, 'more paragraph')} left out: the consumer takes {CHECK_LIMIT} bytes.*")
    return "\n\n".join(kept) + "\n"


def _size(block: str) -> int:
    """Bytes of a paragraph and the empty line behind it."""
    return len(block.encode()) + 2


def _more(similar: Sequence[Group]) -> str:
    """One line for groups that differ from one above only in their texts."""
    group = Group(tuple(result for group in similar for result in group.results))
    told = f"{counted(len(similar), 'other text')}, in the JUnit file"
    since = f"; since: {quoted(group.since)}" if group.since else ""
    return f"**{len(group.results)} more {group.state.value}:** {told} ({quoted(group.where)}{since})"


def _blocks(summary: RunSummary, facts: Mapping[str, str]) -> Iterator[str | Group]:
    seen = overview(summary.results)
    yield f"## {seen.title(summary.exit_code)}"
    for notice in notices(summary.results):
        yield "\n".join([f"**{notice.what}**", *(f"- {quoted(line)}" for line in notice.shown)])
    best = {"at best": f"{summary.at_best:.1f}"} if summary.at_best else {}
    run = {"run": summary.run_id, "seconds": f"{summary.seconds:.1f}", **best, **facts}
    yield ", ".join(f"{one_line(key)} {quoted(value)}" for key, value in run.items())
    for problem in summary.problems:
        yield f"**The pipeline itself failed:** {quoted(problem)}"
    for device, reason in summary.set_aside.items():
        yield f"**Device {quoted(device)} was set aside:** {quoted(reason)}"
    for device, reason in summary.undecided.items():
        yield f"**Device {quoted(device)} is in doubt:** {quoted(reason)}"
    yield from seen.broken
    for group in seen.skipped:
        count = f"**{len(group.results)} {group.state.value}:**"
        yield f"{count} {quoted(group.message)} ({quoted(group.where)})"
    if compiled := rows(summary.results):
        yield _table(compiled)


def _broken(group: Group) -> str:
    ids = [quoted(result.job.id) for result in group.results]
    more = f" and {len(ids) - _JOBS_SHOWN} more" if len(ids) > _JOBS_SHOWN else ""
    lines = [
        f"### {group.heading(quoted)}",
        "",
        quoted(group.message),
        "",
        f"- where: {quoted(group.where)}",
        f"- {likely(group.why, quoted)}",
        *([f"- since: {quoted(group.since)}"] if group.since else []),
        f"- jobs: {', '.join(ids[:_JOBS_SHOWN])}{more}",
        *([f"- again: {quoted(group.again)}"] if group.again else []),
    ]
    return "\n".join(lines)


def _table(compiled: Sequence[Sequence[str]]) -> str:
    """The programs that compiled; a bar in a cell would end it, even in code."""
    lines = [_COMPILED, "", " | ".join(COLUMNS), " | ".join("---" for _ in COLUMNS)]
    return "\n".join(
        [*lines, *(" | ".join(quoted(cell).replace("|", "\\|") for cell in row) for row in compiled)]
    )
