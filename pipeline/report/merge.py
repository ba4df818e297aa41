"""Merges several reports into one: totals are kept, and what is missing becomes an error."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import msgspec

from pipeline.commands.options import WITHIN
from pipeline.ground.results import Result
from pipeline.ground.words import counted
from pipeline.report.document import (
    ReportError,
    Suite,
    Totals,
    name_of,
    outcome,
    properties_of,
    publish,
    read,
    set_property,
    write_document,
)
from pipeline.report.parts import USUAL, Part, missing_among, read_parts, report_of_missing
from pipeline.report.reread import FactError, reread, state_of
from pipeline.report.results import beside, read_results, write_results
from pipeline.report.tellings import Chosen, choose, kept_lines, tellings_of, without_past_problems
from pipeline.run.states import exit_code

_OWN_FACTS = ("report.suites", "report.duplicates", "report.newest", "report.kept")
"""Properties that describe one document; a merged document gets its own."""

_UNSAID = {**USUAL, "run": "unknown"}
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
    reports, missing = read_parts(paths)
    if not reports:
        raise ReportError(f"nothing to merge: {'; '.join(missing.values()) or 'no report was given'}")
    missing.update(missing_among(reports, shards, within=within, newest=newest))
    if missing:
        reports.append(report_of_missing(missing))
    # Counted from the parts, so that a case missing from the file is noticed.
    told = tellings_of(reports)
    if newest:
        told = without_past_problems(told)
    chosen = {name: choose(tellings, newest=newest) for name, tellings in told.items()}
    cases = [case for each in chosen.values() for case in each.counts.cases]
    totals = Totals.of(map(outcome, cases))
    united = _united(reports, chosen)
    publish(out, lambda file: write_document(file, united, out.parent), totals)
    _write_results(out, chosen.values())
    duplicates = sum(each.doubled for each in chosen.values())
    outdated = tuple(line for each in chosen.values() if (line := each.line))
    kept = tuple(kept_lines(chosen.values()))
    return Merged(
        totals, duplicates, tuple(missing.values()), exit_code(map(state_of, cases)), outdated, kept
    )


def _write_results(out: Path, chosen: Iterable[Chosen]) -> None:
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


def _united(reports: Sequence[Part], chosen: Mapping[str, Chosen]) -> list[Suite]:
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
    suites: Sequence[ET.Element], chosen: Mapping[str, Chosen]
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
