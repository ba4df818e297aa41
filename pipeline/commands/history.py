"""`history`: what the database of earlier runs answers, takes in and forgets."""

from __future__ import annotations

import itertools
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import fields
from datetime import datetime, timedelta, timezone
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec
from rich.table import Table
from rich.text import Text

from golden.errors import UserError
from pipeline.commands.options import HISTORY
from pipeline.commands.selection import tell
from pipeline.ground.words import counted, unbroken
from pipeline.history import questions, trends
from pipeline.history.answers import Ended
from pipeline.history.database import LONGEST_STATEMENT
from pipeline.history.past import FILE, ContentError, HistoryError, may_exist, place
from pipeline.history.sources import results_at
from pipeline.history.store import History, open_history
from pipeline.history.stories import LAST
from pipeline.report.results import RunResults
from pipeline.report.terminal import SizedConsole
from pipeline.report.text import one_line, short_commit
from pipeline.run.folders import is_run_id
from pipeline.run.messages import encode

_ALL_DAYS = 100_000
"""More days than a history can have; a date cannot be of many more."""

_ALL_RUNS = 1_000_000
"""More runs than a history can have; a database does not take any number."""

_SECONDS = "seconds"
_MEASURED = ("value", "median", "mad")
"""The facts of a `Moved` that are in the unit of its metric."""

_ABOUT_A_RUN: Mapping[str, Callable[..., Sequence[Any]]] = {
    "new": questions.new,
    "fixed": questions.fixed,
    "failing": questions.failing,
    "flaky": questions.flaky,
    "recurring": trends.recurring,
    "stabilised": trends.stabilised,
    "causes": trends.causes,
    "timed-out": trends.timed_out,
    "slower": questions.slower,
    "faster": questions.faster,
    "skipped": questions.skipped,
    "vanished": questions.vanished,
    "nights": trends.how_nights_went,
    "red": trends.time_red,
    "by-platform": questions.by_platform,
    "by-device": questions.by_device,
}
_ABOUT_A_JOB: Mapping[str, Callable[..., Sequence[Any]]] = {
    "first-bad": questions.first_bad,
    "last-pass": questions.last_pass,
}


def consult_history(arguments: Namespace) -> int:
    """`history`: answer a question, bring runs in, or forget some."""
    _refuse_unheeded(arguments)
    does = {"import": _import, "prune": _prune}
    return does.get(arguments.question, _answer)(arguments)


def _refuse_unheeded(arguments: Namespace) -> None:
    """Raise `HistoryError` if words are missing or too many, or an option says nothing to the question."""
    question = arguments.question
    usage = next(usage for usage in HISTORY if usage.split()[0] == question)
    _, *words = usage.split()
    least, most = sum(not word.startswith("[") for word in words), len(words)
    if not least <= len(arguments.what) <= (most if "..." not in usage else len(arguments.what)):
        raise HistoryError(f"history {' '.join([question, *arguments.what])}: write history {usage}")
    heeded = {"import": (), "prune": ("runs", "days")}.get(question, ("json",))
    heeded += ("runs",) if question in _ABOUT_A_RUN and question not in ("failing", "causes") else ()
    for option in ("runs", "days", "json"):
        if getattr(arguments, option) and option not in heeded:
            raise HistoryError(f"history {question}: --{option} says nothing to it: leave it out")


def _answer(arguments: Namespace) -> int:
    """A table, or JSON with `--json`. Having an answer or none is no failure."""
    question, words = arguments.question, arguments.what
    with _opened(arguments, make=False) as history:
        job = words.pop(0) if question in _ABOUT_A_JOB else ""
        about = [questions.run_named(history, name) for name in words or ["last"]]
        if question == "diff":
            found: Sequence[Any] = questions.diff(history, *about)
        elif job:
            found = _ABOUT_A_JOB[question](history, *about, job)
        else:
            found = _ABOUT_A_RUN[question](history, *about, min(arguments.runs or LAST, _ALL_RUNS))
    ids = [run.id for run in about]
    if arguments.json:
        told = {"question": question, "runs": ids, "answers": found}
        sys.stdout.write(msgspec.json.format(encode(told), indent=2).decode() + "\n")
        return 0
    sys.stdout.write(f"{question}, run {' and '.join(ids)}: {len(found) or 'none'}\n")
    if found:
        _print(found)
    return 0


def _import(arguments: Namespace) -> int:
    """Bring in run folders, results and JUnit files. A line tells what cannot be used: exit code 4."""
    brought = 0
    faults: list[str] = []
    known: list[str] = []
    usable = _usable(map(Path, arguments.what), faults)
    first = next(usable, None)
    if first is not None:  # else no database is made
        with _opened(arguments, make=True) as history:
            for path, results in itertools.chain([first], usable):
                try:
                    is_new = history.record(results)
                except ContentError as error:
                    faults.append(f"{path}: {error}")
                    continue
                brought += is_new
                if not is_new:
                    known.append(f"{path}: run {results.run} is part of a merged run, which is there")
    left_out = [*faults, *known]
    sys.stderr.write("".join(f"{unbroken(line)}\n" for line in left_out))
    if brought or known:
        sys.stdout.write(f"{counted(brought, 'run')} brought in, {len(left_out)} left out\n")
    return HistoryError.exit_code if faults else 0


def _usable(paths: Iterable[Path], faults: list[str]) -> Iterator[tuple[Path, RunResults]]:
    """The results that paths name, each with its path; why others cannot be used is added to `faults`."""
    for path in paths:
        try:
            for results in results_at(path):
                if isinstance(results, UserError):
                    faults.append(str(results))
                elif not is_run_id(results.run):
                    what = f"{results.run!r} is no id of a run"
                    faults.append(f"{path}: is no report of this pipeline: {what}; name one")
                else:
                    yield path, results
        except UserError as error:
            faults.append(str(error))


def _prune(arguments: Namespace) -> int:
    """Forget runs by age and number."""
    if arguments.days is None and arguments.runs is None:
        raise HistoryError("history prune: say what to keep: --days N, --runs N, or both")
    before = None
    if arguments.days is not None:
        before = datetime.now(timezone.utc) - timedelta(days=min(arguments.days, _ALL_DAYS))
    with _opened(arguments, make=False) as history:
        gone = history.prune(before, arguments.runs)
    sys.stdout.write(f"{counted(gone, 'run')} forgotten\n")
    return 0


def _opened(arguments: Namespace, *, make: bool) -> AbstractContextManager[History]:
    where = place(arguments.output, os.environ)
    if not (make or may_exist(where)):
        remedy = "name another --output, or bring runs in: python -m pipeline history import"
        usual = where == place(arguments.output, {})
        shown = arguments.output / FILE if usual else where
        raise HistoryError(f"{shown}: there is no history yet; {remedy} {arguments.output / 'runs'}")
    # Somebody waits for a command, and may interrupt it: forgetting many runs takes a server long.
    return open_history(where, tell, silence=LONGEST_STATEMENT + 1)


def _print(found: Sequence[Any]) -> None:
    """A row for each answer, a column for each of its facts. In a file names stay whole, to be found."""
    console = SizedConsole()
    names = [each.name for each in fields(found[0])]
    table = Table(*names, box=None, pad_edge=False)
    for one in found:
        table.add_row(*(Text(one_line(_cell(one, name))) for name in names))  # markup is not read
    if not console.is_terminal:
        table.width = console.measure(table, options=console.options.update(max_width=10_000)).maximum
    console.print(table, soft_wrap=not console.is_terminal)


def _cell(one: object, name: str) -> str:
    """A fact of an answer as text; seconds are written as the terminal of a run writes them."""
    fact = getattr(one, name)
    measured = getattr(one, "metric", "") == _SECONDS and name in _MEASURED
    return f"{fact:.1f}" if isinstance(fact, float) and (name == _SECONDS or measured) else _told(fact)


def _told(fact: object) -> str:
    """A fact of an answer as text."""
    if isinstance(fact, Ended):
        end = f"{fact.fingerprint or fact.state.value} in run {fact.run} of {short_commit(fact.commit)}"
        return f"{end}: {fact.message}" if fact.message else end
    if isinstance(fact, Mapping):
        return ", ".join(f"{count} {name}" for name, count in fact.items())
    if isinstance(fact, tuple):
        return ", ".join(map(_told, fact))
    if isinstance(fact, Enum):
        return str(fact.value)
    return "-" if fact is None else f"{fact:.6g}" if isinstance(fact, float) else str(fact)
