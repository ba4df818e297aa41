"""A run as Markdown for a step or check summary: what broke, where, most likely why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pipeline.ground.words import counted
from pipeline.report.compiled import COLUMNS, rows
from pipeline.report.overview import Group, overview
from pipeline.report.text import one_line
from pipeline.run.listener import RunSummary

CHECK_LIMIT = 65_535
"""Bytes of a check run's summary, the smallest limit of the consumers."""

_JOBS_SHOWN = 10
_NOTE_BYTES = 200


def markdown(summary: RunSummary, facts: Mapping[str, str]) -> str:
    """Write a run's summary, the most urgent first, in at most `CHECK_LIMIT` bytes of UTF-8.

    What does not fit is left out by whole paragraphs, and the last line says how many.
    """
    kept: list[str] = []
    size = 0
    blocks = list(_blocks(summary, facts))
    for block in blocks:
        size += len(block.encode()) + 2
        if size > CHECK_LIMIT - _NOTE_BYTES:
            break
        kept.append(block)
    if left_out := len(blocks) - len(kept):
        kept.append(
            f"*{counted(left_out, 'more paragraph')} left out: the consumer takes {CHECK_LIMIT} bytes.*"
        )
    return "\n\n".join(kept) + "\n"


def _blocks(summary: RunSummary, facts: Mapping[str, str]) -> Iterator[str]:
    seen = overview(summary.results)
    verdict = "Passed" if summary.exit_code == 0 else f"Failed (exit code {summary.exit_code})"
    yield f"## {verdict}: {seen.line}"
    run = {"run": summary.run_id, "seconds": f"{summary.seconds:.1f}", **facts}
    yield ", ".join(f"{one_line(key)} {_quoted(value)}" for key, value in run.items())
    for problem in summary.problems:
        yield f"**The pipeline itself failed:** {_quoted(problem)}"
    for device, reason in summary.set_aside.items():
        yield f"**Device {_quoted(device)} was set aside:** {_quoted(reason)}"
    for device, reason in summary.undecided.items():
        yield f"**Device {_quoted(device)} is in doubt:** {_quoted(reason)}"
    for group in seen.broken:
        yield _broken(group)
    for group in seen.skipped:
        count = f"**{len(group.results)} {group.state.value}:**"
        yield f"{count} {_quoted(group.message)} ({_quoted(group.where)})"
    if compiled := rows(summary.results):
        yield _table(compiled)


def _broken(group: Group) -> str:
    ids = [_quoted(result.job.id) for result in group.results]
    more = f" and {len(ids) - _JOBS_SHOWN} more" if len(ids) > _JOBS_SHOWN else ""
    lines = [
        f"### {group.heading(_quoted)}",
        "",
        _quoted(group.message),
        "",
        f"- where: {_quoted(group.where)}",
        f"- most likely: {_quoted(group.why)}",
        *([f"- since: {_quoted(group.since)}"] if group.since else []),
        f"- jobs: {', '.join(ids[:_JOBS_SHOWN])}{more}",
        *([f"- again: {_quoted(group.again)}"] if group.again else []),
    ]
    return "\n".join(lines)


def _table(compiled: Sequence[Sequence[str]]) -> str:
    """The programs that compiled; a bar in a cell would end it, even in code."""
    lines = ["### Compiled", "", " | ".join(COLUMNS), " | ".join("---" for _ in COLUMNS)]
    return "\n".join(
        [*lines, *(" | ".join(_quoted(cell).replace("|", "\\|") for cell in row) for row in compiled)]
    )


def _quoted(text: str) -> str:
    """As code, so that nothing in it is read as Markdown, HTML, or a mention."""
    return f"`{one_line(text).replace('`', chr(0x2CB)) or ' '}`"
