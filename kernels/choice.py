"""How one plan is chosen among those that fit, and why others do not."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Generic, Protocol, TypeVar, cast

from golden.errors import UserError
from golden.geometry import C0
from kernels.cost import Rates, Work

TOLD = 5
"""So many plans beside the best are told."""

_NEAR = 1.01
"""By which factor a plan with equal bands may be dearer than the cheapest."""


class PlanError(UserError):
    """A geometry cannot be tiled; the message names the rule and the numbers.

    `ratio` says by which factor the memory that is short most is exceeded, or what img2col addresses;
    higher bands exceed it by no less. It is infinite for another rule. `option` says which option of the plan
    breaks the rule by itself, if one does.
    """

    def __init__(self, message: str, ratio: float = inf, option: str = "") -> None:
        super().__init__(message)
        self.ratio = ratio
        self.option = option


@dataclass(frozen=True)
class Use:
    """What a plan needs of a memory, in bytes: its parts by name, and the bytes that there are."""

    memory: str
    parts: tuple[tuple[str, int], ...]
    limit: int

    @property
    def needed(self) -> int:
        """Bytes that are needed."""
        return sum(size for _, size in self.parts)


def check_memories(what: str, uses: Sequence[Use]) -> None:
    """Refuse a plan that needs more of a memory than there is.

    Raises:
        PlanError: the message names `what`, the memory that is short most, the bytes and what they are for.
    """
    for use in uses:
        if use.needed > use.limit:
            worst = max(uses, key=lambda one: one.needed / one.limit)
            parts = " + ".join(f"{size} ({name})" for name, size in worst.parts)
            raise PlanError(
                f"{what} need {worst.needed} B of {worst.memory}, which has {worst.limit}: "
                f"{worst.needed - worst.limit} too many: {parts}",
                worst.needed / worst.limit,
            )


@dataclass(frozen=True)
class Streams:
    """What L1 does not hold throughout a band: filters come in by pieces, x and mid by C1 planes."""

    filters: bool = False
    x: bool = False
    mid: bool = False

    def in_words(self, band_rows: int) -> str:
        """A plan in bands of so many rows, in short."""
        maps = " and ".join(name for name, by_planes in (("x", self.x), ("mid", self.mid)) if by_planes)
        return (
            f"bands of {band_rows} row{'s' * (band_rows != 1)}{', filters streamed' if self.filters else ''}"
            f"{f', {maps} by planes' if maps else ''}"
        )


ENDLESS = 2**60
"""Bytes of a memory that holds everything."""

RESIDENT = Streams()
STREAMED = Streams(filters=True)


@dataclass(frozen=True)
class Account:
    """A plan in words and numbers.

    Attributes:
        facts: what it is, by name.
        uses: what it needs of each memory.
        works: the work of each kernel, by its name.
        others: the other plans that fit, in words, each with its cycles; the cheapest first.
        refused: why the nearest of those that do not fit does not; empty if all do.
    """

    facts: Mapping[str, str]
    uses: tuple[Use, ...]
    works: Mapping[str, Work]
    others: tuple[tuple[str, float], ...]
    refused: str


class Banded(Protocol):
    """A plan in bands of `band_rows` output rows."""

    @property
    def band_rows(self) -> int:
        """Output rows of every band but a shorter last one."""

    @property
    def streams(self) -> Streams:
        """What L1 does not hold throughout a band."""

    @property
    def work(self) -> Work:
        """What it moves and multiplies."""


BandedPlan = TypeVar("BandedPlan", bound=Banded)


@dataclass(frozen=True)
class Considered(Generic[BandedPlan]):
    """The plans of a geometry: the `best`, those found, and why the nearest of the others does not fit."""

    best: BandedPlan
    fitting: tuple[BandedPlan, ...]
    refused: PlanError | None

    def others(self, rates: Rates) -> tuple[tuple[str, float], ...]:
        """The plans that fit but the best, in words, each with its cycles; the cheapest first."""
        costs = {str(plan): plan.work.cycles(rates) for plan in self.fitting if plan is not self.best}
        return tuple(sorted(costs.items(), key=lambda item: item[1]))


class Shapes(Protocol):
    """A geometry whose output is cut into bands of rows."""

    @property
    def out_height(self) -> int:
        """Rows of the output."""


Geo = TypeVar("Geo", bound=Shapes)


@dataclass(frozen=True)
class Family(Generic[Geo, BandedPlan]):
    """How geometries of a kind are tiled.

    Attributes:
        tiled: makes the plan of a geometry for bands of a number of rows; raises PlanError.
        ways: what L1 may not hold throughout a band.
        least: cycles that no plan with bands of a number of rows undercuts.
        sizes: the fields of a geometry of which smaller ones are tried if no plan fits.
    """

    tiled: Callable[[Geo, int, Streams], BandedPlan]
    ways: Callable[[Geo], Iterable[Streams]]
    least: Callable[[Geo, int, Streams], float]
    sizes: tuple[str, ...]


def search(
    geometry: Geo,
    rates: Rates,
    family: Family[Geo, BandedPlan],
    roomy: Family[Geo, BandedPlan],
    band_rows: int | None,
    told: int,
) -> Considered[BandedPlan]:
    """Find the cheapest plan of a geometry, of bands of any height and of all ways.

    Plans are made in the order of what they take at least, until no further one can be among the cheapest.

    Args:
        geometry: what to tile.
        rates: by which plans are compared.
        family: how plans are made.
        roomy: how they would be if L1 held everything.
        band_rows: output rows of a band, if only such plans are wanted.
        told: how many others are wanted beside the best one.

    Raises:
        PlanError: no plan fits. The message is about the rule that no plan escapes, however much L1 held; if
            there is none, about the plan that exceeds a memory by the smallest factor. It says which smaller
            geometry fits.
    """
    possible: list[tuple[float, int, int, Streams]] = []
    refused: list[PlanError] = []
    for number, streams in enumerate(family.ways(geometry)):
        heights, error = _heights(geometry, family, band_rows, streams)
        refused += [error] if error else []
        possible += [(family.least(geometry, rows, streams), number, -rows, streams) for rows in heights]
    found: list[BandedPlan] = []
    costs: list[float] = []
    for least, _, rows, streams in sorted(possible, key=lambda each: each[:3]):
        if len(costs) > told and least > costs[told]:
            if least > costs[0] * _NEAR:
                break
            if geometry.out_height % -rows:
                continue
        try:
            plan = family.tiled(geometry, -rows, streams)
        except PlanError as error:
            refused.append(error)
        else:
            found.append(plan)
            insort(costs, plan.work.cycles(rates))
    nearest = min(refused, key=lambda error: error.ratio, default=None)
    if found:
        return Considered(cheapest(geometry.out_height, found, rates), tuple(found), nearest)
    rules = [_why_none(geometry, roomy, band_rows, streams) for streams in roomy.ways(geometry)]
    if all(rules):
        nearest = min((rule for rule in rules if rule), key=lambda error: error.ratio)
    assert nearest is not None
    raise PlanError(
        f"{nearest}{_what_fits(geometry, family, band_rows)}", nearest.ratio, option=nearest.option
    )


def _heights(
    geometry: Geo, family: Family[Geo, BandedPlan], band_rows: int | None, streams: Streams
) -> tuple[Sequence[int], PlanError | None]:
    """The heights of bands that memories hold, and why the next is none; higher bands need no less."""
    if band_rows is not None:
        return [band_rows], None
    fits, short, why = 0, geometry.out_height + 1, None
    rows = 1
    while short - fits > 1:
        if (error := _short(geometry, family, rows, streams)) is None:
            fits, rows = rows, min(2 * rows, (rows + short) // 2)
        else:
            short, why = rows, error
            rows = (fits + short) // 2
    return range(1, fits + 1), why


def _short(geometry: Geo, family: Family[Geo, BandedPlan], rows: int, streams: Streams) -> PlanError | None:
    """Why a memory is too small for bands of a height, if one is."""
    try:
        family.tiled(geometry, rows, streams)
    except PlanError as error:
        return error if error.ratio < inf else None
    return None


def _what_fits(geometry: Geo, family: Family[Geo, BandedPlan], band_rows: int | None) -> str:
    """The nearest geometry that fits, in words: of all that differ in one field, the least reduced one."""

    def fits(name: str, value: int) -> bool:
        try:
            smaller = replace(cast(Any, geometry), **{name: value})
        except ValueError:
            return False
        ways = family.ways(smaller)
        return any(_why_none(smaller, family, band_rows, streams) is None for streams in ways)

    nearest = []
    for name in family.sizes:
        now = getattr(geometry, name)
        unit = C0 if now % C0 == 0 else 1
        low, high = 0, now // unit  # low fits, or is none; high does not
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(name, middle * unit) else (low, middle)
        if low:
            nearest.append((low * unit / now, name, low * unit))
    if not nearest:
        return ""
    _, name, value = max(nearest)
    return f"; with {name} {value} it fits"


def _why_none(
    geometry: Geo, family: Family[Geo, BandedPlan], band_rows: int | None, streams: Streams
) -> PlanError | None:
    """Why no plan of bands of any height is possible; None if one is."""
    errors = []
    for rows in range(1, geometry.out_height + 1) if band_rows is None else [band_rows]:
        try:
            family.tiled(geometry, rows, streams)
        except PlanError as error:
            errors.append(error)
            if error.ratio < inf:
                break
        else:
            return None
    return min(errors, key=lambda error: error.ratio)


def cheapest(out_height: int, plans: Sequence[BandedPlan], rates: Rates) -> BandedPlan:
    """The plan with the fewest cycles of all.

    One whose bands are all equal is preferred if it takes at most 1 % more. Of equal ones the highest bands
    are taken.
    """
    cost = {id(plan): plan.work.cycles(rates) for plan in plans}
    least = min(cost.values()) * _NEAR
    near = [plan for plan in plans if cost[id(plan)] <= least and out_height % plan.band_rows == 0]
    return min(near or plans, key=lambda plan: (cost[id(plan)], -plan.band_rows))
