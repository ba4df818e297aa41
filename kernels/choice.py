"""How one plan is chosen among those that fit, and why others do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Generic, Protocol, TypeVar, cast

from golden.errors import UserError
from golden.geometry import C0
from kernels.cost import Rates, Work

_NEAR = 1.01
"""By which factor a plan with equal bands may be dearer than the cheapest."""


class PlanError(UserError):
    """A geometry cannot be tiled; the message names the rule and the numbers.

    `ratio` says by which factor the memory that is short most is exceeded, infinite for another rule.
    """

    def __init__(self, message: str, ratio: float = inf) -> None:
        super().__init__(message)
        self.ratio = ratio


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
    def sliced(self) -> bool:
        """Whether a filter comes in by slices of K, which is the last resort."""

    @property
    def work(self) -> Work:
        """What it moves and multiplies."""


BandedPlan = TypeVar("BandedPlan", bound=Banded)


@dataclass(frozen=True)
class Considered(Generic[BandedPlan]):
    """The plans of a geometry: the `best`, all that fit, and why the nearest of the others does not."""

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
Tiled = Callable[[Geo, int, bool], BandedPlan]
"""Makes the plan of a geometry for bands of a number of rows, streamed or not; raises PlanError."""


def search(
    geometry: Geo, rates: Rates, tiled: Tiled[Geo, BandedPlan], band_rows: int | None, fields: Sequence[str]
) -> Considered[BandedPlan]:
    """Try all plans of a geometry.

    Args:
        geometry: what to tile.
        rates: by which plans are compared.
        tiled: makes one plan.
        band_rows: output rows of a band, if only such plans are wanted.
        fields: the geometry's sizes, of which smaller ones are tried if no plan fits.

    Raises:
        PlanError: no plan fits. The message is about the plan that exceeds a memory by the smallest factor,
            or about the rule that all break; it says which smaller geometry fits.
    """
    found: list[BandedPlan] = []
    refused: list[PlanError] = []
    for rows, streamed in _tried(geometry, band_rows):
        try:
            found.append(tiled(geometry, rows, streamed))
        except PlanError as error:
            refused.append(error)
    nearest = min(refused, key=lambda error: error.ratio, default=None)
    if found:
        found = [plan for plan in found if not plan.sliced] or found
        return Considered(cheapest(geometry.out_height, found, rates), tuple(found), nearest)
    assert nearest is not None
    raise PlanError(f"{nearest}{_what_fits(geometry, tiled, band_rows, fields)}", nearest.ratio)


def _tried(geometry: Shapes, band_rows: int | None) -> Iterator[tuple[int, bool]]:
    heights = range(1, geometry.out_height + 1) if band_rows is None else [band_rows]
    return ((rows, streamed) for streamed in (False, True) for rows in heights)


def _what_fits(
    geometry: Geo, tiled: Tiled[Geo, BandedPlan], band_rows: int | None, fields: Sequence[str]
) -> str:
    """The nearest geometry that fits, in words: of all that differ in one field, the least reduced one."""

    def fits(name: str, value: int) -> bool:
        try:
            smaller = replace(cast(Any, geometry), **{name: value})
        except ValueError:
            return False
        for rows, streamed in _tried(smaller, band_rows):
            try:
                tiled(smaller, rows, streamed)
            except PlanError:
                continue
            return True
        return False

    nearest = []
    for name in fields:
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


def cheapest(out_height: int, plans: Sequence[BandedPlan], rates: Rates) -> BandedPlan:
    """The plan with the fewest cycles of all.

    One whose bands are all equal is preferred if it takes at most 1 % more. Of equal ones the highest bands
    are taken.
    """
    cost = {id(plan): plan.work.cycles(rates) for plan in plans}
    least = min(cost.values()) * _NEAR
    near = [plan for plan in plans if cost[id(plan)] <= least and out_height % plan.band_rows == 0]
    return min(near or plans, key=lambda plan: (cost[id(plan)], -plan.band_rows))
