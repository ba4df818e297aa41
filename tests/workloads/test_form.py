"""The form of each shipped program against what its typed program really does, step by step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import emulator.language
from emulator.operands import Binary, LoopVar, Ref, evaluate
from emulator.program import Call, For, Function, If, Program, Statement
from golden import conv, conv_pair
from golden.geometry import Conv, ConvGeometry, Geometry
from kernels.plan import Limits, Tile
from kernels.windows import Window
from pipeline.faults.origins import origins, requantised_by
from workloads.base import Workload
from workloads.form import Convolution, Form, Loading
from workloads.registry import workload_named

Case = tuple[str, str, Any, Mapping[str, int]]

OPERATOR = {
    Loading.PLAIN: "load",
    Loading.GATHERED: "tile.gather_row",
    Loading.PACKED: "load",
    Loading.ROWS: "load",
}


@dataclass(frozen=True)
class Step:
    """An operator as it is executed: its operands as names and numbers."""

    operator: str
    operands: Mapping[str, Any]


def executed(statements: Sequence[Statement], loops: Mapping[str, int]) -> Iterator[Step]:
    """The operators of a function in the order in which they are executed."""
    for statement in statements:
        if isinstance(statement, Call):
            operands = {name: number(operand, loops) for name, operand in statement.operands.items()}
            yield Step(statement.operator, operands)
        elif isinstance(statement, For):
            for value in range(evaluate(statement.start, loops), evaluate(statement.stop, loops)):
                yield from executed(statement.body, {**loops, statement.variable: value})
        elif isinstance(statement, If):
            taken = statement.then if evaluate(statement.condition, loops) else statement.orelse
            yield from executed(taken, loops)


def number(operand: Any, loops: Mapping[str, int]) -> Any:
    if isinstance(operand, tuple):
        return tuple(number(one, loops) for one in operand)
    if isinstance(operand, Ref):
        return operand.name
    return evaluate(operand, loops) if isinstance(operand, (int, LoopVar, Binary)) else operand


def in_core(program: Program) -> Function:
    (function,) = (one for one in program.functions.values() if not one.orchestration)
    return function


def source_of(workload: Workload, program: str, convolution: Convolution, form: Form) -> str:
    """Where the feature map of a convolution must originate, by what the form says of it."""
    if convolution.loading is Loading.PACKED:
        (made,) = workload.program(program).host
        return made
    if convolution.loading is Loading.IN_L1:
        return requantised_by(form.chain[convolution.number - 2].scale)
    return convolution.source


def happens(program: Program, source: str) -> list[tuple[Any, ...]]:
    """What the program does for the convolution that reads a source: its loads, and its ACC tiles.

    A tile is told when it leaves L0C: how many K steps went into it, the position, shape, image and padding
    that they share, and where it is written to.
    """
    function = in_core(program)
    from_where = origins(program, function)
    events: list[tuple[Any, ...]] = []
    steps: list[tuple[Any, ...]] = []
    for step in executed(function.body, {}):
        operands = step.operands
        if step.operator in ("load", "tile.gather_row") and from_where[operands["tensor"]] == {source}:
            offset, shape = (
                (operands["src_offset"], operands["shapes"])
                if step.operator == "tile.gather_row"
                else (operands["offsets"], operands["shape"])
            )
            events.append((step.operator, offset, shape))
        elif step.operator == "tile.img2col":
            (origin,) = from_where[operands["tile"]]
            names = ("pos_m", "shape", "image_shape", "kernel_size", "stride", "padding")
            steps.append((origin, *(operands[name] for name in names)))
        elif step.operator.startswith("tile.fixpipe") and steps:
            assert len(set(steps)) == 1, "all K steps of a tile read the same rows of one map"
            origin, *how = steps[0]
            if origin == source:
                events.append(("tile", len(steps), *how, operands["offsets"]))
            steps = []
    assert not steps
    return events


def said(convolution: Convolution, *, in_gm: bool) -> Iterator[tuple[Any, ...]]:
    """What the form says that the program does for a convolution, which `happens` gives too.

    An output in GM is that of the whole image, one in L1 is a band's.
    """
    layer, tile = convolution.layer, convolution.tile
    conv = layer.conv
    kernel, stride = (conv.kernel_rows, conv.kernel_columns), (conv.stride_rows, conv.stride_columns)
    for place in convolution.order:
        part = convolution.parts[place]
        window = part.window
        start, pixels = window.row * layer.width, window.rows * layer.width
        held = window.rows + window.spare
        if convolution.loading in (Loading.PLAIN, Loading.GATHERED):
            for plane in range(layer.cin // 32):
                offset = plane * layer.height * layer.width + start
                yield OPERATOR[convolution.loading], (offset, 0), (pixels, 32)
        elif convolution.loading is Loading.ROWS:
            whole = window.spare == 0 and not tile.columns
            yield "load" if whole else "tile.gather_row", (start, 0), (pixels, layer.cin)
        elif convolution.loading is Loading.PACKED:
            yield "load", (0, 0), (held * layer.width, layer.cin)
        wanted = (
            part.rows * layer.out_width
            if convolution.whole
            else min(part.rows * layer.out_width, tile.positions)
        )
        first = window.skip * layer.out_width
        starts = range(0, wanted, tile.positions)
        # All tiles are whole: padding below brings the positions of the last one that are not wanted.
        top, bottom, left, right = window.padding
        asked_rows, wanted_rows = (
            (end - 1) // layer.out_width for end in (starts[-1] + tile.positions, wanted)
        )
        below = bottom + (asked_rows - wanted_rows) * conv.stride_rows - window.spare
        for column in range(0, layer.cout, tile.columns or layer.cout):
            for position in starts:
                yield (
                    "tile",
                    tile.steps,
                    first + position,
                    (tile.positions, tile.step),
                    (held, layer.width),
                    kernel,
                    stride,
                    (top, max(below, 0), left, right),
                    ((part.row * layer.out_width if in_gm else 0) + position, column),
                )


def test_the_program_does_what_its_form_says(described_case: Case, limits: Limits) -> None:
    """Which maps there are and whence, bands and their order, loads, ACC tiles, K steps, what is written."""
    name, program_name, geometry, options = described_case
    workload = workload_named(name)
    entry, plan = workload.program(program_name), workload.plan(geometry, limits, options)
    assert entry.form is not None
    form, program = entry.form(geometry, plan), entry.build(emulator.language, plan)
    function = in_core(program)
    from_where = origins(program, function)
    maps = {
        frozenset(from_where[step.operands["tile"]])
        for step in executed(function.body, {})
        if step.operator == "tile.img2col"
    }
    sources = {source_of(workload, program_name, one, form): one for one in form.convolutions}
    assert maps == {frozenset({source}) for source in sources}
    for source, convolution in sources.items():
        assert happens(program, source) == list(said(convolution, in_gm=convolution is form.last))


def test_a_form_is_about_the_layers_of_its_workload(described_case: Case, limits: Limits) -> None:
    name, program_name, geometry, options = described_case
    workload = workload_named(name)
    entry = workload.program(program_name)
    assert entry.form is not None
    layers = {"conv-pair": conv_pair, "conv": conv}[name].layers(geometry)
    for plan in (workload.plan(geometry, limits, options), None):
        form = entry.form(geometry, plan)
        assert form.chain == layers
        assert form.last.layer.output == entry.tensor
        assert form.last.whole == (entry.shape is None)
        assert form.gives_all == (form.last.layer.output == "y")
        for one in form.convolutions:
            assert one.layer == layers[one.number - 1]
            assert one.tile.step * one.tile.steps == one.layer.depth
            assert sorted(one.order) == list(range(len(one.parts)))
            if one.whole and one is form.last:
                rows = [row for part in one.parts for row in range(part.row, part.row + part.rows)]
                assert rows == list(range(one.layer.out_height)), "parts cut the output, each row once"
        for one, after in zip(form.convolutions, form.convolutions[1:], strict=False):
            assert after.source == one.layer.output
            assert after.loading is Loading.IN_L1
            assert [(part.row, part.rows) for part in one.parts] == [
                (part.window.row, part.window.rows) for part in after.parts
            ], "a band of one is the map of the next"


def test_the_order_of_bands_is_that_of_the_image_but_for_pass1(limits: Limits) -> None:
    workload = workload_named("conv-pair")
    geometry = Geometry(45, 32, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1))

    def orders(program: str, band_rows: int) -> list[tuple[int, ...]]:
        form = workload.program(program).form
        assert form is not None
        plan = workload.plan(geometry, limits, {"band_rows": band_rows})
        return [one.order for one in form(geometry, plan).convolutions]

    assert orders("fused", 5) == [(0, 1, 2, 3, 4)] * 2
    assert orders("pass1", 5) == [(1, 2, 3, 0, 4)], "interior bands first"
    assert orders("pass1", 12) == [(0, 1)]
    assert orders("pass2", 5) == [(0, 1, 2, 3, 4)]


def test_without_a_plan_a_form_is_the_whole_image_in_one_step() -> None:
    """As for CANN, which tiles otherwise: there is one band, with all its padding."""
    geometry = ConvGeometry(9, 7, 32, 64, Conv(3, 2, 1))
    (one,) = form_of("conv", "conv", geometry).convolutions
    ((part),) = one.parts
    assert (part.row, part.rows) == (0, 5)
    assert part.window == Window(0, 9, (1, 1, 1, 1), 0)
    assert one.order == (0,)
    assert one.tile == Tile(5, 5 * 4, 288, 1)


def form_of(workload: str, program: str, geometry: Any) -> Form:
    form = workload_named(workload).program(program).form
    assert form is not None
    return form(geometry, None)


def test_two_programs_one_after_the_other_have_the_form_of_both() -> None:
    geometry = Geometry(9, 7, 32, 64, 32, Conv(3, 2, 1), Conv(3, 1, 1))
    first, second = (form_of("conv-pair", name, geometry) for name in ("pass1", "pass2"))
    assert (first.gives_all, second.gives_all) == (False, True)
    assert first.convolution(2) is None
    assert second.convolution(1) is None
    both = first.then(second)
    assert both.convolutions == (*first.convolutions, *second.convolutions)
    assert both.chain == first.chain
    assert both.convolution(1) is first.convolutions[0]
    assert both.last is second.convolutions[0]
    assert both.gives_all
