"""How one plan is chosen among those that fit, and why others do not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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

    `ratio` says by which factor the memory that is short most is exceeded, infinite for another rule;
    `option` which option of the plan breaks it by itself, if one does.
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
    """What L1 does not hold throughout a band: filters come in by pieces, x and mid by C1 planes.

    If `whole` is true, filters come in by blocks of whole K only, for ACC tiles as a resident plan has them.
    """

    filters: bool = False
    x: bool = False
    mid: bool = False
    whole: bool = False

    def in_words(self, band_rows: int) -> str:
        """A plan in bands of so many rows, in short."""
        maps = " and ".join(name for name, by_planes in (("x", self.x), ("mid", self.mid)) if by_planes)
        return (
            f"bands of {band_rows} rows{', filters streamed' if self.filters else ''}"
            f"{f', {maps} by planes' if maps else ''}"
        )


RESIDENT = Streams()
STREAMED = Streams(filters=True)
WHOLE_BLOCKS = Streams(filters=True, whole=True)


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
Tiled = Callable[[Geo, int, Streams], BandedPlan]
"""Makes the plan of a geometry for bands of a number of rows; raises PlanError."""
Deeper = Callable[[Geo], Iterable[Streams]]
"""How the maps of a geometry can come in by planes."""


def search(
    geometry: Geo,
    rates: Rates,
    tiled: Tiled[Geo, BandedPlan],
    band_rows: int | None,
    fields: Sequence[str],
    deeper: Deeper[Geo],
) -> Considered[BandedPlan]:
    """Try all plans of a geometry.

    Plans with filters in L1 throughout are compared with those that stream whole blocks, which have ACC tiles
    of the same kind. If a streamed one is the best, the cheapest of those is taken with the ACC tiles that
    are cheapest for each. Other plans are tried only if none of these fits.

    Args:
        geometry: what to tile.
        rates: by which plans are compared.
        tiled: makes one plan.
        band_rows: output rows of a band, if only such plans are wanted.
        fields: the geometry's sizes, of which smaller ones are tried if no plan fits.
        deeper: how maps can come in by planes.

    Raises:
        PlanError: no plan fits. The message is about the plan that exceeds a memory by the smallest factor,
            or about the rule that all break; it says which smaller geometry fits.
    """
    found: list[BandedPlan] = []
    refused: list[PlanError] = []
    for ways in ((RESIDENT, WHOLE_BLOCKS), (STREAMED, *deeper(geometry))):
        for each in () if found else _tried(geometry, tiled, band_rows, ways):
            if isinstance(each, PlanError):
                refused.append(each)
            else:
                found.append(each)
    nearest = min(refused, key=lambda error: error.ratio, default=None)
    if found:
        best = cheapest(geometry.out_height, found, rates)
        if best.streams == STREAMED:
            streamed = [plan for plan in found if plan.streams == STREAMED]
            found = [_retiled(geometry, tiled, plan) for plan in streamed]
            best = cheapest(geometry.out_height, found, rates)
        return Considered(best, tuple(found), nearest)
    assert nearest is not None
    raise PlanError(f"{nearest}{_what_fits(geometry, tiled, band_rows, fields, deeper)}", nearest.ratio)


def _retiled(geometry: Geo, tiled: Tiled[Geo, BandedPlan], plan: BandedPlan) -> BandedPlan:
    """A plan with the cheapest ACC tiles; the plan itself if these need more padding than img2col has."""
    try:
        return tiled(geometry, plan.band_rows, STREAMED)
    except PlanError:
        return plan


def _tried(
    geometry: Geo, tiled: Tiled[Geo, BandedPlan], band_rows: int | None, ways: Iterable[Streams]
) -> Iterator[BandedPlan | PlanError]:
    """Plans of all heights, or why there is none; higher bands need no less of any memory."""
    for streams in ways:
        for rows in range(1, geometry.out_height + 1) if band_rows is None else [band_rows]:
            try:
                yield tiled(geometry, rows, streams)
            except PlanError as error:
                yield error
                if error.ratio < inf:
                    break


def _what_fits(
    geometry: Geo,
    tiled: Tiled[Geo, BandedPlan],
    band_rows: int | None,
    fields: Sequence[str],
    deeper: Deeper[Geo],
) -> str:
    """The nearest geometry that fits, in words: of all that differ in one field, the least reduced one."""

    def fits(name: str, value: int) -> bool:
        try:
            smaller = replace(cast(Any, geometry), **{name: value})
        except ValueError:
            return False
        tried = _tried(smaller, tiled, band_rows, (RESIDENT, STREAMED, *deeper(smaller)))
        return any(not isinstance(each, PlanError) for each in tried)

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
