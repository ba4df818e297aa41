"""Says how the geometry of a job is tiled, what that needs and costs, and what else was considered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from emulator.soc import SOCS
from kernels.choice import Account
from kernels.cost import Rates, Work
from kernels.plan import PlanError
from pipeline.ground.memory import limits_of
from pipeline.ground.subject import subject_of
from pipeline.ground.words import closest, shown
from pipeline.matrix.expand import with_compared
from pipeline.matrix.schema import Matrix
from pipeline.matrix.select import FilterError

_OTHERS = 5
"""The most other plans that are told."""


def plan_of(matrix: Matrix, job_id: str) -> list[str]:
    """Return the plan of a job, of the plan of jobs or taken out of it, in lines.

    Raises:
        FilterError: no line makes such a job, or its workload gives no account of its plans.
        WorkloadError: its workload cannot be loaded.
    """
    made = {job.id: job for job, _ in with_compared(matrix)}
    if job_id not in made:
        raise FilterError(f"no line makes job `{shown(job_id)}`; {closest(job_id, made)}")
    job = made[job_id]
    subject = subject_of(job)
    head = f"{job.geometry_name} on {subject.soc}"
    try:
        account = subject.account
    except PlanError as error:
        return [f"{head}: cannot be tiled: {error}"]
    if account is None:
        raise FilterError(f"workload {subject.workload.name} gives no account of its plans")
    packed = [f"packing: {words}"] if (words := subject.packing.words) else []
    return [f"{head}:", *(f"  {line}" for line in (*packed, *_lines(account, subject.soc)))]


def _lines(account: Account, soc: str) -> Iterator[str]:
    for name, fact in account.facts.items():
        yield f"{name}: {fact}"
    for use in account.uses:
        parts = " + ".join(f"{size} ({name})" for name, size in use.parts)
        yield f"{use.memory}: {use.needed} of {use.limit} B: {parts}"
    if SOCS[soc].rates is None:
        yield f"estimated cycles: unavailable: {soc} has no public cost model; all bytes count the same"
    else:
        yield from _cycles(account.works, limits_of(soc).rates)
    least = next(iter(account.works.values())).cycles(limits_of(soc).rates)
    for other, cost in account.others[:_OTHERS]:
        yield f"also fits: {other}, {cost / least - 1:+.1%}"
    if len(account.others) > _OTHERS:
        yield f"also fit: {len(account.others) - _OTHERS} dearer ones"
    if account.refused:
        yield f"does not fit: {account.refused}"


def _cycles(works: Mapping[str, Work], rates: Rates) -> Iterator[str]:
    for kernel, work in works.items():
        units = ", ".join(f"{unit} {cycles:.0f}" for unit, cycles in work.units(rates).items())
        yield f"estimated cycles of {kernel}: {work.cycles(rates):.0f}: {units}"
    first, *others = works
    for other in others:
        more = works[first].cycles(rates) / works[other].cycles(rates) - 1
        if more > 0:
            yield f"estimated: {first} takes {more:.1%} more than {other}"
