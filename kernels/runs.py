"""Bands in the order of their rows: the first, runs of equal ones between, and the last.

The padding of a band is a compile-time constant, so bands of one loop have the same; where each begins is a
number that grows by the same step from one to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from kernels.conv_plan import ConvBand
from kernels.plan import Band

Numbers = tuple[int, ...]


@dataclass(frozen=True)
class Run:
    """`count` bands from number `band`, whose numbers begin at `first` and grow by `step`."""

    band: int
    count: int
    first: Numbers
    step: Numbers


def runs_between(kinds: Sequence[Hashable], numbers: Sequence[Numbers], most: int) -> list[Run]:
    """The bands between the first and the last, in the fewest runs; runs of no bands make up `most` of them.

    Args:
        kinds: what must be the same in all bands of a run, for each band.
        numbers: where each band begins.
        most: the most runs that there can be.
    """
    runs: list[Run] = []
    last, band = len(kinds) - 1, 1
    while band < last:
        end, step = band + 1, _step(numbers, band)
        while end < last and kinds[end] == kinds[band] and _step(numbers, end - 1) == step:
            end += 1
        runs.append(Run(band, end - band, numbers[band], step))
        band = end
    assert len(runs) <= most
    return runs + [Run(0, 0, numbers[0], numbers[0])] * (most - len(runs))


def _step(numbers: Sequence[Numbers], band: int) -> Numbers:
    return tuple(after - now for now, after in zip(numbers[band], numbers[band + 1], strict=True))


def bands_of_conv(pl: Any, bands: Sequence[ConvBand], band_of: Callable[[ConvBand], Any]) -> Any:
    """A helper `(source, filter, bias, scale, out) -> out`: all bands of one convolution, all tensors in GM.

    Args:
        pl: the DSL.
        bands: in the order of their rows.
        band_of: makes the helper `(source, filter, bias, scale, out, source_row, out_row, skip) -> out` of a
            band; `skip` is the first wanted row of what its window gives.
    """
    numbers = [(band.x.row, band.row, band.x.skip) for band in bands]
    run1, run2, run3 = runs_between([(band.x.padding, band.rows) for band in bands], numbers, 3)
    seq_first, seq_last, seq_several = band_of(bands[0]), band_of(bands[-1]), len(bands) > 1
    seq_of1, seq_of2, seq_of3 = (band_of(bands[run.band]) for run in (run1, run2, run3))
    seq_count1, seq_count2, seq_count3 = run1.count, run2.count, run3.count
    seq_has1, seq_has2, seq_has3 = run1.count > 0, run2.count > 0, run3.count > 0
    (seq_x1, seq_y1, seq_s1), (seq_dx1, seq_dy1, seq_ds1) = run1.first, run1.step
    (seq_x2, seq_y2, seq_s2), (seq_dx2, seq_dy2, seq_ds2) = run2.first, run2.step
    (seq_x3, seq_y3, seq_s3), (seq_dx3, seq_dy3, seq_ds3) = run3.first, run3.step
    seq_x, seq_y, seq_s = numbers[0]
    seq_xl, seq_yl, seq_sl = numbers[-1]

    @pl.inline
    def bands_of_conv(seq_source: Any, seq_filter: Any, seq_bias: Any, seq_scale: Any, seq_out: Any) -> Any:
        seq_out = seq_first(seq_source, seq_filter, seq_bias, seq_scale, seq_out, seq_x, seq_y, seq_s)
        if seq_has1:
            for band in pl.range(seq_count1):
                seq_out = seq_of1(
                    seq_source,
                    seq_filter,
                    seq_bias,
                    seq_scale,
                    seq_out,
                    seq_x1 + band * seq_dx1,
                    seq_y1 + band * seq_dy1,
                    seq_s1 + band * seq_ds1,
                )
        if seq_has2:
            for band in pl.range(seq_count2):
                seq_out = seq_of2(
                    seq_source,
                    seq_filter,
                    seq_bias,
                    seq_scale,
                    seq_out,
                    seq_x2 + band * seq_dx2,
                    seq_y2 + band * seq_dy2,
                    seq_s2 + band * seq_ds2,
                )
        if seq_has3:
            for band in pl.range(seq_count3):
                seq_out = seq_of3(
                    seq_source,
                    seq_filter,
                    seq_bias,
                    seq_scale,
                    seq_out,
                    seq_x3 + band * seq_dx3,
                    seq_y3 + band * seq_dy3,
                    seq_s3 + band * seq_ds3,
                )
        if seq_several:
            seq_out = seq_last(seq_source, seq_filter, seq_bias, seq_scale, seq_out, seq_xl, seq_yl, seq_sl)
        return seq_out

    return bands_of_conv


def bands_of_pair(pl: Any, bands: Sequence[Band], band_of: Callable[[Band], Any]) -> Any:
    """A helper `(x, filter1, bias1, scale1, filter2, bias2, scale2, y) -> y`: all bands of the fused pair.

    Args:
        pl: the DSL.
        bands: in the order of their rows.
        band_of: makes the helper `(x, filter1, bias1, scale1, filter2, bias2, scale2, y, x_row, y_row, skip1,
            skip2) -> y` of a band; the skips are the first wanted rows of what its windows give.
    """
    numbers = [(band.x.row, band.row, band.x.skip, band.mid.skip) for band in bands]
    kinds = [(band.x.padding, band.mid.padding, band.rows) for band in bands]
    runs = runs_between(kinds, numbers, 5)
    seq_first, seq_last, seq_several = band_of(bands[0]), band_of(bands[-1]), len(bands) > 1
    seq_of1, seq_of2, seq_of3, seq_of4, seq_of5 = (band_of(bands[run.band]) for run in runs)
    seq_count1, seq_count2, seq_count3, seq_count4, seq_count5 = (run.count for run in runs)
    seq_has1, seq_has2, seq_has3, seq_has4, seq_has5 = (run.count > 0 for run in runs)
    run1, run2, run3, run4, run5 = runs
    (seq_x1, seq_y1, seq_p1, seq_q1), (seq_dx1, seq_dy1, seq_dp1, seq_dq1) = run1.first, run1.step
    (seq_x2, seq_y2, seq_p2, seq_q2), (seq_dx2, seq_dy2, seq_dp2, seq_dq2) = run2.first, run2.step
    (seq_x3, seq_y3, seq_p3, seq_q3), (seq_dx3, seq_dy3, seq_dp3, seq_dq3) = run3.first, run3.step
    (seq_x4, seq_y4, seq_p4, seq_q4), (seq_dx4, seq_dy4, seq_dp4, seq_dq4) = run4.first, run4.step
    (seq_x5, seq_y5, seq_p5, seq_q5), (seq_dx5, seq_dy5, seq_dp5, seq_dq5) = run5.first, run5.step
    seq_x, seq_y, seq_p, seq_q = numbers[0]
    seq_xl, seq_yl, seq_pl, seq_ql = numbers[-1]

    @pl.inline
    def bands_of_pair(
        seq_map: Any,
        seq_f1: Any,
        seq_b1: Any,
        seq_t1: Any,
        seq_f2: Any,
        seq_b2: Any,
        seq_t2: Any,
        seq_out: Any,
    ) -> Any:
        seq_out = seq_first(
            seq_map, seq_f1, seq_b1, seq_t1, seq_f2, seq_b2, seq_t2, seq_out, seq_x, seq_y, seq_p, seq_q
        )
        if seq_has1:
            for band in pl.range(seq_count1):
                seq_out = seq_of1(
                    seq_map,
                    seq_f1,
                    seq_b1,
                    seq_t1,
                    seq_f2,
                    seq_b2,
                    seq_t2,
                    seq_out,
                    seq_x1 + band * seq_dx1,
                    seq_y1 + band * seq_dy1,
                    seq_p1 + band * seq_dp1,
                    seq_q1 + band * seq_dq1,
                )
        if seq_has2:
            for band in pl.range(seq_count2):
                seq_out = seq_of2(
                    seq_map,
                    seq_f1,
                    seq_b1,
                    seq_t1,
                    seq_f2,
                    seq_b2,
                    seq_t2,
                    seq_out,
                    seq_x2 + band * seq_dx2,
                    seq_y2 + band * seq_dy2,
                    seq_p2 + band * seq_dp2,
                    seq_q2 + band * seq_dq2,
                )
        if seq_has3:
            for band in pl.range(seq_count3):
                seq_out = seq_of3(
                    seq_map,
                    seq_f1,
                    seq_b1,
                    seq_t1,
                    seq_f2,
                    seq_b2,
                    seq_t2,
                    seq_out,
                    seq_x3 + band * seq_dx3,
                    seq_y3 + band * seq_dy3,
                    seq_p3 + band * seq_dp3,
                    seq_q3 + band * seq_dq3,
                )
        if seq_has4:
            for band in pl.range(seq_count4):
                seq_out = seq_of4(
                    seq_map,
                    seq_f1,
                    seq_b1,
                    seq_t1,
                    seq_f2,
                    seq_b2,
                    seq_t2,
                    seq_out,
                    seq_x4 + band * seq_dx4,
                    seq_y4 + band * seq_dy4,
                    seq_p4 + band * seq_dp4,
                    seq_q4 + band * seq_dq4,
                )
        if seq_has5:
            for band in pl.range(seq_count5):
                seq_out = seq_of5(
                    seq_map,
                    seq_f1,
                    seq_b1,
                    seq_t1,
                    seq_f2,
                    seq_b2,
                    seq_t2,
                    seq_out,
                    seq_x5 + band * seq_dx5,
                    seq_y5 + band * seq_dy5,
                    seq_p5 + band * seq_dp5,
                    seq_q5 + band * seq_dq5,
                )
        if seq_several:
            seq_out = seq_last(
                seq_map,
                seq_f1,
                seq_b1,
                seq_t1,
                seq_f2,
                seq_b2,
                seq_t2,
                seq_out,
                seq_xl,
                seq_yl,
                seq_pl,
                seq_ql,
            )
        return seq_out

    return bands_of_pair
