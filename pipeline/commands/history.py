"""`history`: what the database of earlier runs answers, takes in and forgets."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import msgspec
from rich.table import Table

from golden.errors import UserError
from pipeline.ground.words import counted
from pipeline.history import questions
from pipeline.history.past import FILE, HistoryError, place
from pipeline.history.questions import (
    Boundary,
    Change,
    Counted,
    Difference,
    Ended,
    Failing,
    Flaky,
    Gone,
    Moved,
)
from pipeline.history.sources import results_at
from pipeline.history.store import History, open_history
from pipeline.report.terminal import OutlastingConsole
from pipeline.report.text import one_line
from pipeline.run.messages import encode

_ABOUT_A_RUN: Mapping[str, Callable[..., Sequence[Any]]] = {
    "new": questions.new,
    "fixed": questions.fixed,
    "failing": questions.failing,
    "flaky": questions.flaky,
    "slower": questions.slower,
    "faster": questions.faster,
    "skipped": questions.skipped,
    "vanished": questions.vanished,
    "by-platform": questions.by_platform,
    "by-device": questions.by_device,
}
_ABOUT_A_JOB: Mapping[str, Callable[..., Sequence[Any]]] = {
    "first-bad": questions.first_bad,
    "last-pass": questions.last_pass,
}

_ROWS: Mapping[type, tuple[str, Callable[[Any], Sequence[object]]]] = {
    Change: (
        "job, ends as, ended as, in run, message",
        lambda one: (
            one.job,
            _end(one.now),
            _end(one.before),
            one.before and one.before.run,
            one.now.message,
        ),
    ),
    Failing: (
        "job, ends as, since run, runs, days, message",
        lambda one: (one.job, _end(one.now), one.since, one.runs, one.days, one.now.message),
    ),
    Flaky: (
        "job, changes, runs, ended as, last change in run",
        lambda one: (one.job, one.changes, one.runs, ", ".join(each.value for each in one.states), one.last),
    ),
    Moved: (
        "job, metric, value, median, MAD, change, values, model",
        lambda one: (
            *(one.job, one.metric, f"{one.value:.6g}", f"{one.median:.6g}", f"{one.mad:.3g}"),
            *(f"{one.percent:+.1f} %", one.values, one.model),
        ),
    ),
    Gone: ("job, last in run, ended as", lambda one: (one.job, one.last, one.state.value)),
    Counted: (
        "where, runs, passed, ends",
        lambda one: (
            *(one.name, one.runs, "-" if one.rate is None else f"{100 * one.rate:.1f} %"),
            ", ".join(f"{count} {state}" for state, count in one.states.items()),
        ),
    ),
    Boundary: (
        "job, last good run, commit, first bad run, commit",
        lambda one: (
            *(one.job, one.good and one.good.run, one.good and one.good.commit),
            *(one.bad.run, one.bad.commit),
        ),
    ),
    Ended: (
        "job, run, began, commit",
        lambda one: (one.job, one.run, f"{one.began:%Y-%m-%d %H:%M}", one.commit),
    ),
    Difference: ("what, in the first, in the second", lambda one: (one.what, one.one, one.other)),
}
"""Headings of each kind of answer, and its cells."""


def answer(arguments: Namespace) -> int:
    """`history QUESTION`: a table, or JSON with `--json`. Having an answer or none is no failure."""
    with _opened(arguments, make=False) as history:
        if arguments.action == "diff":
            one, other = (questions.run_named(history, name) for name in arguments.both)
            found: Sequence[Any] = questions.diff(history, one, other)
            about = [one.id, other.id]
        else:
            run = questions.run_named(history, arguments.run)
            about = [run.id]
            if arguments.action in _ABOUT_A_JOB:
                found = _ABOUT_A_JOB[arguments.action](history, run, arguments.job)
            else:
                found = _ABOUT_A_RUN[arguments.action](history, run, arguments.runs)
    if arguments.json:
        told = {"question": arguments.action, "runs": about, "answers": found}
        sys.stdout.write(msgspec.json.format(encode(told), indent=2).decode() + "\n")
        return 0
    sys.stdout.write(f"{arguments.action}, run {' and '.join(about)}: {len(found) or 'none'}\n")
    if found:
        _print(found)
    return 0


def import_runs(arguments: Namespace) -> int:
    """`history import`: bring in run folders, results and JUnit files; a line tells what cannot be used."""
    brought, refused = 0, []
    with _opened(arguments, make=True) as history:
        for path in arguments.paths:
            for results in results_at(path):
                if isinstance(results, UserError):
                    refused.append(str(results))
                elif history.record(results):
                    brought += 1
                else:
                    refused.append(f"{path}: run {results.run} is part of a merged run, which is there")
    sys.stderr.write("".join(f"{line}\n" for line in refused))
    sys.stdout.write(f"{counted(brought, 'run')} brought in, {len(refused)} left out\n")
    return 0 if brought or not refused else HistoryError.exit_code


def prune_runs(arguments: Namespace) -> int:
    """`history prune`: forget runs by age and number."""
    if arguments.days is None and arguments.runs is None:
        raise HistoryError("history prune: say what to keep: --days N, --runs N, or both")
    before = None
    if arguments.days is not None:
        before = datetime.now(timezone.utc) - timedelta(days=arguments.days)
    with _opened(arguments, make=False) as history:
        gone = history.prune(before, arguments.runs)
    sys.stdout.write(f"{counted(gone, 'run')} forgotten\n")
    return 0


def _opened(arguments: Namespace, *, make: bool) -> AbstractContextManager[History]:
    where = place(arguments.output, os.environ)
    if isinstance(where, Path) and not (make or where.exists()):
        remedy = "name another --output, or bring runs in: python -m pipeline history import"
        raise HistoryError(
            f"{arguments.output / FILE}: there is no history yet; {remedy} {arguments.output / 'runs'}"
        )
    return open_history(where, lambda line: sys.stderr.write(f"{line}\n"))


def _end(ended: Ended | None) -> str:
    return "" if ended is None else ended.fingerprint or ended.state.value


def _print(found: Sequence[Any]) -> None:
    """A row for each answer. In a file names stay whole, so that they can be found."""
    console = OutlastingConsole()
    headings, cells = _ROWS[type(found[0])]
    table = Table(*headings.split(", "), box=None, pad_edge=False)
    for one in found:
        table.add_row(*("" if cell is None else one_line(str(cell)) for cell in cells(one)))
    if not console.is_terminal:
        table.width = console.measure(table, options=console.options.update(max_width=10_000)).maximum
    console.print(table, soft_wrap=not console.is_terminal)
