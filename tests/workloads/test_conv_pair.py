"""What the declaration of the pair says beyond what holds for every workload."""

from __future__ import annotations

import numpy as np
import pytest

import emulator.language
from golden.geometry import Conv, Geometry
from kernels.plan import Limits
from kernels.planner import tile_bands
from workloads.base import Frame
from workloads.conv_pair import WORKLOAD

GEOMETRY = Geometry(24, 16, 64, 32, 96, Conv(3, 2, 1), Conv(3, 1, 1))
SPECIFIED = ("fused", "first-tile-load", "first-tile-packed", "first-tile-fused-alloc", "two-pass")
PROGRAMS = [program.name for program in WORKLOAD.programs]


def test_every_kernel_is_made_of_the_programs_of_the_specification() -> None:
    kernels = {kernel.name: kernel.programs for kernel in WORKLOAD.kernels if kernel.name in SPECIFIED}
    first_tiles = ("first-tile-load", "first-tile-packed", "first-tile-fused-alloc")
    assert kernels == {
        "fused": ("fused",),
        **{name: (name,) for name in first_tiles},
        "two-pass": ("pass1", "pass2"),
    }
    assert {name for programs in kernels.values() for name in programs} <= set(PROGRAMS)


def test_of_the_specified_programs_only_the_first_tiles_give_a_part_of_their_tensor() -> None:
    of_kernels = {name for kernel in SPECIFIED for name in WORKLOAD.programs_of(kernel)}
    partial = {name for name in of_kernels if WORKLOAD.program(name).shape is not None}
    assert partial == {"first-tile-load", "first-tile-packed", "first-tile-fused-alloc"}
    assert {WORKLOAD.program(name).tensor for name in partial} == {"mid"}
    assert {WORKLOAD.program(name).output for name in partial} == {"tile"}


def test_the_packed_band_is_a_matrix_of_all_channels(limits: Limits) -> None:
    plan, entry = tile_bands(GEOMETRY, limits, 4), WORKLOAD.program("first-tile-packed")
    x_band = entry.build(emulator.language, plan).main.params[0]
    assert (x_band.name, x_band.type.shape) == ("x_band", (plan.bands[0].x.rows * 16, 64))


def test_the_host_packs_the_rows_of_the_first_band_pixel_by_pixel(limits: Limits) -> None:
    """Row p of the matrix holds all channels of pixel p, in NC1HWC0 one of 32 a plane."""
    plan = tile_bands(GEOMETRY, limits, 4)
    planes = np.random.default_rng(0).integers(-128, 128, (2, 24, 16, 32)).astype(np.int8)
    (pack,) = WORKLOAD.program("first-tile-packed").host.values()
    packed = pack(GEOMETRY, plan, {"x": planes.reshape(-1, 32)})
    window = plan.bands[0].x
    assert (packed.shape, packed.dtype) == ((window.rows * 16, 64), np.int8)
    assert packed.flags.c_contiguous
    for row, column, channel in [(0, 0, 0), (3, 15, 31), (window.rows - 1, 7, 63), (2, 1, 32)]:
        pixel = packed[row * 16 + column]
        assert pixel[channel] == planes[channel // 32, window.row + row, column, channel % 32]


@pytest.mark.parametrize(("tensor", "frame"), [("y", Frame(8, 4)), ("mid", Frame(8, 4))], ids=["y", "mid"])
def test_bands_are_those_of_the_programs_that_give_the_output(
    tensor: str, frame: Frame, limits: Limits
) -> None:
    assert WORKLOAD.frame(tensor, GEOMETRY, tile_bands(GEOMETRY, limits, 4)) == frame


def test_bands_of_mid_are_higher_where_conv2_has_a_stride(limits: Limits) -> None:
    """A band of mid is what a band of y spans: by conv2's stride more rows."""
    strided = Geometry(32, 32, 32, 32, 32, Conv(3, 1, 1), Conv(3, 2, 1))
    plan = tile_bands(strided, limits, 4)
    assert WORKLOAD.frame("y", strided, plan) == Frame(16, 4)
    assert WORKLOAD.frame("mid", strided, plan) == Frame(32, 8)
    assert WORKLOAD.frame("mid", strided, None) == Frame(32, 32)
