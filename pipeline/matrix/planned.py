"""Says how the geometry of a job is tiled, what that needs and costs, and what else was considered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from emulator.soc import SOCS
from kernels.choice import TOLD, Account
from kernels.cost import Rates, Work
from kernels.plan import PlanError
from pipeline.ground.memory import limits_of
from pipeline.ground.subject import subject_of
from pipeline.ground.words import closest, shown
from pipeline.matrix.expand import with_compared
from pipeline.matrix.schema import Matrix
from pipeline.matrix.select import FilterError


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
        raise FilterError(
            f"workload {subject.workload.name} gives no account of its plans; name a job of another"
        )
    packed = [f"packing: {words}"] if (words := subject.packing.words) else []
    free = replace(subject, plan_options={}).account if subject.plan_options else None
    own = _own_choice(account, free, limits_of(subject.soc).rates) if free else []
    return [f"{head}:", *(f"  {line}" for line in (*packed, *_lines(account, subject.soc), *own))]


def _own_choice(account: Account, free: Account, rates: Rates) -> list[str]:
    """What the planner would choose if nothing were written, in a line; none if it is the same."""
    cost, other = (_cycles_of(each, rates) for each in (account, free))
    facts = [f"{name}: {fact}" for name, fact in free.facts.items() if account.facts.get(name) != fact]
    return [f"the planner's own choice: {other / cost - 1:+.1%}: {'; '.join(facts)}"] if facts else []


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
    least = _cycles_of(account, limits_of(soc).rates)
    for other, cost in account.others[:TOLD]:
        yield f"also fits: {other}, {cost / least - 1:+.1%}"
    if account.refused:
        yield f"does not fit: {account.refused}"


def _cycles_of(account: Account, rates: Rates) -> float:
    """Cycles by which plans are compared: those of the first kernel."""
    return next(iter(account.works.values())).cycles(rates)


def _cycles(works: Mapping[str, Work], rates: Rates) -> Iterator[str]:
    for kernel, work in works.items():
        units = ", ".join(f"{unit} {cycles:.0f}" for unit, cycles in work.units(rates).items())
        yield f"estimated cycles of {kernel}: {work.cycles(rates):.0f}: {units}"
    first, *others = works
    for other in others:
        more = works[first].cycles(rates) / works[other].cycles(rates) - 1
        if more > 0:
            yield f"estimated: {first} takes {more:.1%} more than {other}"
