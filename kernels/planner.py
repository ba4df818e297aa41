"""How the plan of a conv pair is found: the cheapest that fits, or why none does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from math import inf

from golden.geometry import C0, Geometry
from kernels.choice import (
    ENDLESS,
    RESIDENT,
    STREAMED,
    TOLD,
    Account,
    Considered,
    Family,
    PlanError,
    Streams,
    check_memories,
    search,
)
from kernels.plan import (
    Band,
    Plan,
    Tiling,
    bands_of_mid,
    bands_of_y,
    filters_size,
    held_by_bands,
    positions_of_y,
    with_bands,
)
from kernels.tiles import (
    CHANNEL_BYTES,
    FREE,
    Asked,
    Limits,
    Tile,
    Written,
    cheapest_tile,
    check_step,
    check_written,
    least_work,
    resident_tile,
    tile_in_words,
)
from kernels.windows import Below, Window, check_band_rows, check_unfolded, check_uniform, rows_below

_SHARES = (8, 4, 2)
"""What part of L0C the ACC tile of conv1 may have while the one of conv2 is kept."""


def make_plan(
    geometry: Geometry,
    limits: Limits,
    band_rows: int | None = None,
    written: tuple[Written, Written] = (FREE, FREE),
) -> Plan:
    """Tile a geometry by the cheapest plan that fits (see `cheapest`, and `kernels.tiles` for its tiles).

    Args:
        geometry: what to tile.
        limits: of the memories.
        band_rows: output rows of a band, if only such plans are wanted.
        written: what else is wanted, of the ACC tiles of conv1 and of conv2.

    Raises:
        PlanError: no plan fits; the message is about the one that is nearest to fitting.
    """
    return with_bands(considered(geometry, limits, band_rows, written).best)


@lru_cache(maxsize=32)
def considered(
    geometry: Geometry,
    limits: Limits,
    band_rows: int | None = None,
    written: tuple[Written, Written] = (FREE, FREE),
    told: int = 0,
) -> Considered[Tiling]:
    """The cheapest plan, and the `told` next ones; other arguments and errors as of `make_plan`."""
    _check_written(geometry, written)

    def family(within: Limits) -> Family[Geometry, Tiling]:
        return Family(
            lambda shapes, rows, streams: _tiling(shapes, within, rows, streams, written),
            ways,
            lambda shapes, rows, streams: _least(shapes, within, rows, streams, written),
            ("width", "cin", "cmid", "cout"),
        )

    roomy = family(replace(limits, l1=ENDLESS))
    return search(geometry, limits.rates, family(limits), roomy, band_rows, told)


def account(
    geometry: Geometry,
    limits: Limits,
    band_rows: int | None = None,
    written: tuple[Written, Written] = (FREE, FREE),
) -> Account:
    """The plan of a geometry in words and numbers; arguments and errors as of `make_plan`."""
    found = considered(geometry, limits, band_rows, written, TOLD)
    plan = with_bands(found.best)
    mid, x = plan.bands[0].mid, plan.bands[0].x
    facts = {
        "bands": f"{len(plan.bands)} of {plan.band_rows} output rows, with {mid.rows} rows of mid and "
        f"{x.rows} of x",
        "conv1": tile_in_words(plan.conv1, geometry.cmid),
        "conv2": tile_in_words(plan.conv2, geometry.cout),
        "filters": "streamed: each band brings them in" if plan.streamed else "in L1 throughout",
    }
    if plan.conv1.planes:
        facts["x"] = "by C1 planes: each ACC tile of conv1 brings them in, one at a time"
    if plan.conv2.planes:
        facts["mid"] = "by C1 planes: each ACC tile of conv2 has conv1 compute them anew, one at a time"
    works = {"fused": plan.work, "two-pass": plan.two_pass_work}
    return Account(facts, plan.uses(limits), works, found.others(limits.rates), str(found.refused or ""))


def tile_bands(
    geometry: Geometry,
    limits: Limits,
    band_rows: int,
    streams: Streams = RESIDENT,
    written: tuple[Written, Written] = (FREE, FREE),
) -> Plan:
    """Tile a geometry in bands of a given height.

    Raises:
        PlanError: the height, or a size that follows from it, breaks a rule.
    """
    return with_bands(_tiling(geometry, limits, band_rows, streams, written))


def ways(geometry: Geometry) -> Iterator[Streams]:
    """What L1 may not hold throughout a band: a map with a single C1 plane is no smaller by planes."""
    yield RESIDENT
    yield STREAMED
    for x, mid in ((True, False), (False, True), (True, True)):
        if x <= (geometry.cin > C0) and mid <= (geometry.cmid > C0):
            yield Streams(True, x, mid)


def _check_written(geometry: Geometry, written: tuple[Written, Written]) -> None:
    check_written(written[0], "1", geometry.depth1, geometry.cmid)
    check_written(written[1], "2", geometry.depth2, geometry.cout)


def _least(
    geometry: Geometry,
    limits: Limits,
    band_rows: int,
    streams: Streams,
    written: tuple[Written, Written],
) -> float:
    """Cycles that no plan with bands of a height undercuts: the cheapest tiles everywhere, one load."""
    held, rates = held_by_bands(geometry, band_rows), limits.rates
    bands = -(-geometry.out_height // band_rows)
    first = least_work(limits, geometry.depth1, geometry.cmid, written[0])
    second = least_work(limits, geometry.depth2, geometry.cout, written[1])
    filters = filters_size(geometry)
    mids, outs = bands * held.mid * geometry.mid_width, geometry.out_height * geometry.out_width
    loaded = bands * held.x * geometry.width * geometry.cin + filters * (bands if streams.filters else 1)
    tables = bands * CHANNEL_BYTES * (geometry.cmid + geometry.cout)
    stored = mids * geometry.cmid / rates.l0c_l1 + outs * geometry.cout / rates.l0c_gm
    return mids * first + outs * second + loaded / rates.gm_l1 + tables / rates.l1_tables + stored


def _tiling(
    geometry: Geometry,
    limits: Limits,
    band_rows: int,
    streams: Streams,
    written: tuple[Written, Written],
) -> Tiling:
    """A tiling in bands of a given height; its errors are those of `tile_bands`."""
    check_band_rows(band_rows, geometry.out_height)
    # A smaller geometry, of which it is asked whether it fits, may break what is true of this one.
    _check_written(geometry, written)
    bands = tuple(bands_of_y(geometry, band_rows, streams, kinds=True))
    pass1 = tuple(bands_of_mid(geometry, band_rows, streams, kinds=True))
    conv1, conv2 = _tiles(geometry, limits, band_rows, streams, written, _below(geometry, bands, pass1))
    tiling = Tiling(geometry, band_rows, conv1, conv2, streams.filters)
    check_memories(str(tiling), tiling.uses(limits))
    _check_rows(tiling, bands, pass1)
    if not streams.filters:
        of_mid = [x for _, _, x in pass1]
        for windows in ([band.mid for band in bands], [band.x for band in bands], of_mid):
            check_uniform(band_rows, windows)
    return tiling


def _check_rows(tiling: Tiling, bands: Iterable[Band], pass1: Iterable[tuple[int, int, Window]]) -> None:
    of_y = {(band.rows, band.mid.padding, band.x.padding): band for band in bands}
    for band in of_y.values():
        check_unfolded("mid", tiling.shape2, band.mid, tiling.conv2, band.rows)
        check_unfolded("x", tiling.shape1, band.x, tiling.conv1, band.mid.rows)
    of_mid = {(rows, x.padding): (rows, x) for _, rows, x in pass1}
    for rows, x in of_mid.values():
        check_unfolded("x", tiling.shape1, x, tiling.conv1, rows)


def _below(
    geometry: Geometry, bands: Iterable[Band], pass1: Iterable[tuple[int, int, Window]]
) -> tuple[Below, Below]:
    """What `rows_below` says for conv1 and for conv2."""
    of_mid = [(band.mid.rows, band.x) for band in bands] + [(rows, x) for _, rows, x in pass1]
    of_y = [(band.rows, band.mid) for band in bands]
    return (
        rows_below(geometry.conv1, geometry.mid_width, of_mid),
        rows_below(geometry.conv2, geometry.out_width, of_y),
    )


def _tiles(
    geometry: Geometry,
    limits: Limits,
    band_rows: int,
    streams: Streams,
    written: tuple[Written, Written],
    below: tuple[Below, Below],
) -> tuple[Tile, Tile]:
    """The cheapest ACC tiles of both convolutions for bands of a height."""
    held, bands = held_by_bands(geometry, band_rows), positions_of_y(geometry, band_rows)
    of_mid = ((held.mid * geometry.mid_width, sum(number for _, number in bands)),)
    asked1 = Asked(
        limits,
        geometry.mid_width,
        of_mid,
        below[0],
        geometry.depth1,
        geometry.cmid,
        written=written[0],
    )
    asked2 = Asked(
        limits,
        geometry.out_width,
        bands,
        below[1],
        geometry.depth2,
        geometry.cout,
        written=written[1],
    )
    if not streams.filters:
        return resident_tile(asked1, "1"), resident_tile(asked2, "2")
    planes_of_x, planes_of_mid = geometry.cin // C0, geometry.cmid // C0
    x, pass1_x = (
        rows * geometry.width * C0 * (1 if streams.x else planes_of_x)
        for rows in (held.x + held.x_spare, held.pass1_x + held.pass1_spare)
    )
    mid = (held.mid + held.mid_spare) * geometry.mid_width * C0 * (1 if streams.mid else planes_of_mid)
    asked1 = replace(asked1, room=limits.l1 - max(x + mid, pass1_x))
    if streams.x:
        asked1 = replace(asked1, planes=planes_of_x, brought=x * planes_of_x / limits.rates.gm_l1)
    asked2 = replace(asked2, room=limits.l1 - mid - (x if streams.mid and not streams.x else 0))
    check_step(asked1, "x", "1")
    if streams.mid:
        return _computed_planes(asked1, replace(asked2, planes=planes_of_mid))
    return cheapest_tile(asked1)[0], cheapest_tile(asked2)[0]


def _computed_planes(asked1: Asked, asked2: Asked) -> tuple[Tile, Tile]:
    """The ACC tiles if conv1 computes mid by planes for each ACC tile of conv2, which is kept meanwhile.

    Raises:
        PlanError: blocks of conv1's output channels are written that are no C1 plane, or a K step of conv2
            that does not divide K of one.
    """
    if (columns := asked1.written.columns) not in (0, C0):
        raise PlanError(
            f"block_columns1 is {columns}: where mid comes by planes it must be {C0}", option="block_columns1"
        )
    check_step(asked2, "mid", "2")
    limits = asked1.limits
    mids = asked1.bands[0][0]
    asked1 = replace(asked1, bands=((mids, 1),), columns=C0)
    best, least = None, inf
    for share in _SHARES:
        tile1, cycles = cheapest_tile(replace(asked1, l0c=limits.l0c // share))
        second = replace(
            asked2,
            brought=cycles + mids * asked1.channels / limits.rates.l0c_l1,
            l0c=limits.l0c - 4 * tile1.positions * C0,
            beside=C0,
        )
        tile2, cycles = cheapest_tile(second)
        if best is None or cycles < least:
            best, least = (tile1, tile2), cycles
    assert best is not None
    return best
