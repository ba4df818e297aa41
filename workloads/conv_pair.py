"""The workload `conv-pair`: two int8 convolutions, fused with mid in L1, or in two passes through GM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from golden import conv_pair
from golden.chain import INPUT
from golden.conv_pair import MID, Y, layers
from golden.geometry import C0, Conv, Geometry
from golden.specs import Array
from kernels.choice import Account
from kernels.plan import Band, Limits, Plan
from kernels.planner import account, make_plan
from kernels.tiles import Written
from kernels.windows import Window
from workloads.base import FaultModel, Frame, Kernel, MoveWindows, TileProgram, Workload
from workloads.form import (
    Convolution,
    Form,
    Loading,
    Part,
    in_order,
    one_step,
    plane_by_plane,
    whole_image,
)
from workloads.packing import chain_packing
from workloads.tiling import BAND_OPTION, BAND_ROWS, tile_options, written

_CONV1 = ("filter1", "bias1", "scale1")
_CONV2 = ("filter2", "bias2", "scale2")


def _written(options: Mapping[str, int]) -> tuple[Written, Written]:
    return written(options, "1"), written(options, "2")


def _plan(geometry: Geometry, limits: Limits, options: Mapping[str, int]) -> Plan:
    return make_plan(geometry, limits, options.get(BAND_ROWS), _written(options))


def _account(geometry: Geometry, limits: Limits, options: Mapping[str, int]) -> Account:
    return account(geometry, limits, options.get(BAND_ROWS), _written(options))


def _frame(tensor: str, geometry: Geometry, plan: Plan | None) -> Frame:
    """Bands of y are those of fused and pass2, bands of mid those of pass1; without a plan, one band."""
    if tensor == Y:
        return Frame(geometry.out_width, plan.band_rows if plan else geometry.out_height)
    return Frame(geometry.mid_width, plan.pass1[0][1] if plan else geometry.mid_height)


# -- forms: a plan is None if the geometry cannot be tiled, and for CANN, which has its own tilings


def _fused(geometry: Geometry, plan: Plan | None) -> Form:
    parts = tuple(Part(band.mid.row, band.mid.rows, band.x) for band in plan.bands) if plan else None
    first = _first(geometry, plan, Loading.GATHERED, parts)
    return _form(geometry, first, _second(geometry, plan, Loading.IN_L1))


def _pass1(geometry: Geometry, plan: Plan | None) -> Form:
    parts = tuple(Part(*band) for band in plan.pass1) if plan else None
    plain = plan is None or plan.plain
    loading = Loading.PLAIN if plain else Loading.GATHERED
    return _form(geometry, _first(geometry, plan, loading, parts, interior_first=plain))


def _pass2(geometry: Geometry, plan: Plan | None) -> Form:
    return _form(geometry, _second(geometry, plan, Loading.ROWS))


def _first_tile(loading: Loading, parameter: str) -> Any:
    """The form of a program that computes the first ACC tile of mid only."""

    def form(geometry: Geometry, plan: Plan | None) -> Form:
        parts = None
        how = loading
        if plan:
            window, rows = plan.bands[0].x, -(-plan.first_tile // geometry.mid_width)
            parts = (Part(0, rows, window),)
            if loading is Loading.PLAIN and (window.spare or not plan.plain):
                how = Loading.GATHERED
        first = _first(geometry, plan, how, parts)
        return _form(geometry, replace(first, whole=False, parameter=parameter))

    return form


def _form(geometry: Geometry, *convolutions: Convolution) -> Form:
    return Form(layers(geometry), convolutions)


def _first(
    geometry: Geometry,
    plan: Plan | None,
    loading: Loading,
    parts: tuple[Part, ...] | None,
    *,
    interior_first: bool = False,
) -> Convolution:
    layer, _ = layers(geometry)
    parts = parts or whole_image(layer)
    order = in_order(parts)
    if interior_first and len(parts) > 2:
        order = (*order[1:-1], order[0], order[-1])
    tile = plan.conv1 if plan else one_step(layer)
    if plan and loading is Loading.PLAIN:
        tile = plane_by_plane(tile, layer)
    return Convolution(1, layer, INPUT, loading, parts, order, tile)


def _second(geometry: Geometry, plan: Plan | None, loading: Loading) -> Convolution:
    _, layer = layers(geometry)
    parts = tuple(Part(band.row, band.rows, band.mid) for band in plan.bands) if plan else whole_image(layer)
    return Convolution(
        2, layer, MID, loading, parts, in_order(parts), plan.conv2 if plan else one_step(layer)
    )


# -- what the host makes


def _packed_band(geometry: Geometry, plan: Plan, arrays: Mapping[str, Array]) -> Array:
    """The x rows of the first band, and rows of zeros under them, as one int8 [rows * width, cin] matrix."""
    window = plan.bands[0].x
    planes = arrays[INPUT].reshape(geometry.cin // C0, geometry.height, geometry.width, C0)
    rows = planes[:, window.row : window.row + window.rows]
    packed = np.ascontiguousarray(rows.transpose(1, 2, 0, 3)).reshape(-1, geometry.cin)
    return np.pad(packed, ((0, window.spare * geometry.width), (0, 0)))


def _tile_shape(plan: Plan) -> tuple[int, int]:
    return plan.first_tile, plan.geometry.cmid


def _first_tile_program(name: str, inputs: Sequence[str], loading: Loading, **host: Any) -> TileProgram:
    function = f"build_{name.replace('-', '_')}"
    factory = f"kernels.first_tile:{function}"
    form = _first_tile(loading, next(iter(host), ""))
    return TileProgram(name, factory, tuple(inputs), "tile", MID, _tile_shape, host, form)


# -- what a fault moves


def _moved(plan: Plan, move: MoveWindows) -> Plan:
    height = plan.geometry.height

    def with_window(band: Band, window: Window) -> Band:
        return replace(band, x=window)

    bands = move([band.x for band in plan.bands], height)
    of_mid = move([x for _, _, x in plan.pass1], height)
    return replace(
        plan,
        bands=tuple(map(with_window, plan.bands, bands)),
        pass1=tuple((row, rows, x) for (row, rows, _), x in zip(plan.pass1, of_mid, strict=True)),
    )


WORKLOAD = Workload(
    definition=conv_pair.DEFINITION,
    programs=(
        TileProgram(
            "fused", "kernels.fused_conv2d:build_fused", (INPUT, *_CONV1, *_CONV2), Y, Y, form=_fused
        ),
        _first_tile_program("first-tile-load", (INPUT, *_CONV1), Loading.PLAIN),
        _first_tile_program("first-tile-packed", ("x_band", *_CONV1), Loading.PACKED, x_band=_packed_band),
        _first_tile_program("first-tile-fused-alloc", (INPUT, *_CONV1, *_CONV2), Loading.GATHERED),
        TileProgram("pass1", "kernels.unfused_conv2d:build_pass1", (INPUT, *_CONV1), MID, MID, form=_pass1),
        TileProgram("pass2", "kernels.unfused_conv2d:build_pass2", (MID, *_CONV2), Y, Y, form=_pass2),
    ),
    kernels=(
        Kernel("fused", ("fused",)),
        Kernel("first-tile-load", ("first-tile-load",)),
        Kernel("first-tile-packed", ("first-tile-packed",)),
        Kernel("first-tile-fused-alloc", ("first-tile-fused-alloc",)),
        Kernel("two-pass", ("pass1", "pass2")),
    ),
    plan=_plan,
    frame=_frame,
    example=Geometry(24, 16, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1)),
    plan_options={**BAND_OPTION, **tile_options("conv1", "1"), **tile_options("conv2", "2")},
    faults=FaultModel(_moved),
    tensor_level="workloads.conv_pair_tensor:TENSOR_LEVEL",
    account=_account,
    packing=chain_packing(layers),
)
