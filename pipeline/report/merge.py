"""Merges several reports into one: totals are kept, and what is missing becomes an error."""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ET
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import msgspec

from pipeline.commands.facts import SOURCES_DIGEST
from pipeline.commands.options import WITHIN
from pipeline.ground.jobs import Lane, State
from pipeline.ground.results import OUTCOMES, Outcome, Result
from pipeline.ground.settings import DECLARED, Replaces
from pipeline.ground.words import counted
from pipeline.matrix.durations import LONGEST
from pipeline.report.cases import RUN_SUITE
from pipeline.report.document import (
    ReportError,
    Suite,
    Totals,
    check,
    name_of,
    outcome,
    properties_of,
    publish,
    read,
    set_property,
    with_message,
    write_document,
)
from pipeline.report.reread import FactError, reread, state_of
from pipeline.report.results import beside, read_results, write_results
from pipeline.report.text import one_line, safe
from pipeline.run.folders import began, is_run_id
from pipeline.run.states import exit_code

MERGE_SUITE = "report.merge"
"""Suite and class name of the cases that say what is missing."""

SAME_EVERYWHERE = ("git", "division.compile", "division.run", "division.compare")
"""Run facts that must be the same in all reports that have them. If one differs, the reports are of different
nights, or the shards were divided by different records, so that some jobs may be in none of them."""

SOURCES = (SOURCES_DIGEST, "workload.")
"""What the names of facts that are digests of sources begin with. If a run was resumed with other sources,
the new digest counts, since all of its jobs ran again."""

PROBLEMS = f"{RUN_SUITE} problems"
"""The name of the case that reports faults of the pipeline itself."""

_OWN_FACTS = ("report.suites", "report.duplicates", "report.newest", "report.kept")
"""Properties that describe one document; a merged document gets its own."""

_SHARD = re.compile(r"\b([1-9][0-9]{0,2})/([1-9][0-9]{0,2})\b")
_WORST_LAST = (Outcome.PASSED, Outcome.SKIPPED, Outcome.ERROR, Outcome.FAILURE)
_USUAL = {each.name: each.text(each.default) for each in DECLARED}
"""What a report means that does not show a setting."""

_UNSAID = {**_USUAL, "run": "unknown"}
"""What a merged suite writes for a part that does not show a fact, if another part does."""


@dataclass(frozen=True)
class Merged:
    """What a merge found: the totals published, how many cases stood in several reports, what is missing.

    `outdated` says of which cases a newer run's better outcome counts, `kept` of which it does not, and why.
    `exit_code` is that of the run as the merged report tells it. As text: the totals, then what is outdated,
    what is kept, what is missing.
    """

    totals: Totals
    duplicates: int
    missing: tuple[str, ...]
    exit_code: int
    outdated: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    def __str__(self) -> str:
        doubled = f", {counted(self.duplicates, 'case')} in several reports" if self.duplicates else ""
        return "\n".join([f"{self.totals}{doubled}", *self.outdated, *self.kept, *self.missing])


@dataclass(frozen=True)
class _Report:
    path: Path
    root: ET.Element

    @property
    def facts(self) -> dict[str, str]:
        """The properties of all suites, each with all its values: those of a merged report may differ."""
        facts: dict[str, dict[str, None]] = {}
        for suite in self.root:
            for name, text in properties_of(suite).items():
                facts.setdefault(name, {}).update(dict.fromkeys(text.split("; ")))
        return {name: "; ".join(values) for name, values in facts.items()}

    def values(self, setting: str) -> set[str]:
        """The values of a setting: those of the suites that have facts of a run."""
        facts = [properties_of(suite) for suite in self.root if suite.get("name") != MERGE_SUITE]
        return {each.get(setting, _USUAL[setting]) for each in facts}


@dataclass(frozen=True)
class _Told:
    """A job as one report tells it: its own case, then those of its stages.

    `runs` are the ids of the runs that it can be of, the oldest first; none if one of them is unknown.
    `settings` are the values that each setting can have had.
    """

    cases: tuple[ET.Element, ...]
    runs: tuple[str, ...]
    settings: Mapping[str, tuple[str, ...]]
    report: _Report

    @property
    def judges(self) -> bool:
        """Whether it says something about the job, not only about the host or the run."""
        state = state_of(self.cases[0])
        return state is not State.SKIPPED and OUTCOMES[state].exit_code in (0, 1)

    @property
    def badness(self) -> list[tuple[int, bool]]:
        """A wrong kernel is worse than a job that was not judged, and of these exit code 1 than 6."""
        return sorted(map(_badness, self.cases), reverse=True)

    def newer(self, other: _Told) -> bool:
        """Whether it is certainly of a newer run."""
        return bool(self.runs and other.runs) and self.runs[0] > other.runs[-1]

    def lacks(self, other: _Told) -> str:
        """By which settings it may check less than the other; empty if it checks at least the same."""
        return ", ".join(
            f"{each.option} was {_listed(other.settings[each.name])}, is {_listed(self.settings[each.name])}"
            for each in DECLARED
            if not all(
                each.covers(now, then)
                for now in self.settings[each.name]
                for then in other.settings[each.name]
            )
        )

    def outdates(self, other: _Told) -> bool:
        """Whether it is certainly of a newer run, judges the job, and checks at least the same."""
        return self.judges and self.newer(other) and not self.lacks(other)

    def __str__(self) -> str:
        return f"{state_of(self.cases[0]).value} in run {self.runs[-1] if self.runs else 'unknown'}"


@dataclass(frozen=True)
class _Chosen:
    """A job as the merged report tells it: the telling that counts, and all `tellings`.

    `outdated` is the number of tellings that a newer run outdates. `kept` says why a better telling does not
    count that may be newer; empty if there is none.
    """

    counts: _Told
    tellings: Sequence[_Told]
    outdated: int
    kept: str

    @property
    def doubled(self) -> int:
        """How many cases stood in other reports too."""
        names = [name_of(case) for each in self.tellings for case in each.cases]
        return len(names) - len(set(names))

    @property
    def name(self) -> str:
        """The name of the job's own case."""
        return self.counts.cases[0].get("name", "")

    @property
    def line(self) -> str:
        """What a newer run changed; empty if it changed nothing for the better."""
        worst = max(self.tellings, key=lambda each: each.badness)
        if self.kept or max(worst.badness) <= max(self.counts.badness):
            return ""
        return f"{self.name}: {worst}, {self.counts}, which counts"


def merge(
    paths: Sequence[Path],
    out: Path,
    shards: int | None = None,
    *,
    within: float = WITHIN,
    newest: bool = False,
) -> Merged:
    """Merge reports of one run's parts and publish the result.

    Suites of one name become one. Of a job in several reports the worst telling stays, with its stages; with
    `newest` that of the newest run that judged it and checked at least the same. The suite properties
    `report.duplicates`, `report.newest` and `report.kept` count such cases. A report that is absent, broken
    or of another night (its run began more than `within` seconds before another), or that does not say when
    its run began, a suite that a report announces and lacks, a shard that no report holds: each is an error
    case. `shards` says how many shards there were; None takes it from the reports (`shard=2/3` in their run
    facts).

    Raises:
        ReportError: where none of the reports can be read or the result cannot be published.
    """
    reports, missing = _read_all(paths)
    if not reports:
        raise ReportError(f"nothing to merge: {'; '.join(missing.values()) or 'no report was given'}")
    for report in reports:
        missing.update(_lost_suites(report))
    missing.update(_missing_shards(reports, shards))
    missing.update(_other_nights(reports))
    missing.update(_ageless(reports, newest=newest))
    missing.update(_other_times(reports, within))
    if missing:
        reports.append(_missing_report(missing))
    # Counted from the parts, so that a case missing from the file is noticed.
    told = _told(reports)
    if newest:
        told = _without_past_problems(told)
    chosen = {name: _chosen(tellings, newest=newest) for name, tellings in told.items()}
    cases = [case for each in chosen.values() for case in each.counts.cases]
    totals = Totals.of(map(outcome, cases))
    united = _united(reports, chosen)
    publish(out, lambda file: write_document(file, united, out.parent), totals)
    _write_results(out, chosen.values())
    duplicates = sum(each.doubled for each in chosen.values())
    outdated = tuple(line for each in chosen.values() if (line := each.line))
    kept = tuple(_kept_lines(chosen.values()))
    return Merged(
        totals, duplicates, tuple(missing.values()), exit_code(map(state_of, cases)), outdated, kept
    )


def _write_results(out: Path, chosen: Iterable[_Chosen]) -> None:
    """Write the merged results beside the merged report, of each job as its run's own results tell it.

    Of a part without results beside it only what its report says is known. Parts that do not say of which
    run they are, which is an error in the merged report, have no results.

    Raises:
        FactError: a fact of a case has to be a number, and is none.
    """
    path = beside(out)
    try:
        merged = reread(read(out), out)
    except ReportError as error:
        path.unlink(missing_ok=True)
        if isinstance(error, FactError):
            raise
        return
    own: dict[Path, dict[str, Result]] = {}
    full: dict[str, Result] = {}
    for each in chosen:
        report = each.counts.report.path
        if report not in own:
            own[report] = _own_results(report, each.counts.runs)
        full |= {name: one for name, one in own[report].items() if name == each.name}
    jobs = tuple(full.get(job.job.id, job) for job in merged.jobs)
    try:
        write_results(path, msgspec.structs.replace(merged, jobs=jobs))
    except ReportError:
        with suppress(OSError):
            path.unlink()  # older ones say nothing of this report
        raise


def _own_results(report: Path, runs: Sequence[str]) -> dict[str, Result]:
    """The results beside a report by job; none if there are none, or if they are of another run."""
    try:
        results = read_results(beside(report))
    except ReportError:
        return {}
    if not {results.run, *results.parts} >= {*runs}:
        return {}
    # Two hosts have a device of one name each.
    return {one.job.id: replace(one, facts={"host": results.host, **one.facts}) for one in results.jobs}


def _told(reports: Sequence[_Report]) -> dict[str, list[_Told]]:
    """All tellings of each job, by the name of its own case."""
    names = {name_of(case) for report in reports for case in report.root.iter("testcase")}
    told: dict[str, list[_Told]] = {}
    for report in reports:
        for suite in report.root:
            jobs: dict[str, list[ET.Element]] = {}
            for case in suite.findall("testcase"):
                jobs.setdefault(_job_of(case, names), []).append(case)
            runs, settings = _runs_of(suite), _settings_of(suite)
            for name, cases in jobs.items():
                cases.sort(key=lambda case: name_of(case) != name)
                told.setdefault(name, []).append(_Told(tuple(cases), runs, settings, report))
    return told


def _job_of(case: ET.Element, names: Collection[str]) -> str:
    """The name of the case of the job that a case belongs to: in the lane `compare` stages have their own."""
    name = name_of(case)
    if not name.startswith(f"{Lane.COMPARE.value}."):
        return name
    above = itertools.accumulate(name.split("/"), "{}/{}".format)
    return next(each for each in above if each in names)


def _settings_of(suite: ET.Element) -> dict[str, tuple[str, ...]]:
    """The values of each setting: of a merged suite those of all parts, of a resumed run both."""
    facts = properties_of(suite)
    told = {name: [facts.get(name, usual), facts.get(f"resumed.{name}")] for name, usual in _USUAL.items()}
    return {
        name: tuple(value for text in texts if text is not None for value in text.split("; "))
        for name, texts in told.items()
    }


def _listed(values: Iterable[str]) -> str:
    return " or ".join(value if value not in ("", str(None)) else "not given" for value in values)


def _without_past_problems(told: Mapping[str, list[_Told]]) -> dict[str, list[_Told]]:
    """All tellings but those of problems of a run whose jobs have all been run anew."""
    jobs = {name: tellings for name, tellings in told.items() if name != PROBLEMS}
    valid = {
        id(each.report)
        for tellings in jobs.values()
        for each in tellings
        if not any(other.outdates(each) for other in tellings)
    }
    problems = [each for each in told.get(PROBLEMS, ()) if id(each.report) in valid]
    return {**jobs, **({PROBLEMS: problems} if problems else {})}


def _written_runs(suite: ET.Element) -> list[str]:
    """The ids of the suite's runs as they are written; of a merged suite there are several."""
    return properties_of(suite).get("run", "").split("; ")


def _runs_of(suite: ET.Element) -> tuple[str, ...]:
    written = _written_runs(suite)
    return tuple(sorted(written)) if all(map(is_run_id, written)) else ()


def _chosen(tellings: Sequence[_Told], *, newest: bool) -> _Chosen:
    valid = [each for each in tellings if not (newest and any(other.outdates(each) for other in tellings))]
    counts = max(valid, key=lambda each: each.badness)
    kept = ""
    if newest:
        better = (each for each in valid if each.judges and max(each.badness) < max(counts.badness))
        kept = next((why for each in better if (why := _why_kept(counts, each))), "")
    return _Chosen(counts, tellings, len(tellings) - len(valid), kept)


def _why_kept(counts: _Told, better: _Told) -> str:
    """Why the worse telling counts; empty if it is the newer one."""
    if counts.newer(better):
        return ""
    if not better.newer(counts):
        why = "the reports do not say which run is newer"
    else:
        why = f"the newer run may check less: {better.lacks(counts)}"
    return f"{counts} counts, not {better}: {why}"


def _kept_lines(chosen: Iterable[_Chosen]) -> Iterator[str]:
    """One line for each reason for which a telling counts that may be older."""
    names: dict[str, list[str]] = {}
    for each in chosen:
        if each.kept:
            names.setdefault(each.kept, []).append(each.name)
    for why, (first, *more) in names.items():
        others = f" and {counted(len(more), 'more job')}" if more else ""
        yield f"{first}{others}: {why}"


def _badness(case: ET.Element) -> tuple[int, bool]:
    return _WORST_LAST.index(outcome(case)), OUTCOMES[state_of(case)].exit_code == 1


def _read_all(paths: Iterable[Path]) -> tuple[list[_Report], dict[str, str]]:
    """The readable reports, and by case name what is wrong with the others."""
    reports, missing = [], {}
    for path in paths:
        try:
            report = _Report(path, read(path))
            if not check(report.root).tests:
                raise ReportError("holds no case, and so says nothing")
            reports.append(report)
        except ReportError as error:
            missing[f"report {path}"] = f"{path}: {str(error).removeprefix(f'{path}: ')}"
    return reports, missing


def _lost_suites(report: _Report) -> Iterator[tuple[str, str]]:
    here = {suite.get("name") for suite in report.root}
    for name in report.facts.get("report.suites", "").split():
        if name not in here:
            yield f"suite {name} of {report.path}", f"{report.path}: its suite {name} was lost"


def _missing_shards(reports: Sequence[_Report], expected: int | None) -> Iterator[tuple[str, str]]:
    """Shards that no report holds; instead, in one line, that there are other shards than there must be."""
    found = {shard: report for report in reports for shard in _SHARD.findall(report.facts.get("shard", ""))}
    told = {
        int(count): f"{report.path} is {'a whole run' if count == '1' else f'part {index} of {count}'}"
        for (index, count), report in found.items()
    }
    if len(told) > 1:
        yield "shards", f"{' and '.join(told.values())}; they cannot be merged"
    elif told and expected not in (None, *told):
        yield "shards", f"{told.popitem()[1]}, but --shards {expected} asks for other parts"
    elif count := next(iter(told), expected):
        for index in range(1, count + 1):
            if (str(index), str(count)) not in found:
                yield f"shard {index}/{count}", f"no report of shard {index}/{count}: its jobs are not judged"


def _other_nights(reports: Sequence[_Report]) -> Iterator[tuple[str, str]]:
    sources = {name for report in reports for name in report.facts if name.startswith(SOURCES)}
    for fact in (*SAME_EVERYWHERE, *sorted(sources)):
        values = {}
        for report in reports:
            again = f"resumed.{fact}" if fact in sources else fact
            if value := report.facts.get(again, report.facts.get(fact)):
                values[value] = report.path
        if len(values) > 1:
            listed = ", ".join(f"{value} ({path})" for value, path in values.items())
            message = f"the reports are not of one run: {fact} is {listed}"
            if fact.startswith("division."):
                message += "; all shards must be divided by the same recorded durations (docs/matrix.md)"
            yield f"fact {fact}", message
    for each in DECLARED:
        if each.replaces is Replaces.NEVER:
            values = {value: report.path for report in reports for value in report.values(each.name)}
            if len(values) > 1:
                listed = ", ".join(f"{_listed([value])} ({path})" for value, path in values.items())
                yield f"fact {each.name}", f"the reports do not belong together: {each.option} is {listed}"


def _ageless(reports: Sequence[_Report], *, newest: bool) -> Iterator[tuple[str, str]]:
    """Reports of which one cannot say how old they are, if there are others to compare them with."""
    for report in reports if len(reports) > 1 else ():
        written = [_written_runs(suite) for suite in report.root if suite.get("name") != MERGE_SUITE]
        if not all(is_run_id(run) for runs in written for run in runs):
            message = f"{report.path} does not say when its run began"
            yield f"age of {report.path}", message + ("; of its cases the worst counts" if newest else "")


def _other_times(reports: Sequence[_Report], within: float) -> Iterator[tuple[str, str]]:
    runs = sorted(
        (run, report.path) for report in reports for suite in report.root for run in _runs_of(suite)
    )
    if not runs:
        return
    (first, early), (last, late) = runs[0], runs[-1]
    if (apart := began(last) - began(first)) > (most := timedelta(seconds=within)):
        if apart.total_seconds() <= LONGEST:
            remedy = "--within TIME allows more"
        else:
            remedy = "--within allows a week at most: leave the older report out, or run its jobs again"
        message = (
            f"the reports are of runs that began {apart} apart, more than {most}: "
            f"{first} ({early}), {last} ({late}); {remedy}"
        )
        yield "runs", message


def _missing_report(missing: Mapping[str, str]) -> _Report:
    root = ET.Element("testsuites")
    suite = ET.SubElement(root, "testsuite", name=MERGE_SUITE)
    for name, message in missing.items():
        case = ET.SubElement(suite, "testcase", classname=MERGE_SUITE, name=one_line(name), time="0.000")
        error = ET.SubElement(case, "error", message=one_line(message), type=State.NO_RESULT.value)
        error.text = with_message(one_line(message), safe(message))
    return _Report(Path("missing"), root)


def _united(reports: Sequence[_Report], chosen: Mapping[str, _Chosen]) -> list[Suite]:
    by_name: dict[str, list[ET.Element]] = {}
    for report in reports:
        for suite in report.root:
            by_name.setdefault(suite.get("name", ""), []).append(suite)
    united = (_united_suite(suites, chosen) for suites in by_name.values())
    return [
        Suite(suite, partial(map, deepcopy, cases))  # copies, since bodies may be cut
        for suite, cases in united
        if cases
    ]


def _united_suite(
    suites: Sequence[ET.Element], chosen: Mapping[str, _Chosen]
) -> tuple[ET.Element, list[ET.Element]]:
    """Suites of one name as one: every case once, every fact with all its values."""
    united = ET.Element("testsuite", suites[0].attrib)
    facts: dict[str, list[str]] = {}
    told = [properties_of(suite) for suite in suites]
    unsaid = {name: value for name, value in _UNSAID.items() if any(name in said for said in told)}
    for said in told:
        for name, value in {**unsaid, **said}.items():
            if name not in _OWN_FACTS and value not in facts.setdefault(name, []):
                facts[name].append(value)
    for name, values in facts.items():
        set_property(united, name, "; ".join(values))
    names = dict.fromkeys(name_of(case) for suite in suites for case in suite.findall("testcase"))
    jobs = [chosen[name] for name in names if name in chosen]
    for name, count in (
        ("report.duplicates", sum(each.doubled for each in jobs)),
        ("report.newest", sum(len(each.counts.cases) for each in jobs if each.outdated)),
        ("report.kept", sum(len(each.counts.cases) for each in jobs if each.kept)),
    ):
        if count:
            set_property(united, name, str(count))
    return united, [case for each in jobs for case in each.counts.cases]
