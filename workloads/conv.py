"""The workload `conv`: one int8 convolution with VREQ8, of any kernel size, stride and padding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from golden import conv
from golden.chain import INPUT
from golden.conv import layers
from golden.geometry import Conv, ConvGeometry
from kernels.choice import Account
from kernels.conv_plan import ConvPlan, account, make_conv_plan
from kernels.plan import Limits
from workloads.base import FaultModel, Frame, Kernel, MoveWindows, TileProgram, Workload
from workloads.form import Convolution, Form, Loading, Part, in_order, one_step, whole_image
from workloads.packing import chain_packing
from workloads.tiling import BAND_OPTION, BAND_ROWS, tile_options, written


def _plan(geometry: ConvGeometry, limits: Limits, options: Mapping[str, int]) -> ConvPlan:
    return make_conv_plan(geometry, limits, options.get(BAND_ROWS), written(options))


def _account(geometry: ConvGeometry, limits: Limits, options: Mapping[str, int]) -> Account:
    return account(geometry, limits, options.get(BAND_ROWS), written(options))


def _frame(tensor: str, geometry: ConvGeometry, plan: ConvPlan | None) -> Frame:
    return Frame(geometry.out_width, plan.band_rows if plan else geometry.out_height)


def _form(geometry: ConvGeometry, plan: ConvPlan | None) -> Form:
    (layer,) = layers(geometry)
    parts = tuple(Part(band.row, band.rows, band.x) for band in plan.bands) if plan else whole_image(layer)
    tile = plan.tile if plan else one_step(layer)
    convolution = Convolution(1, layer, INPUT, Loading.GATHERED, parts, in_order(parts), tile)
    return Form((layer,), (convolution,))


def _moved(plan: ConvPlan, move: MoveWindows) -> ConvPlan:
    windows = move([band.x for band in plan.bands], plan.geometry.height)
    bands = tuple(replace(band, x=window) for band, window in zip(plan.bands, windows, strict=True))
    return replace(plan, bands=bands)


WORKLOAD = Workload(
    definition=conv.DEFINITION,
    programs=(
        TileProgram(
            "conv",
            "kernels.conv2d:build_conv",
            (INPUT, "filter", "bias", "scale"),
            "y",
            "y",
            form=_form,
        ),
    ),
    kernels=(Kernel("conv", ("conv",)),),
    plan=_plan,
    frame=_frame,
    example=ConvGeometry(16, 16, 32, 32, Conv(3, 1, 1)),
    plan_options={**BAND_OPTION, **tile_options()},
    faults=FaultModel(_moved),
    tensor_level="workloads.conv_tensor:TENSOR_LEVEL",
    account=_account,
    packing=chain_packing(layers),
)
