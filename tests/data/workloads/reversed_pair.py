"""The workload `reversed-pair`: the pair with a fused kernel whose bands run from the bottom to the top."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from golden.geometry import C0, Geometry
from kernels.fused_conv2d import fused_band
from kernels.plan import Plan
from workloads import conv_pair
from workloads.base import Kernel
from workloads.form import Form

_FUSED = conv_pair.WORKLOAD.program("fused")


def build_reversed(pl: Any, plan: Plan) -> Any:
    """The fused program with its bands in the order last, interior ones from the bottom, first."""
    geometry = plan.geometry
    x_shape = [plan.planes * geometry.height * geometry.width, C0]
    y_shape = [geometry.out_height * geometry.out_width, geometry.cout]
    filter1_shape, filter2_shape = [geometry.depth1, geometry.cmid], [geometry.depth2, geometry.cout]
    row1_shape, row2_shape = [1, geometry.cmid], [1, geometry.cout]
    bands = plan.bands
    last_band = len(bands) - 1
    several, interior = last_band > 0, last_band > 1
    inner = bands[min(1, last_band)]
    inner_x, inner_step = inner.x.row, bands[min(2, last_band)].x.row - inner.x.row
    rows_of_band = plan.band_rows
    last_x, last_y = bands[-1].x.row, bands[-1].row
    first_of_y, inner_of_y, last_of_y = (fused_band(pl, plan, band) for band in (bands[0], inner, bands[-1]))

    @pl.program
    class ReversedConv2d:
        @pl.function(type=pl.FunctionType.InCore)
        def backwards(
            self,
            x: pl.Tensor[x_shape, pl.INT8],
            filter1: pl.Tensor[filter1_shape, pl.INT8],
            bias1: pl.Tensor[row1_shape, pl.INT32],
            scale1: pl.Tensor[row1_shape, pl.UINT64],
            filter2: pl.Tensor[filter2_shape, pl.INT8],
            bias2: pl.Tensor[row2_shape, pl.INT32],
            scale2: pl.Tensor[row2_shape, pl.UINT64],
            y: pl.Out[pl.Tensor[y_shape, pl.INT8]],
        ) -> pl.Tensor[y_shape, pl.INT8]:
            f1 = pl.load(filter1, [0, 0], filter1_shape, target_memory=pl.MemorySpace.Mat)
            f2 = pl.load(filter2, [0, 0], filter2_shape, target_memory=pl.MemorySpace.Mat)
            b1 = pl.load(bias1, [0, 0], row1_shape, target_memory=pl.MemorySpace.Mat)
            s1 = pl.load(scale1, [0, 0], row1_shape, target_memory=pl.MemorySpace.Mat)
            b2 = pl.load(bias2, [0, 0], row2_shape, target_memory=pl.MemorySpace.Mat)
            s2 = pl.load(scale2, [0, 0], row2_shape, target_memory=pl.MemorySpace.Mat)
            if several:
                y = last_of_y(x, f1, b1, s1, f2, b2, s2, y, last_x, last_y)
            if interior:
                for band in pl.range(1, last_band):
                    y = inner_of_y(
                        x,
                        f1,
                        b1,
                        s1,
                        f2,
                        b2,
                        s2,
                        y,
                        inner_x + (last_band - 1 - band) * inner_step,
                        (last_band - band) * rows_of_band,
                    )
            y = first_of_y(x, f1, b1, s1, f2, b2, s2, y, 0, 0)
            return y  # noqa: RET504

        @pl.function(type=pl.FunctionType.Orchestration)
        def main(
            self,
            x: pl.Tensor[x_shape, pl.INT8],
            filter1: pl.Tensor[filter1_shape, pl.INT8],
            bias1: pl.Tensor[row1_shape, pl.INT32],
            scale1: pl.Tensor[row1_shape, pl.UINT64],
            filter2: pl.Tensor[filter2_shape, pl.INT8],
            bias2: pl.Tensor[row2_shape, pl.INT32],
            scale2: pl.Tensor[row2_shape, pl.UINT64],
            y: pl.Out[pl.Tensor[y_shape, pl.INT8]],
        ) -> pl.Tensor[y_shape, pl.INT8]:
            y = self.backwards(x, filter1, bias1, scale1, filter2, bias2, scale2, y)
            return y  # noqa: RET504

    return ReversedConv2d


def _reversed_form(geometry: Geometry, plan: Plan | None) -> Form:
    """That of the fused kernel, its bands in the other order."""
    assert _FUSED.form is not None
    form = _FUSED.form(geometry, plan)
    return replace(form, convolutions=tuple(replace(one, order=one.order[::-1]) for one in form.convolutions))


WORKLOAD = replace(
    conv_pair.WORKLOAD,
    definition=replace(conv_pair.WORKLOAD.definition, name="reversed-pair"),
    programs=(
        *conv_pair.WORKLOAD.programs,
        replace(_FUSED, name="reversed", factory=build_reversed, form=_reversed_form),
        replace(_FUSED, name="undescribed", form=None),
    ),
    kernels=(
        *conv_pair.WORKLOAD.kernels,
        Kernel("reversed", ("reversed",)),
        Kernel("undescribed", ("undescribed",)),
    ),
)
