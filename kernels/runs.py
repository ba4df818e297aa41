"""Bands in the order of their rows: the first, runs of equal ones between, and the last.

The padding of a band is a compile-time constant, so bands of one loop have the same; where each begins is a
number that grows by the same step from one to the next.

Names have prefixes as in `kernels.blocks`: `seq_` in the sequence of all bands, `run_` in one run. After them
`x` and `y` are the rows where the window of a band and its output begin; the wanted rows skip `s` of what the
window gives, or in a pair `p` of mid and `q` of y. `dx` is the step of `x` in a run, `xl` the `x` of the last
band; the others likewise. `f1`, `b1` and `t1` are filter, bias and scale table of conv1.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from kernels.conv_plan import ConvBand
from kernels.plan import Band

Numbers = tuple[int, ...]

_RUNS_OF_CONV = 3
"""The most runs of a convolution: windows at the top of the image, at neither edge, and at its bottom.

In each of these the padding is the same (`kernels.windows.at_edges`) and windows move by the same step.
"""

_RUNS_OF_PAIR = 5
"""The most runs of a pair: from band to band, x and mid each come from one part to the next twice at most."""


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
        most: the most runs that there can be, as of the constants above.
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
    runs = runs_between([(band.x.padding, band.rows) for band in bands], numbers, _RUNS_OF_CONV)
    seq_run1, seq_run2, seq_run3 = (_run_of_conv(pl, run, band_of(bands[run.band])) for run in runs)
    seq_first, seq_last, seq_several = band_of(bands[0]), band_of(bands[-1]), len(bands) > 1
    seq_x, seq_y, seq_s = numbers[0]
    seq_xl, seq_yl, seq_sl = numbers[-1]

    @pl.inline
    def bands_of_conv(seq_source: Any, seq_filter: Any, seq_bias: Any, seq_scale: Any, seq_out: Any) -> Any:
        seq_out = seq_first(seq_source, seq_filter, seq_bias, seq_scale, seq_out, seq_x, seq_y, seq_s)
        seq_out = seq_run1(seq_source, seq_filter, seq_bias, seq_scale, seq_out)
        seq_out = seq_run2(seq_source, seq_filter, seq_bias, seq_scale, seq_out)
        seq_out = seq_run3(seq_source, seq_filter, seq_bias, seq_scale, seq_out)
        if seq_several:
            seq_out = seq_last(seq_source, seq_filter, seq_bias, seq_scale, seq_out, seq_xl, seq_yl, seq_sl)
        return seq_out

    return bands_of_conv


def _run_of_conv(pl: Any, run: Run, band: Any) -> Any:
    """A helper `(source, filter, bias, scale, out) -> out`: the bands of a run, by the helper of each."""
    run_of, run_count = band, run.count
    (run_x, run_y, run_s), (run_dx, run_dy, run_ds) = run.first, run.step

    @pl.inline
    def run_of_conv(run_source: Any, run_filter: Any, run_bias: Any, run_scale: Any, run_out: Any) -> Any:
        for band in pl.range(run_count):
            run_out = run_of(
                run_source,
                run_filter,
                run_bias,
                run_scale,
                run_out,
                run_x + band * run_dx,
                run_y + band * run_dy,
                run_s + band * run_ds,
            )
        return run_out

    @pl.inline
    def no_run(run_source: Any, run_filter: Any, run_bias: Any, run_scale: Any, run_out: Any) -> Any:
        return run_out

    return run_of_conv if run.count else no_run


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
    seq_run1, seq_run2, seq_run3, seq_run4, seq_run5 = (
        _run_of_pair(pl, run, band_of(bands[run.band])) for run in runs_between(kinds, numbers, _RUNS_OF_PAIR)
    )
    seq_first, seq_last, seq_several = band_of(bands[0]), band_of(bands[-1]), len(bands) > 1
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
        seq_out = seq_run1(seq_map, seq_f1, seq_b1, seq_t1, seq_f2, seq_b2, seq_t2, seq_out)
        seq_out = seq_run2(seq_map, seq_f1, seq_b1, seq_t1, seq_f2, seq_b2, seq_t2, seq_out)
        seq_out = seq_run3(seq_map, seq_f1, seq_b1, seq_t1, seq_f2, seq_b2, seq_t2, seq_out)
        seq_out = seq_run4(seq_map, seq_f1, seq_b1, seq_t1, seq_f2, seq_b2, seq_t2, seq_out)
        seq_out = seq_run5(seq_map, seq_f1, seq_b1, seq_t1, seq_f2, seq_b2, seq_t2, seq_out)
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


def _run_of_pair(pl: Any, run: Run, band: Any) -> Any:
    """The same for the pair: `(x, filter1, bias1, scale1, filter2, bias2, scale2, y) -> y`."""
    run_of, run_count = band, run.count
    (run_x, run_y, run_p, run_q), (run_dx, run_dy, run_dp, run_dq) = run.first, run.step

    @pl.inline
    def run_of_pair(
        run_map: Any,
        run_f1: Any,
        run_b1: Any,
        run_t1: Any,
        run_f2: Any,
        run_b2: Any,
        run_t2: Any,
        run_out: Any,
    ) -> Any:
        for band in pl.range(run_count):
            run_out = run_of(
                run_map,
                run_f1,
                run_b1,
                run_t1,
                run_f2,
                run_b2,
                run_t2,
                run_out,
                run_x + band * run_dx,
                run_y + band * run_dy,
                run_p + band * run_dp,
                run_q + band * run_dq,
            )
        return run_out

    @pl.inline
    def no_run(
        run_map: Any,
        run_f1: Any,
        run_b1: Any,
        run_t1: Any,
        run_f2: Any,
        run_b2: Any,
        run_t2: Any,
        run_out: Any,
    ) -> Any:
        return run_out

    return run_of_pair if run.count else no_run
