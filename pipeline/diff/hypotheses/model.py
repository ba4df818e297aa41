"""A program as its layers, made from the evidence."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from golden import layout
from golden.geometry import C0, Conv
from golden.specs import Int8
from kernels.plan import Tile, Window
from pipeline.diff.evidence import TWO_PASS, Evidence
from pipeline.diff.hypotheses.layers import Ints, Layer, Part, with_zeros


@dataclass(frozen=True, eq=False)
class Model:
    """A program's layers and the rows they read.

    Attributes:
        evidence: what it is made from.
        first, second: the convolutions; None where the program does not have it.
    """

    evidence: Evidence
    first: Layer | None
    second: Layer | None

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers that the program has, in order."""
        return tuple(layer for layer in (self.first, self.second) if layer is not None)

    @property
    def last(self) -> Layer:
        """The layer whose output is the evidence's tensor."""
        return self.layers[-1]

    @cached_property
    def x(self) -> Int8:
        """The input in the buffers of the first layer's parts, int8 [pixels + 1, Cin], zeros at the end."""
        assert self.first is not None
        return with_zeros(self.image[self.first.buffers()])

    @cached_property
    def image(self) -> Int8:
        """The input as NHWC rows."""
        geometry = self.evidence.geometry
        return layout.nc1hwc0_to_nhwc(self.evidence.tensors.x, geometry.height, geometry.width)

    @cached_property
    def mid(self) -> Int8:
        """The golden's mid in the buffers of the second layer's parts, zeros at the end."""
        assert self.second is not None
        return with_zeros(self.evidence.mid[self.second.buffers()])

    @property
    def mid_in_gm(self) -> bool:
        """Whether conv2 loads mid from GM; else conv1 fills its buffers in place."""
        return self.evidence.program in ("pass2", TWO_PASS)

    @cached_property
    def mid_sites(self) -> Ints:
        """For every pixel of the second layer's buffers, the site of the first layer it comes from."""
        assert self.second is not None
        return self.second.buffers() if self.mid_in_gm else np.arange(self.second.base[-1])


def model_of(evidence: Evidence) -> Model:
    """The layers of the evidence's program."""
    first = None if evidence.program == "pass2" else _first(evidence)
    return Model(evidence, first, _second(evidence) if evidence.tensor == "y" else None)


def _first(evidence: Evidence) -> Layer:
    geometry, plan, tensors = evidence.geometry, evidence.plan, evidence.tensors
    if plan is None:
        parts: tuple[Part, ...] = (_whole(geometry.conv1, geometry.mid_height, geometry.height),)
    elif evidence.program == "fused":
        parts = tuple(Part(band.mid.row, band.mid.rows, band.x) for band in plan.bands)
    elif evidence.tensor == "tile":
        parts = (Part(0, plan.conv1.rows, plan.bands[0].x),)
    else:
        parts = tuple(Part(*band) for band in plan.pass1)
    # These go plane by plane, C0 channels of one tap a step.
    by_plane = evidence.program in ("pass1", TWO_PASS, "first-tile-load")
    return Layer(
        number=1,
        conv=geometry.conv1,
        parts=parts,
        width=geometry.mid_width,
        image_width=geometry.width,
        tile=_tile(
            plan.conv1 if plan else None,
            C0 if by_plane else None,
            geometry.mid_height,
            geometry.mid_width,
            geometry.depth1,
        ),
        filter=tensors.filter1,
        bias=tensors.bias1,
        scales=tensors.scales1,
        offsets=tensors.offsets1.astype(np.int64),
        variant=evidence.variant,
    )


def _second(evidence: Evidence) -> Layer:
    geometry, plan, tensors = evidence.geometry, evidence.plan, evidence.tensors
    if plan is None:
        parts: tuple[Part, ...] = (_whole(geometry.conv2, geometry.out_height, geometry.mid_height),)
    else:
        parts = tuple(Part(band.row, band.rows, band.mid) for band in plan.bands)
    return Layer(
        number=2,
        conv=geometry.conv2,
        parts=parts,
        width=geometry.out_width,
        image_width=geometry.mid_width,
        tile=_tile(
            plan.conv2 if plan else None, None, geometry.out_height, geometry.out_width, geometry.depth2
        ),
        filter=tensors.filter2,
        bias=tensors.bias2,
        scales=tensors.scales2,
        offsets=tensors.offsets2.astype(np.int64),
        variant=evidence.variant,
    )


def _whole(conv: Conv, rows: int, image_rows: int) -> Part:
    return Part(0, rows, Window(0, image_rows, (conv.padding,) * 4, 0))


def _tile(tile: Tile | None, step: int | None, rows: int, width: int, depth: int) -> Tile:
    """The plan's tile, K step replaced where given; without a plan the whole image, in one step."""
    if tile is None:
        return Tile(rows, rows * width, depth, 1)
    step = step or tile.step
    return Tile(tile.rows, tile.positions, step, depth // step)
