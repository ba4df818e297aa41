"""A run on a terminal: progress while it lasts, then a table and what broke; plain lines elsewhere."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Set
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Column, Table
from rich.text import Text

from pipeline.ground.jobs import Job, State
from pipeline.ground.results import OUTCOMES, Outcome, Result
from pipeline.ground.words import counted
from pipeline.report.cases import headline, suite_of
from pipeline.report.compiled import in_short
from pipeline.report.notices import notices
from pipeline.report.overview import overview
from pipeline.report.text import likely, one_line
from pipeline.results.reproduce import with_resume
from pipeline.run.listener import RunInfo, RunSummary

_STYLES = {
    Outcome.PASSED: "green",
    Outcome.SKIPPED: "yellow",
    Outcome.FAILURE: "bold red",
    Outcome.ERROR: "bold magenta",
}
_KEPT = {"junit.xml": "report", "summary.md": "summary", "results.json": "results", "jobs": "artefacts"}
_RUNNING_SHOWN = 2
_BAR_WIDTH = 20
_USUAL_WIDTH = 80
_WIDEST = 10_000
_LAST_ROWS = 3
"""Rows at the end of a screen for the run's folder, its verdict and the prompt."""


class SizedConsole(Console):
    """A console that always has a width."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        if self.width < 1:  # COLUMNS=0, as hosts without a terminal have it: rich would print nothing
            self.width = _USUAL_WIDTH


class Terminal:
    """A `pipeline.run.listener.Listener` that tells people what happens.

    On a terminal it shows a progress bar and, above it, a line for each red job. Elsewhere it prints one
    line when a job starts and one when it ends, so that the log of a run that hangs names the job. Jobs that
    cannot run here, or had ended before the run was resumed, are counted in a line; the reasons are told at
    the end.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._styled = console.is_terminal or console.color_system is not None
        self._width = console.width
        self._progress: Progress | None = None
        self._planned = 0
        self._finished = 0
        self._running: dict[str, None] = {}
        self._kept: Set[str] = frozenset()
        self._skipped = 0
        self._rows = 0

    def run_started(self, run: RunInfo) -> None:
        """Say what is about to happen."""
        self._planned = len(run.plan)
        self._kept = run.kept
        again = "resumed: " if run.resumed else ""
        planned = counted(self._planned, "job")
        if self._kept and len(self._kept) == self._planned:
            self._say(f"nothing is left to run in run {run.run_id}")
        else:
            self._say(f"run {run.run_id}: {again}{planned}, at most {run.workers} at a time, in {run.folder}")
            if self._kept:
                self._say(f"{counted(len(self._kept), 'job')} had ended before")
        for note in run.notes:
            self._say(f"note: {note}", "yellow")
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            columns = (SpinnerColumn(), MofNCompleteColumn(), BarColumn(_BAR_WIDTH), TimeElapsedColumn())
            # The names get only the space that the count and the bar leave.
            rest = Column(ratio=1, no_wrap=True)
            running = TextColumn("{task.description}", markup=False, table_column=rest)
            self._progress = Progress(*columns, running, console=self._console, transient=True, expand=True)
            self._progress.add_task("", total=self._planned)
            self._progress.start()

    def job_started(self, job: Job, device: int | None, attempt: int) -> None:
        """Show that a job runs."""
        self._running[job.id] = None
        if self._progress is None:
            on = "" if device is None else f" on device {device}"
            nth = "" if attempt == 1 else f", attempt {attempt}"
            self._tell_skipped()
            self._say(f"started {job.id}{on}{nth}")
        self._advance()

    def remark(self, text: str) -> None:
        """Print it, above a progress bar."""
        self._say(text, "yellow")

    def job_finished(self, result: Result) -> None:
        """Show how a job ended, if it ran now; beside a progress bar, only if it is red."""
        self._finished += 1
        started = result.job.id in self._running
        self._running.pop(result.job.id, None)
        outcome = OUTCOMES[result.state].outcome
        red = outcome in (Outcome.FAILURE, Outcome.ERROR)
        if result.job.id in self._kept:
            pass
        elif result.state is State.SKIPPED and not started:
            self._skipped += 1
        elif self._progress is None or red:
            why = f": {headline(result)}" if red else ""
            count = f"[{self._finished}/{self._planned}]"
            line = f"{count} {result.state.value} {result.job.id} {result.seconds:.1f} s{why}"
            self._say(line, _STYLES[outcome])
        self._advance()

    def run_finished(self, summary: RunSummary) -> None:
        """Put the progress away; show what must not be missed, the table, what broke, what was not judged.

        The most urgent group comes first. If it is off the screen at the end, two lines there repeat it.
        """
        self._width = self._console.width  # the window may have another size by now
        if self._progress is not None:
            self._progress.stop()
        else:
            self._tell_skipped()
        summary = with_resume(summary)
        seen = overview(summary.results)
        for notice in notices(summary.results):
            self._say(notice.what, "bold yellow")
            for line in notice.shown:
                self._say(line, indent="  ")
        table = _table(summary.results)
        if not self._console.is_terminal:  # a file has no width: names stay whole, so that they can be found
            wide = self._console.options.update(max_width=_WIDEST)
            table.width = self._console.measure(table, options=wide).maximum
        self._console.print(table, soft_wrap=not self._console.is_terminal)
        for line in in_short(summary.results):
            self._say(line)
        before = self._rows
        for group in seen.broken:
            self._say(f"{group.heading()}: {group.message}", "bold red")
            self._say(f"where: {group.where}", indent="  ")
            self._say(likely(group.why), indent="  ")
            if group.since:
                self._say(f"since: {group.since}", indent="  ")
            if group.again:
                self._say(f"again: {group.again}", indent="  ")
        for group in seen.skipped:
            self._say(f"{len(group.results)} {group.state.value}: {group.message}", "yellow")
            self._say(f"where: {group.where}", indent="  ")
        for device, reason in summary.set_aside.items():
            self._say(f"device {device} was set aside: {reason}", "bold magenta")
        for device, reason in summary.undecided.items():
            self._say(f"device {device} is in doubt: {reason}", "bold magenta")
        for problem in summary.problems:
            self._say(f"the pipeline itself failed: {problem}", "bold magenta")
        if seen.broken and self._rows - before > self._console.height - _LAST_ROWS:
            worst = seen.broken[0]
            self._say(f"first of the above: {worst.heading()}: {worst.message}", "bold red")
            self._say(f"again: {worst.again}" if worst.again else f"where: {worst.where}", indent="  ")
        kept = ", ".join(what for name, what in _KEPT.items() if (summary.folder / name).exists())
        self._say(f"run {summary.run_id}: {kept or 'nothing was kept'} in {summary.folder}")
        if summary.at_best:
            self._say(
                f"seconds: {summary.seconds:.1f}; no order of these jobs ends before {summary.at_best:.1f}"
            )
        colour = "bold green" if summary.exit_code == 0 else "bold red"
        self._say(seen.verdict(summary.seconds, summary.exit_code), colour)

    def _tell_skipped(self) -> None:
        """Say how many jobs were skipped since it was last said."""
        if self._skipped:
            reasons = "the reason is" if self._skipped == 1 else "the reasons are"
            self._say(f"{counted(self._skipped, 'job')} cannot run here; {reasons} at the end", "yellow")
            self._skipped = 0

    def _advance(self) -> None:
        if self._progress is not None:
            more = len(self._running) - _RUNNING_SHOWN
            shown = ", ".join(list(self._running)[:_RUNNING_SHOWN]) + (
                f" and {more} more" if more > 0 else ""
            )
            task = self._progress.task_ids[0]
            self._progress.update(task, completed=self._finished, description=shown, refresh=True)

    def _say(self, line: str, style: str = "", indent: str = "") -> None:
        """Print a line as it is: no markup is read, nothing is wrapped."""
        text = Text(indent + one_line(line), style=style)
        self._rows += 1 + text.cell_len // self._width
        if self._styled:
            self._console.print(text, soft_wrap=True)
        else:  # rich needs a quarter of a millisecond to find that out, and each job has two lines
            self._console.file.write(f"{text.plain}\n")
            self._console.file.flush()


def _table(results: Iterable[Result]) -> Table:
    """Jobs by suite and outcome."""
    table = Table()
    table.add_column("suite", overflow="fold")
    for column in ("jobs", *(outcome.value for outcome in Outcome), "seconds"):
        table.add_column(column, justify="right")
    counts: defaultdict[str, Counter[Outcome]] = defaultdict(Counter)
    seconds: defaultdict[str, float] = defaultdict(float)
    for result in results:
        name = suite_of(result)
        counts[name][OUTCOMES[result.state].outcome] += 1
        seconds[name] += result.seconds
    for name, ended in sorted(counts.items()):
        cells = (Text(str(ended[o]) if ended[o] else "", style=_STYLES[o]) for o in Outcome)
        table.add_row(Text(name), Text(str(ended.total())), *cells, Text(f"{seconds[name]:.1f}"))
    return table
