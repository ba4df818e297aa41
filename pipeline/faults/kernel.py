"""Faults of a kernel: another plan, or another typed program, as a bug in its source would give."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from emulator.program import (
    Binary,
    Call,
    For,
    If,
    LoopVar,
    Operand,
    Program,
    Ref,
    Spoil,
    Statement,
    evaluate,
)
from emulator.soc import FRACTAL_DEPTH, FRACTAL_ROWS
from kernels.plan import Window
from pipeline.faults import spoils
from pipeline.faults.origins import origins, requantised_by
from pipeline.ground.words import counted
from workloads.base import FaultModel
from workloads.faults import Fault, band_class, no_place, shift_of, shifted_bands
from workloads.form import Convolution, Form, FormError, Loading

Block = tuple[Statement, ...]


def faulty_plan(fault: Fault, plan: Any, model: FaultModel) -> Any:
    """The plan of a kernel that has the fault; the same for a fault that is not in the plan."""
    if fault.id not in ("band-up", "band-down"):
        return plan

    def move(windows: Sequence[Window], height: int) -> Sequence[Window]:
        moved = shifted_bands(fault, height, windows)
        return [
            replace(window, row=window.row + shift_of(fault)) if number in moved else window
            for number, window in enumerate(windows)
        ]

    return model.moved(plan, move)


def faulty_program(fault: Fault, program: Program, form: Form, variant: str) -> Program:
    """The typed program with the fault; the same where it has no place for it.

    Args:
        fault: the fault.
        program: what the reader made of it.
        form: what it is made of.
        variant: the requantisation that is right.

    Raises:
        FormError: the form is not that of the program.
    """
    if no_place(fault, form):
        return program
    functions = {
        key: function
        if function.orchestration
        else replace(
            function, body=_Faulty(fault, form, variant, origins(program, function)).of(function.body)
        )
        for key, function in program.functions.items()
    }
    return replace(program, functions=functions)


@dataclass(frozen=True)
class _Faulty:
    """Commits a fault in an InCore function; `origins` tell which convolution an operator belongs to."""

    fault: Fault
    form: Form
    variant: str
    origins: Mapping[str, frozenset[str]]

    def of(self, body: Block) -> Block:
        """The body with the fault."""
        fault = self.fault
        if fault.family == "wrong-stride":
            return _each_call(body, self._other_stride)
        if fault.family.startswith("no-padding"):
            return self._past_edge(body)
        if fault.family in ("k-step-skipped", "k-step-twice"):
            return _each_block(body, self._last_step)
        if fault.family == "acc-not-reset":
            return _each_block(body, self._without_reset)
        if fault.id == "map-corrupted":
            return _each_block(body, self._corrupted_map)
        if fault.step == f"requant{fault.conv}":
            how = _requantisation(fault, self.variant)
            return body if how is None else _spoiled(body, self._ends_tile, how)
        change = self._map_change()
        return body if change is None else _spoiled(body, self._fills_map_of_second, change)

    # -- what a call is for

    def _reads(self, operand: Operand | None, tensor: str) -> bool:
        return isinstance(operand, Ref) and tensor in self.origins.get(operand.name, ())

    def _ends_tile(self, statement: Statement) -> bool:
        """Whether this requantises an ACC tile of the fault's convolution."""
        if not isinstance(statement, Call) or not statement.operator.startswith("tile.fixpipe_"):
            return False
        return self._reads(statement.operands.get("scale"), self.form.chain[self.fault.conv - 1].scale)

    def _unfolds(self, call: Call) -> bool:
        """Whether this is img2col of the fault's convolution."""
        convolution = self.form.convolution(self.fault.conv)
        return (
            call.operator == "tile.img2col"
            and convolution is not None
            and self._reads(call.operands.get("tile"), self._map_of(convolution))
        )

    def _map_of(self, convolution: Convolution) -> str:
        """What a convolution's feature map originates from: a GM tensor, or the table of the one before."""
        if convolution.loading is Loading.IN_L1:
            return requantised_by(self.form.chain[convolution.number - 2].scale)
        return convolution.read_from

    def _fills_map_of_second(self, call: Call) -> bool:
        """Whether this writes the feature map of the second convolution."""
        second = self.form.convolution(2)
        if second is None:
            return False
        if second.loading is Loading.IN_L1:
            table = self.form.chain[0].scale
            return call.operator == "tile.fixpipe_requant" and self._reads(call.operands["scale"], table)
        return call.operator == "load" and call.operands["tensor"] == Ref(second.read_from)

    def _map_change(self) -> Spoil | None:
        """How the fault changes the second convolution's feature map in L1; None if it does not."""
        if len(self.form.chain) < 2:
            return None
        layer = self.form.chain[1]
        halo = max(0, layer.conv.kernel - layer.conv.stride) * layer.width
        changes = {
            "nz-as-nd-mid": spoils.nz_as_nd,
            "nd-as-nz-mid": spoils.nd_as_nz,
            "planes-swapped-2": spoils.rotate_planes,
            "halo-stale": spoils.stale_rows(halo),
        }
        change = changes.get(self.fault.id)
        return None if change is None else spoils.whole_map(change)

    # -- the faults

    def _other_stride(self, call: Call) -> Call:
        if not self._unfolds(call):
            return call
        stride = call.operands["stride"]
        assert isinstance(stride, tuple)
        assert isinstance(stride[0], int)
        wrong = 2 if stride[0] == 1 else stride[0] - 1
        return replace(call, operands={**call.operands, "stride": (wrong, wrong)})

    def _past_edge(self, body: Block) -> Block:
        spoil = spoils.past_edge(self.fault.family.removeprefix("no-padding-"))
        wanted = band_class(self.fault)

        def changed(statement: Statement, classes: set[str]) -> Statement:
            if wanted and wanted not in classes:
                return statement
            return _spoiled((statement,), self._unfolds, spoil)[0]

        return tuple(map(changed, body, self._classes(body)))

    def _classes(self, body: Block) -> list[set[str]]:
        """Which bands each statement of a body works for: a single band is the first and the last.

        A band begins where its feature map is filled again after it was unfolded; a loop that fills and
        unfolds one works for as many bands as it has rounds.

        Raises:
            FormError: the form has another number of bands than the body.
        """
        convolution = self.form.convolution(self.fault.conv)
        order = convolution.order if convolution is not None else ()
        last = len(order) - 1
        band, unfolded = 0, False
        found = []
        for statement in body:
            fills = self._fills(statement)
            unfolds = any(map(self._unfolds, _calls((statement,))))
            if unfolded and fills:
                band, unfolded = band + 1, False
            rounds = 1
            if fills and unfolds and isinstance(statement, For):
                rounds = evaluate(statement.stop, {}) - evaluate(statement.start, {})
            of = order[band : band + rounds]
            found.append(
                {
                    name
                    for name, here in (
                        ("first", 0 in of),
                        ("last", last in of),
                        ("interior", any(0 < number < last for number in of)),
                    )
                    if here
                }
            )
            unfolded |= unfolds
            band += rounds - 1
        if unfolded and band != last:
            raise FormError(
                f"convolution {self.fault.conv}: the form has {counted(last + 1, 'band')}, "
                f"the program {counted(band + 1, 'band')}"
            )
        return found

    def _fills(self, statement: Statement) -> bool:
        """Whether this makes a feature map of the fault's convolution anew, or begins to."""
        convolution = self.form.convolution(self.fault.conv)
        return convolution is not None and any(
            call.operator in ("tile.create", "load")
            and self._reads(Ref(call.target), self._map_of(convolution))
            for call in _calls((statement,))
        )

    def _last_step(self, block: Block) -> Block:
        """A block that makes an ACC tile, with the last step of its K loop left out or done twice."""
        loops = [
            number
            for number, statement in enumerate(block)
            if isinstance(statement, For) and _accumulates(statement)
        ]
        if not loops or not any(map(self._ends_tile, block)):
            return block
        loop = block[loops[-1]]
        assert isinstance(loop, For)
        last = Binary("-", loop.stop, 1)
        again = replace(loop, start=last, body=_each_call(loop.body, replace))  # calls of its own
        steps = (replace(loop, stop=last),) if self.fault.family == "k-step-skipped" else (loop, again)
        return (*block[: loops[-1]], *steps, *block[loops[-1] + 1 :])

    def _without_reset(self, block: Block) -> Block:
        """A block whose loops over ACC tiles reset the accumulator in their first round only."""

        def changed(loop: For, call: Statement) -> Statement:
            if not isinstance(call, Call) or call.operator != "tile.matmul_bias":
                return call
            operands = {"acc": Ref(call.target), "a": call.operands["a"], "b": call.operands["b"]}
            onto = replace(call, operator="tile.matmul_acc", operands=operands)
            return If(call.position, Binary("==", LoopVar(loop.variable), loop.start), (call,), (onto,))

        return tuple(
            replace(statement, body=tuple(changed(statement, call) for call in statement.body))
            if isinstance(statement, For) and any(map(self._ends_tile, statement.body))
            else statement
            for statement in block
        )

    def _corrupted_map(self, block: Block) -> Block:
        """A block in which the filter is loaded over the start of each feature map that was gathered."""
        taps = self.form.chain[0].filter

        def changed(statement: Statement) -> Block:
            gathered = statement.body[-1] if isinstance(statement, For) and statement.body else None
            if not isinstance(gathered, Call) or gathered.operator != "tile.gather_row":
                return (statement,)
            over: dict[str, Operand] = {
                "tile": Ref(gathered.target),
                "tensor": Ref(taps),
                "dst_offset": (0, 0),
                "src_offset": (0, 0),
                "shapes": (FRACTAL_ROWS, FRACTAL_DEPTH),
            }
            return (statement, replace(gathered, operands=over))

        return tuple(found for statement in block for found in changed(statement))


def _requantisation(fault: Fault, variant: str) -> Spoil | None:
    """How a table is read wrongly; None if the table itself is wrong."""
    if fault.family in ("round-then-add", "half-away", "offset-unsigned", "scale32", "fma", "exact"):
        return spoils.requantised(spoils.read_as(fault.family))
    how = {
        "offset-sign": spoils.offset_subtracted,
        "no-saturation": spoils.unsaturated,
        "per-row-scale": spoils.by_row,
    }.get(fault.family)
    return None if how is None else spoils.requantised(how(variant))


# -- rewriting: a typed program has loops only, because branches are decided when the kernel is read


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


def _accumulates(loop: For) -> bool:
    return any(isinstance(step, Call) and step.operator == "tile.matmul_acc" for step in loop.body)
