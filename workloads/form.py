"""The form of a program: which convolutions it is made of, what each reads, how its bands follow each other.

Injection, diagnosis and the compare lane read this, so that they need not know any program by its name. A
program without a form is still run and compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from golden.chain import Layer
from golden.errors import UserError
from golden.geometry import C0
from kernels.plan import Tile
from kernels.windows import Window

_DESCRIBED = 2
"""The most convolutions of a chain that faults, hypotheses and steps can describe."""


class FormError(UserError):
    """A form contradicts itself or its program; the message says which convolution and what is wrong."""


class Loading(str, Enum):
    """How the feature map of a convolution comes into L1."""

    PLAIN = "plain load"
    """By plain loads, one for each C1 plane."""
    GATHERED = "gather"
    """Plane by plane, gathered into one tile beside everything that is resident in L1."""
    PACKED = "packed by the host"
    """By one load of a matrix [H*W, C] that the host packed."""
    ROWS = "load of rows"
    """By one load of rows that another program stored in GM as NHWC."""
    IN_L1 = "in L1"
    """Without a load: the convolution before writes it there."""


@dataclass(frozen=True)
class Part:
    """A band as one convolution sees it: `rows` output rows from image row `row`, and what they read."""

    row: int
    rows: int
    window: Window


@dataclass(frozen=True)
class Convolution:
    """One convolution of a program.

    Attributes:
        number: its place in the workload's chain, from 1.
        layer: its shapes and the names of its tensors.
        source: the tensor that its feature map holds: an input of the workload, or the output of the
            convolution before.
        loading: how the map comes into L1.
        parts: its bands, in the order of their image rows.
        order: indices into `parts`, in the order in which the program computes them.
        tile: its ACC tile and K loop.
        whole: whether the parts make up the whole output; False if only a first tile is computed.
        parameter: the program's parameter that holds the map, if the host makes it; empty if it has the
            source's name.

    Raises:
        FormError: the order does not name each part once, a part has no rows or reads rows outside the image,
            or the tile is not of this convolution; its layer is one for which the host has to pack.
    """

    number: int
    layer: Layer
    source: str
    loading: Loading
    parts: tuple[Part, ...]
    order: tuple[int, ...]
    tile: Tile
    whole: bool = True
    parameter: str = ""

    def __post_init__(self) -> None:
        layer, tile = self.layer, self.tile
        if layer.cin % C0 or layer.cout % C0 or layer.groups > 1 or layer.conv.dilation != 1:
            self._refuse(
                f"it has {layer.cin} and {layer.cout} channels in {layer.groups} groups, dilation "
                f"{layer.conv.dilation}: must be what a program computes: multiples of {C0} channels in one "
                "group, without dilation"
            )
        if sorted(self.order) != list(range(len(self.parts))):
            self._refuse(
                f"order {list(self.order)} must name each of its {len(self.parts)} parts once, from 0"
            )
        if -(-tile.positions // layer.out_width) != tile.rows or tile.step * tile.steps != layer.depth:
            self._refuse(
                f"a tile of {tile.rows} rows, {tile.positions} positions and K = {tile.steps} x {tile.step} "
                f"must have rows of {layer.out_width} positions and steps that add up to {layer.depth}"
            )
        for part in self.parts:
            if part.rows < 1:
                self._refuse(f"a part has {part.rows} rows: must be at least 1")
            window = part.window
            if window.row < 0 or window.row + window.rows > layer.height:
                self._refuse(
                    f"a part reads rows {window.row}..{window.row + window.rows - 1} "
                    f"of an image of {layer.height}"
                )

    @property
    def read_from(self) -> str:
        """The program's parameter that holds the map; for a map in L1, the name that it would have in GM."""
        return self.parameter or self.source

    @property
    def by_planes(self) -> bool:
        """Whether L1 never holds the whole feature map of a band, but one C1 plane of it at a time."""
        return self.tile.planes > 0

    @property
    def columns(self) -> int:
        """Output channels of an ACC tile."""
        return self.tile.columns or self.layer.cout

    @property
    def sizes(self) -> list[int]:
        """Output positions of each part."""
        sizes = [part.rows * self.layer.out_width for part in self.parts]
        return sizes if self.whole else [min(size, self.tile.positions) for size in sizes]

    def stored(self) -> Iterator[tuple[slice, slice]]:
        """The positions and channels of its output that each ACC tile gives, if parts do not overlap."""
        start = 0
        for size in self.sizes:
            for column in range(0, self.layer.cout, self.columns):
                for row in range(start, start + size, self.tile.positions):
                    end = min(row + self.tile.positions, start + size)
                    yield slice(row, end), slice(column, column + self.columns)
            start += size

    def _refuse(self, why: str) -> None:
        raise FormError(f"convolution {self.number}: {why}")


@dataclass(frozen=True)
class Form:
    """What a program is made of: all layers of its workload, and the convolutions it computes, in order.

    Raises:
        FormError: the chain is longer than two; there is no convolution; the parts of the last do not follow
            each other from the first row of its output to the last; a map in L1 does not have the rows that
            the convolution before gives.
    """

    chain: tuple[Layer, ...]
    convolutions: tuple[Convolution, ...]

    def __post_init__(self) -> None:
        if len(self.chain) > _DESCRIBED:
            raise FormError(
                f"a chain of {len(self.chain)} convolutions cannot have a form, which describes at most "
                f"{_DESCRIBED}: leave `form` out"
            )
        if not self.convolutions:
            raise FormError("a form must have a convolution")
        self._check_last()
        for one in self.convolutions:
            before = self.convolution(one.number - 1)
            if one.loading is Loading.IN_L1 and (
                before is None
                or [(part.row, part.rows) for part in before.parts]
                != [(part.window.row, part.window.rows) for part in one.parts]
            ):
                raise FormError(
                    f"convolution {one.number}: its map in L1 must have the rows that the parts of the "
                    "convolution before give"
                )

    def _check_last(self) -> None:
        """The parts of the last convolution are the rows of the output, each once."""
        end = 0
        for part in self.last.parts:
            if part.row != end:
                raise FormError(f"convolution {self.last.number}: a part begins at row {part.row}, not {end}")
            end += part.rows
        height = self.last.layer.out_height
        if end > height or (self.last.whole and end != height):
            raise FormError(
                f"convolution {self.last.number}: its parts give {end} rows of {self.last.layer.output}, "
                f"which has {height}"
            )

    def convolution(self, number: int) -> Convolution | None:
        """The convolution of this number; None if the program does not have it."""
        return next((one for one in self.convolutions if one.number == number), None)

    @property
    def last(self) -> Convolution:
        """The convolution whose output the program gives."""
        return self.convolutions[-1]

    @property
    def gives_all(self) -> bool:
        """Whether the program gives the whole of the workload's last output."""
        return self.last.number == len(self.chain) and self.last.whole

    def then(self, other: Form) -> Form:
        """The form of two programs, the second of which reads the output of the first."""
        return Form(self.chain, (*self.convolutions, *other.convolutions))


def in_order(parts: Sequence[Part]) -> tuple[int, ...]:
    """The order of bands that are computed from the top of the image to its bottom."""
    return tuple(range(len(parts)))


def whole_image(layer: Layer) -> tuple[Part, ...]:
    """The one part of a convolution without a plan: the whole image, with all its padding."""
    return (Part(0, layer.out_height, Window(0, layer.height, layer.conv.sides, 0)),)


def one_step(layer: Layer) -> Tile:
    """The tile of a convolution without a plan: the whole image, K in one step."""
    return Tile(layer.out_height, layer.out_height * layer.out_width, layer.depth, 1)


def plane_by_plane(tile: Tile, layer: Layer) -> Tile:
    """A tile whose K loop runs plane by plane, with C0 channels of one tap in each step."""
    return replace(tile, step=C0, steps=layer.depth // C0)
