"""Every fault against every profile: is it detected, and does the diagnosis name it?

`python -m pipeline.faults.matrix` injects each fault of the catalogue in jobs of the device lane, as `run
--inject` does, and prints for each geometry which profiles detect it and what the diagnosis ranks
first. Clean runs are part of it: they must find nothing.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby
from pathlib import Path

from golden.errors import UserError
from pipeline.diff.diagnosis import Diagnosis
from pipeline.ground.jobs import Job, Lane, State
from pipeline.ground.results import JobContext
from pipeline.ground.settings import Settings
from pipeline.ground.streams import through_streams
from pipeline.ground.subject import subject_of, workload_of
from pipeline.ground.words import counted, unbroken
from pipeline.matrix.expand import expand, settled
from pipeline.matrix.load import load
from pipeline.matrix.select import Filters, select
from pipeline.work.comparison import comparison
from pipeline.work.stages import stages_of
from workloads.base import Workload
from workloads.faults import FAULTS, Fault, can_show, fault_named, no_place

FIRST_RIGHT = 0.95
"""Least share of detected cases in which the fault is in the class of hypotheses that is ranked first."""

_RANKS = 3
_LARGE = ("mc62", "conv-144x112")


class NothingToInjectError(UserError):
    """No job that is selected can have a fault."""


@dataclass(frozen=True)
class Case:
    """One fault in one job (`fault` empty: none): how it ended, and what the diagnosis names, by rank."""

    fault: str
    profile: str
    state: State
    message: str
    ranks: tuple[tuple[str, ...], ...] = ()

    @property
    def rank(self) -> int:
        """Rank of the class that holds the fault, from 1; 0 where none does."""
        return next((rank for rank, names in enumerate(self.ranks, 1) if self.fault in names), 0)


@dataclass(frozen=True)
class Row:
    """One fault (empty: none) in one geometry: why it cannot show there, or its case in each profile."""

    geometry: str
    fault: str
    reason: str
    cases: tuple[Case, ...]

    @property
    def detected(self) -> tuple[Case, ...]:
        """Cases that did not pass; those that were skipped, where the fault changes nothing, do not count."""
        return tuple(case for case in self.cases if case.state not in (State.PASSED, State.SKIPPED))

    @property
    def diagnosed(self) -> tuple[Case, ...]:
        """Cases that gave a wrong output; the others were refused before they gave one."""
        return tuple(case for case in self.cases if case.state is State.MISMATCH)


def run_rows(jobs: Sequence[Job], faults: Sequence[str], folder: Path, cache: Path) -> Iterator[Row]:
    """The rows of each geometry: the one without a fault, then one for each fault.

    Args:
        jobs: of the device lane, on the emulator.
        faults: which to inject.
        folder: scratch; removed after each case.
        cache: of goldens.
    """
    for name, group in groupby(jobs, key=lambda job: job.geometry_name):
        of_geometry = list(group)
        for fault in ("", *faults):
            reason = _never_shows(FAULTS[fault], of_geometry[0]) if fault else ""
            cases = () if reason else tuple(_case(job, fault, folder, cache) for job in of_geometry)
            yield Row(name, fault, reason, cases)


def _never_shows(fault: Fault, job: Job) -> str:
    """Why a fault has no place in any program of a kernel, or cannot show there; empty where it can."""
    subject = subject_of(job)
    programs = subject.workload.programs_of(job.kernel)
    forms = {program: subject.form(program) for program in programs}
    reasons = [
        no_place(fault, form) or can_show(fault, form) if form else f"the form of {program} is not described"
        for program, form in forms.items()
    ]
    return reasons[-1] if all(reasons) else ""


def _case(job: Job, fault: str, folder: Path, cache: Path) -> Case:
    """The state is that of the first stage that did not pass, the diagnosis that of y."""
    try:
        work = comparison(job, JobContext(folder, None, cache, Settings(inject=fault)))
        planned = stages_of(job, work.subject.workload, "all")
        if refused := work.admit(planned):
            return Case(fault, str(job.profile), State.SKIPPED, refused)
        stages = [work.run(stage) for stage in planned]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    wrong = next((stage for stage in stages if stage.state is not State.PASSED), stages[-1])
    of_y = work.diagnoses.get(stages[-1].name, Diagnosis())
    names = tuple(finding.hypotheses for finding in of_y.findings)
    return Case(fault, str(job.profile), wrong.state, wrong.message, names)


def table(row: Row) -> str:
    """A row as a line: the fault, the profiles that detect it, what is ranked first."""
    head, all_of_them = f"{row.fault:<28}", len(row.cases)
    if row.reason:
        return f"{head} cannot show: {row.reason}"
    if not row.detected:
        return f"{head} NOT DETECTED by any of {all_of_them} profiles"
    found = len(row.detected)
    by = "all" if found == all_of_them else " ".join(case.profile for case in row.detected)
    parts = [f"{head} detected {found}/{all_of_them} ({by})"]
    refused = [case for case in row.detected if case.state is not State.MISMATCH]
    if refused:
        parts.append(f"refused with {refused[0].state.value}: {refused[0].message}")
    if row.diagnosed:
        first = sum(case.rank == 1 for case in row.diagnosed)
        parts.append(f"first-ranked right {first}/{len(row.diagnosed)}")
        parts.extend(_named(case) for case in row.diagnosed if case.rank != 1 or len(case.ranks[0]) > 1)
    return "; ".join(parts)


def _named(case: Case) -> str:
    """What the diagnosis of a case names, if that is not the fault alone."""
    if not case.ranks:
        return f"{case.profile}: unexplained"
    rank = "" if case.rank == 1 else f" (rank {case.rank or 'none'})"
    return f"{case.profile}: {' = '.join(case.ranks[0])}{rank}"


class Totals:
    """The totals of all rows."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = [row for row in rows if row.fault]
        self._shown = [row for row in self._rows if not row.reason]
        self._clean = [case for row in rows if not row.fault for case in row.cases]
        self._cases = [case for row in self._rows for case in row.diagnosed]
        self.missed = [row for row in self._shown if not row.detected]
        """Rows of faults that can show and were not detected."""
        self.false_positives = [case for case in self._clean if case.state is not State.PASSED or case.ranks]
        """Cases without a fault that did not pass."""

    def _right(self, rank: int) -> int:
        """How many cases have their fault among so many ranks."""
        return sum(0 < case.rank <= rank for case in self._cases)

    @property
    def lines(self) -> tuple[str, ...]:
        """The counts, and the faults that were not detected."""
        shown, diagnosed = len(self._shown), len(self._cases)
        refused = sum(len(row.detected) - len(row.diagnosed) for row in self._rows)
        alone = sum(case.rank == 1 and len(set(case.ranks[0])) == 1 for case in self._cases)
        return (
            f"{len(self._rows)} faults x geometries: {len(self._rows) - shown} cannot show, "
            f"{shown - len(self.missed)} of the other {shown} detected by at least one profile",
            *(f"  not detected: {row.fault} in {row.geometry}" for row in self.missed),
            f"{counted(diagnosed, 'mismatch', 'mismatches')} diagnosed: "
            f"first-ranked right {_share(self._right(1), diagnosed)} (alone {_share(alone, diagnosed)}), "
            f"in the first {_RANKS} {_share(self._right(_RANKS), diagnosed)}; "
            f"{counted(refused, 'case')} refused by the emulator",
            f"{counted(len(self._clean), 'clean run')}: {len(self.false_positives)} with a finding",
        )

    @property
    def good(self) -> bool:
        """Whether every goal is met."""
        diagnosed = len(self._cases)
        named = self._right(1) >= FIRST_RIGHT * diagnosed and self._right(_RANKS) == diagnosed
        return named and not self.missed and not self.false_positives


def _share(part: int, whole: int) -> str:
    return f"{part}/{whole} = {100 * part / whole:.1f} %" if whole else "0/0"


def main(arguments: Sequence[str], write: Callable[[str], object]) -> int:
    """Print the matrix; gives 0 if every goal is met, 1 if not, else the code of the user's mistake."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.faults.matrix", description=__doc__)
    for name in ("geometry", "profile", "fault"):
        parser.add_argument(
            f"--{name}", action="append", default=[], metavar="NAME", help=f"only this {name}"
        )
    parser.add_argument("--platform", default="emu-a2a3", metavar="NAME")
    parser.add_argument(
        "--kernel",
        default="",
        metavar="NAME",
        help="the kernel (default: the first of each workload whose programs all have a form)",
    )
    parser.add_argument("--output", type=Path, default=Path("out"), metavar="DIR")
    options = parser.parse_args(arguments)
    output, rows = options.output.absolute(), []
    try:
        jobs = _jobs(options)
        faults = [fault_named(name).id for name in options.fault] or list(FAULTS)
        for row in run_rows(jobs, faults, output / "faults", output / "goldens"):
            write(f"  {table(row)}\n" if row.fault else f"\n{row.geometry}\n")
            rows.append(row)
    except UserError as error:
        sys.stderr.write(f"{unbroken(str(error))}\n")
        return error.exit_code
    totals = Totals(rows)
    write("\n" + "\n".join(totals.lines) + "\n")
    return 0 if totals.good else 1


def _jobs(options: argparse.Namespace) -> list[Job]:
    """The device lane's jobs, by default of every geometry but the large ones, `@nightly` settled.

    Raises:
        NothingToInjectError: no job has a kernel that a fault could be in.
    """
    today = date.today()
    filters = Filters(
        geometries=tuple(options.geometry),
        platforms=(options.platform,),
        kernels=(options.kernel,) if options.kernel else (),
        profiles=tuple(options.profile),
    )
    chosen = select(expand(load([Path("matrix.yaml")]), today), [Lane.DEVICE], filters)
    jobs = [
        settled(job, today)
        for job in chosen
        if (options.geometry or job.geometry_name not in _LARGE)
        and job.platform.backend == "emulator"
        and job.kernel == (options.kernel or _first_described(workload_of(job)))
        and workload_of(job).faults is not None
    ]
    if not jobs:
        raise NothingToInjectError(
            "no job is left: choose a geometry of a workload that has a fault model, on an emulator platform"
        )
    return jobs


def _first_described(workload: Workload) -> str:
    """The first kernel of a workload whose programs all have a form; empty where there is none."""
    described = {program.name for program in workload.programs if program.form is not None}
    return next((kernel.name for kernel in workload.kernels if described.issuperset(kernel.programs)), "")


if __name__ == "__main__":
    sys.exit(through_streams(lambda: main(sys.argv[1:], sys.stdout.write)))
