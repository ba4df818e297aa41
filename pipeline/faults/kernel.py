"""Faults of a kernel: another plan, or another typed program, as a bug in its source would give."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from emulator.program import Binary, Call, For, If, LoopVar, Operand, Program, Ref, Spoil, Statement
from emulator.soc import FRACTAL_DEPTH, FRACTAL_ROWS
from kernels.plan import Plan
from pipeline.faults import spoils
from pipeline.faults.catalogue import Fault, band_class, shift_of, shifted_bands

Block = tuple[Statement, ...]

_CORRUPTED = ("fused", "first-tile-fused-alloc")
"""Programs whose feature map lies at the fused kernel's address."""


def faulty_plan(fault: Fault, plan: Plan) -> Plan:
    """The plan of a kernel that has the fault; the same for a fault that is not in the plan."""
    if fault.id not in ("band-up", "band-down"):
        return plan
    shift, height = shift_of(fault), plan.geometry.height
    moved = shifted_bands(fault, height, [band.x for band in plan.bands])
    moved_of_mid = shifted_bands(fault, height, [x for _, _, x in plan.pass1])
    return replace(
        plan,
        bands=tuple(
            replace(band, x=replace(band.x, row=band.x.row + shift)) if number in moved else band
            for number, band in enumerate(plan.bands)
        ),
        pass1=tuple(
            (row, rows, replace(x, row=x.row + shift) if number in moved_of_mid else x)
            for number, (row, rows, x) in enumerate(plan.pass1)
        ),
    )


def faulty_program(fault: Fault, name: str, program: Program, plan: Plan, variant: str) -> Program:
    """The typed program with the fault; the same where it has no place for it.

    Args:
        fault: the fault.
        name: the program's name in `kernels.catalogue`.
        program: what the reader made of it.
        plan: how it is tiled.
        variant: the requantisation that is right.
    """
    functions = {
        key: function
        if function.orchestration
        else replace(function, body=_faulty_body(fault, name, function.body, plan, variant))
        for key, function in program.functions.items()
    }
    return replace(program, functions=functions)


def _faulty_body(fault: Fault, name: str, body: Block, plan: Plan, variant: str) -> Block:
    """The body of an InCore function with the fault."""
    if fault.family == "wrong-stride":
        return _each_call(body, lambda call: _other_stride(fault, name, call))
    if fault.family.startswith("no-padding"):
        return _past_edge(fault, name, body, plan)
    if fault.family in ("k-step-skipped", "k-step-twice"):
        return _each_block(body, lambda block: _last_step(fault, name, block))
    if fault.family == "acc-not-reset":
        return _each_block(body, lambda block: _without_reset(fault, name, block))
    if fault.id == "map-corrupted":
        return _each_block(body, _corrupted_map) if name in _CORRUPTED else body
    if fault.step == f"requant{fault.conv}":
        how = _requantisation(fault, variant)
        return body if how is None else _spoiled(body, lambda call: _ends_tile(fault, name, call), how)
    change = _map_change(fault, plan)
    return body if change is None else _spoiled(body, lambda call: _fills_mid(name, call), change)


def _requantisation(fault: Fault, variant: str) -> Spoil | None:
    """How a table is read wrongly; None where it is the table that is wrong."""
    if fault.family in ("round-then-add", "half-away", "offset-unsigned", "scale32"):
        return spoils.requantised(spoils.read_as(fault.family))
    how = {
        "offset-sign": spoils.offset_subtracted,
        "no-saturation": spoils.unsaturated,
        "per-row-scale": spoils.by_row,
    }.get(fault.family)
    return None if how is None else spoils.requantised(how(variant))


def _map_change(fault: Fault, plan: Plan) -> Spoil | None:
    """What conv2's feature map suffers in L1; None where it suffers nothing."""
    geometry = plan.geometry
    halo = max(0, geometry.conv2.kernel - geometry.conv2.stride) * geometry.mid_width
    change = {
        "nz-as-nd-mid": spoils.nz_as_nd,
        "nd-as-nz-mid": spoils.nd_as_nz,
        "planes-swapped-2": spoils.rotate_planes,
        "halo-stale": spoils.stale_rows(halo),
    }.get(fault.id)
    return None if change is None else spoils.whole_map(change)


# -- what a call is for


def _ends_tile(fault: Fault, name: str, statement: Statement) -> bool:
    """Whether this requantises an ACC tile of the fault's convolution."""
    if not isinstance(statement, Call) or not statement.operator.startswith("tile.fixpipe_"):
        return False
    second = name == "pass2" or (name == "fused" and statement.operator == "tile.fixpipe_store")
    return fault.conv == (2 if second else 1)


def _unfolds(fault: Fault, name: str, call: Call) -> bool:
    """Whether this is img2col of the fault's convolution."""
    second = name == "pass2" or (name == "fused" and call.operands.get("tile") == Ref("mid"))
    return call.operator == "tile.img2col" and fault.conv == (2 if second else 1)


def _fills_mid(name: str, call: Call) -> bool:
    """Whether this writes the feature map of conv2."""
    if name == "pass2":
        return call.operator == "load" and call.operands["tensor"] == Ref("mid")
    return name == "fused" and call.operator == "tile.fixpipe_requant"


# -- rewriting: the kernels have loops only, their branches being decided when they are read


def _each_call(block: Block, change: Callable[[Call], Call]) -> Block:
    """The block with every call in it, at any depth, replaced by what `change` gives."""

    def changed(statement: Statement) -> Statement:
        if isinstance(statement, For):
            return replace(statement, body=_each_call(statement.body, change))
        return change(statement) if isinstance(statement, Call) else statement

    return tuple(map(changed, block))


def _each_block(block: Block, change: Callable[[Block], Block]) -> Block:
    """The block, and every loop's body in it, replaced by what `change` gives."""
    return change(
        tuple(
            replace(statement, body=_each_block(statement.body, change))
            if isinstance(statement, For)
            else statement
            for statement in block
        )
    )


def _calls(statements: Sequence[Statement]) -> Iterator[Call]:
    for statement in statements:
        if isinstance(statement, For):
            yield from _calls(statement.body)
        elif isinstance(statement, Call):
            yield statement


def _spoiled(block: Block, chosen: Callable[[Call], bool], spoil: Spoil) -> Block:
    return _each_call(block, lambda call: replace(call, spoil=spoil) if chosen(call) else call)


# -- the faults


def _other_stride(fault: Fault, name: str, call: Call) -> Call:
    if not _unfolds(fault, name, call):
        return call
    stride = call.operands["stride"]
    assert isinstance(stride, tuple)
    assert isinstance(stride[0], int)
    wrong = 2 if stride[0] == 1 else stride[0] - 1
    return replace(call, operands={**call.operands, "stride": (wrong, wrong)})


def _past_edge(fault: Fault, name: str, body: Block, plan: Plan) -> Block:
    spoil = spoils.past_edge(fault.family.removeprefix("no-padding-"))
    wanted = band_class(fault)

    def changed(statement: Statement, bands: set[str]) -> Statement:
        if wanted and wanted not in bands:
            return statement
        return _spoiled((statement,), lambda call: _unfolds(fault, name, call), spoil)[0]

    return tuple(map(changed, body, _bands_of(fault, name, body, plan)))


def _bands_of(fault: Fault, name: str, body: Block, plan: Plan) -> Iterator[set[str]]:
    """Which bands each statement of a body works for: a single band is the first and the last."""
    unfolding = [
        number
        for number, statement in enumerate(body)
        if any(_unfolds(fault, name, call) for call in _calls((statement,))) and not _many_bands(statement)
    ]
    for number, statement in enumerate(body):
        if _many_bands(statement):
            yield {"interior"}
        elif name.startswith("first-tile"):
            yield {"first"} if len(plan.bands) > 1 else {"first", "last"}
        else:
            ends = {"first": unfolding[:1], "last": unfolding[-1:]}
            yield {end for end, numbers in ends.items() if number in numbers}


def _many_bands(statement: Statement) -> bool:
    """Whether this is the loop over the bands between the first and the last: it fills a map each round."""
    return isinstance(statement, For) and any(
        call.operator in ("tile.create", "load") for call in _calls(statement.body)
    )


def _last_step(fault: Fault, name: str, block: Block) -> Block:
    """A block that makes an ACC tile, with the last step of its K loop left out or done twice."""
    loops = [
        number
        for number, statement in enumerate(block)
        if isinstance(statement, For) and _accumulates(statement)
    ]
    if not loops or not any(_ends_tile(fault, name, statement) for statement in block):
        return block
    loop = block[loops[-1]]
    assert isinstance(loop, For)
    last = Binary("-", loop.stop, 1)
    again = replace(loop, start=last, body=_each_call(loop.body, replace))  # calls of its own
    steps = (replace(loop, stop=last),) if fault.family == "k-step-skipped" else (loop, again)
    return (*block[: loops[-1]], *steps, *block[loops[-1] + 1 :])


def _accumulates(loop: For) -> bool:
    return any(isinstance(step, Call) and step.operator == "tile.matmul_acc" for step in loop.body)


def _without_reset(fault: Fault, name: str, block: Block) -> Block:
    """A block whose loops over ACC tiles begin a tile afresh in their first round only."""

    def changed(loop: For, call: Statement) -> Statement:
        if not isinstance(call, Call) or call.operator != "tile.matmul_bias":
            return call
        operands = {"acc": Ref(call.target), "a": call.operands["a"], "b": call.operands["b"]}
        onto = replace(call, operator="tile.matmul_acc", operands=operands)
        return If(call.position, Binary("==", LoopVar(loop.variable), loop.start), (call,), (onto,))

    return tuple(
        replace(statement, body=tuple(changed(statement, call) for call in statement.body))
        if isinstance(statement, For) and any(_ends_tile(fault, name, call) for call in statement.body)
        else statement
        for statement in block
    )


def _corrupted_map(block: Block) -> Block:
    """A block in which filter1 is loaded over the start of each feature map that was gathered."""

    def changed(statement: Statement) -> Block:
        gathered = statement.body[-1] if isinstance(statement, For) and statement.body else None
        if not isinstance(gathered, Call) or gathered.operator != "tile.gather_row":
            return (statement,)
        over: dict[str, Operand] = {
            "tile": Ref(gathered.target),
            "tensor": Ref("filter1"),
            "dst_offset": (0, 0),
            "src_offset": (0, 0),
            "shapes": (FRACTAL_ROWS, FRACTAL_DEPTH),
        }
        return (statement, replace(gathered, operands=over))

    return tuple(found for statement in block for found in changed(statement))
