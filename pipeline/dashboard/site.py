"""Writes the pages of a dashboard."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from glob import escape
from itertools import islice
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from pipeline.dashboard import words
from pipeline.dashboard.charts import TRENDS, draw_charts
from pipeline.dashboard.earlier import Earlier
from pipeline.dashboard.pictures import ProgramReport, maps_of, plans_of, report_of, ticks_of, timeline
from pipeline.diff import render
from pipeline.ground.files import destination
from pipeline.ground.results import DIAGNOSIS, OUTCOMES, REPRODUCE, Result
from pipeline.ground.words import counted
from pipeline.notify.checks import lines_of
from pipeline.report.cases import BODY_LIMIT, MOST_ATTACHED, headline
from pipeline.report.document import ReportError, writing
from pipeline.report.notices import notices
from pipeline.report.overview import MEANING, overview
from pipeline.report.results import RunResults
from pipeline.report.text import bounded, facts_of, likely, one_line, safe, short_commit
from pipeline.run.folders import began_at_all

if TYPE_CHECKING:  # imported when a page is written
    import jinja2

NAME = "dashboard"
"""The folder of a run's dashboard in the folder of the run."""

_HERE = Path(__file__).parent
_FIRST, _TIMELINE, _JOBS, _FILES = "index.html", "timeline.html", "jobs", "files"
_SCRIPT, _TABLE = "jobs.js", "jobs.csv"
_STATIC = _HERE / "static"
_NAMES = {_FIRST, _TIMELINE, _JOBS, _FILES, _SCRIPT, _TABLE, *(file.name for file in _STATIC.iterdir())}
"""What there can be in the folder of a dashboard, besides `TRENDS`."""

_MARK = '<meta name="generator" content="conv-pair-pipeline dashboard">'
"""What the first page of a dashboard has, and that of another site has not."""

_COPIED = (".png", ".txt", ".log", ".json")
"""Files of jobs that a dashboard elsewhere gets copies of. Arrays stay with the run."""

_REPORT = "report.json"
"""The emulator's report of a program, among the files of a stage."""

_AROUND = 4
"""Lines of a kernel that are shown before and after the one that is named."""

_PLACES = 4
"""Lines of kernels that are shown: the operator's, its callers', those of numbers that are wrong."""


@dataclass(frozen=True)
class Source:
    """Lines of a kernel, each with its number; `line` is the one that is named."""

    file: str
    line: int
    lines: Sequence[tuple[int, str]]


def write_dashboard(results: RunResults, target: Path, kept: Path | None, earlier: Earlier) -> None:
    """Write the dashboard of a run to a folder, in the place of an older dashboard.

    Files of jobs are under `kept`, the folder of the run, if it is there. If the dashboard is in it, it
    links them; else it gets copies of pictures and texts of jobs that did not pass.

    The older one stays until the new one is whole; what a killed writer left beside it is removed.

    Raises:
        ReportError: the folder holds something else, cannot be replaced, or cannot be written.
    """
    target, kept = destination(target), kept and destination(kept)
    if destination(Path()).is_relative_to(target):
        raise ReportError(f"{target}: is the current folder, or holds it: name another folder")
    made, aside = (target.with_name(f".{target.name}.dashboard-{secrets.token_hex(4)}") for _ in range(2))
    with writing(target):
        if target.exists() and not _is_dashboard(target):
            raise ReportError(f"{target}: is no dashboard, and not empty: name another folder")
        target.parent.mkdir(parents=True, exist_ok=True)
        with _held(target.parent) as alone:
            try:
                (made / _JOBS).mkdir(parents=True)
                _Site(results, made, target, kept, earlier).write()
                _replace(target, made, aside)
            finally:
                shutil.rmtree(made, ignore_errors=True)
            for left in target.parent.glob(f".{escape(target.name)}.dashboard-*") if alone() else ():
                shutil.rmtree(left, ignore_errors=True)


def _is_dashboard(folder: Path) -> bool:
    """Whether a folder is empty, or a dashboard with nothing else in it, such as a repository."""
    if not folder.is_dir():
        return False
    names = {path.name for path in folder.iterdir() if not fnmatch(path.name, TRENDS)}
    if not names:
        return True
    first = folder / _FIRST
    return names <= _NAMES and first.is_file() and _MARK in first.read_text("utf-8", "replace")


def _replace(target: Path, made: Path, aside: Path) -> None:
    """Put a new folder in the place of an old one, which is moved aside, and back if that fails."""
    try:
        if target.exists():
            target.rename(aside)
        made.rename(target)
    except BaseException as error:
        if not target.exists():
            with suppress(OSError):
                aside.rename(target)
        if isinstance(error, OSError) and error.errno == errno.EBUSY:
            raise ReportError(f"{target}: is a mount point, which stays: name a folder in it") from None
        raise
    shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def _held(folder: Path) -> Iterator[Callable[[], bool]]:
    """Tell others that a dashboard is written in a folder; yields what says whether nobody else does so."""
    descriptor = os.open(folder, os.O_RDONLY)

    def locked(how: int) -> bool:
        with suppress(OSError):  # others write, or the file system has no locks
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
            return True
        return False

    try:
        locked(fcntl.LOCK_SH)
        yield lambda: locked(fcntl.LOCK_EX)
    finally:
        os.close(descriptor)


@cache
def _templates() -> jinja2.Environment:
    import jinja2

    loader = jinja2.FileSystemLoader(_HERE / "templates")
    made = jinja2.Environment(
        loader=loader,
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(
        line=one_line,
        commit=short_commit,
        page=words.page_of,
        url=words.address,
        counted=counted,
        lasting=words.lasting,
    )
    made.globals.update(MARKS=words.MARKS, OUTCOMES=OUTCOMES, MEANING=MEANING, headline=headline, MARK=_MARK)
    return made


def _shown(value: Any) -> Any:
    """Nothing that a kernel printed leaves characters in a page that no page may have."""
    return safe(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


class _Site:
    def __init__(
        self, results: RunResults, made: Path, target: Path, kept: Path | None, earlier: Earlier
    ) -> None:
        self._results, self._made, self._earlier = results, made, earlier
        self._target, self._kept = target.absolute(), kept.absolute() if kept else None
        self._inside = self._kept is not None and self._target.is_relative_to(self._kept)

    def write(self) -> None:
        """Write all files."""
        run, jobs = self._results, self._results.jobs
        for file in sorted(_STATIC.iterdir()):
            shutil.copyfile(file, self._made / file.name)
        whole = overview(jobs)
        new = overview([one for one in jobs if words.is_new(one)]).broken
        old = overview([one for one in jobs if words.is_red(one) and not words.is_new(one)]).broken
        groups = (*new, *old)
        self._text(_SCRIPT, words.script_of(jobs, groups))
        self._text(_TABLE, words.table_of(jobs))
        rows, bars = timeline(jobs, run.started)
        shared = {"run": run, "earlier": self._earlier, "whole": whole}
        self._page(
            _FIRST,
            _FIRST,
            up="",
            new=list(enumerate(groups))[: len(new)],
            old=list(enumerate(groups))[len(new) :],
            notices=list(notices(jobs)),
            likely=likely,
            charts=draw_charts(self._made, self._earlier.nights, self._kept),
            **shared,
        )
        longest = max((bar.start + bar.seconds for bar in bars), default=0.0)
        drawn = {"rows": rows, "bars": bars, "longest": longest, "ticks": ticks_of(longest)}
        self._page(_TIMELINE, _TIMELINE, up="", **drawn, **shared)
        for one in jobs:
            page = f"{_JOBS}/{words.page_of(one.job.id)}"
            self._page(page, "job.html", up="../", **shared, **self._told(one))

    def _told(self, one: Result) -> dict[str, Any]:
        """What the page of a job says."""
        files = {stage.name: list(self._files(one, stage.artefacts)) for stage in one.stages}
        reports = list(self._reports(one))
        return {
            "one": one,
            "likely": likely(one.facts[DIAGNOSIS]) if DIAGNOSIS in one.facts else "",
            "again": one.facts.get(REPRODUCE, ""),
            "sources": _sources(one) if words.is_red(one) else [],
            "files": {"": list(self._files(one, one.artefacts)), **files},
            "plans": [plan for stage, report in reports for plan in plans_of(stage, report)],
            "maps": [found for stage, report in reports for found in maps_of(stage, report)],
            "facts_of": facts_of,
            "full": render.full,
            "bounded": lambda text: bounded(text, BODY_LIMIT),
            "strip": self._earlier.strips.get(one.job.id, ()),
            "red": self._earlier.red.get(one.job.id),
            "page_in": self._page_in,
        }

    def _page_in(self, run: str, job_id: str) -> str:
        """The address of the job's page in the dashboard of another run; empty if there is none."""
        if self._kept is None or not self._inside:
            return ""
        page = self._kept.parent / run / NAME / _JOBS / words.page_of(job_id)
        inside = page.is_file()
        return words.address(os.path.relpath(page, self._target / _JOBS)) if inside else ""

    def _files(self, one: Result, artefacts: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Names of the files that a job left, and their addresses from its page; pictures come first."""
        ordered = sorted(artefacts, key=lambda artefact: PurePath(artefact).suffix != ".png")
        for artefact in ordered[:MOST_ATTACHED]:
            path = self._found(artefact)
            if path is None or (not self._inside and not words.is_red(one)):
                continue
            if self._inside:
                yield path.name, words.address(os.path.relpath(path, self._target / _JOBS))
            elif self._kept and path.suffix in _COPIED:
                copied = Path(_FILES) / path.relative_to(self._kept)
                (self._made / copied).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, self._made / copied)
                yield path.name, words.address(f"../{copied}")

    def _found(self, artefact: str) -> Path | None:
        """A file of a job, without links or `..` in its path below the run's folder.

        None if it is gone, or not in that folder: a document may say anything.
        """
        if self._kept is None:
            return None
        with suppress(OSError, ValueError):
            path = (self._kept / artefact).resolve()
            if path.is_file():
                return self._kept / path.relative_to(self._kept.resolve())
        return None

    def _reports(self, one: Result) -> Iterator[tuple[str, ProgramReport]]:
        """The emulator's reports of a job's programs, each with the name of its stage."""
        for stage in one.stages:
            for artefact in stage.artefacts:
                if PurePath(artefact).name == _REPORT and (path := self._found(artefact)) is not None:
                    yield stage.name, report_of(path)

    def _page(self, name: str, template: str, **told: Any) -> None:
        self._text(name, _templates().get_template(template).render(told))

    def _text(self, name: str, text: str) -> None:
        (self._made / name).write_text(text, encoding="utf-8", newline="")


def _sources(one: Result) -> list[Source]:
    """The lines of kernels that a failure names, as the checkout that writes the dashboard has them."""
    found = []
    for file, line in islice(dict.fromkeys(lines_of(one, Path("/"))), _PLACES):
        path = Path("/") / file
        with suppress(OSError, UnicodeDecodeError):
            lines = list(enumerate(path.read_text(encoding="utf-8").splitlines(), 1))
            found.append(Source(path.name, line, lines[max(0, line - 1 - _AROUND) : line + _AROUND]))
    return found


def dashboard_of(results: RunResults, target: Path, kept: Path | None, where: str | Path) -> None:
    """Write a run's dashboard with what the history at `where` tells; raises as `write_dashboard`."""
    from pipeline.dashboard.earlier import earlier_of

    write_dashboard(results, target, kept, earlier_of(where, results.run))


def write_of_run(folder: Path, where: str | Path, tell: Callable[[str], object]) -> None:
    """Write the dashboard of a run that has just ended. What goes wrong is one line, and changes no run."""
    from pipeline.report.results import NAME as DOCUMENT
    from pipeline.report.results import read_results

    try:
        dashboard_of(read_results(folder / DOCUMENT), folder / NAME, folder, where)
    except (Exception, KeyboardInterrupt) as error:  # a Ctrl-C here too changes no run: it has ended
        said = str(error) if isinstance(error, ReportError) else f"{type(error).__name__}: {error}"
        remedy = f"write it again: python -m pipeline dashboard {folder}"
        if not began_at_all(folder):
            said, remedy = f"nothing of run {folder.name} could be kept", "begin a new run"
        tell(f"{one_line(f'dashboard: {said}')}; {remedy}")
