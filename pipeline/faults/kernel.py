"""Faults of a kernel: another plan, or another typed program, as a bug in its source would give."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from emulator.operands import Binary, LoopVar, Operand, Ref, evaluate, variables
from emulator.program import Block, Call, For, If, Program, Spoil, Statement, each_block, flat
from emulator.soc import FRACTAL_DEPTH, FRACTAL_ROWS
from emulator.vreq8 import READINGS, requantise
from golden.chain import Layer
from pipeline.faults import spoils
from pipeline.faults.origins import origins, requantised_by
from pipeline.ground.words import counted
from workloads.base import FaultModel
from workloads.faults import Fault, band_class, halo_rows, moved_windows, no_place, other_stride, padded_side
from workloads.form import Convolution, Form, FormError, Loading


def faulty_plan(fault: Fault, plan: Any, model: FaultModel) -> Any:
    """The plan of a kernel that has the fault; the same for a fault that is not in the plan."""
    if fault.id not in ("band-up", "band-down"):
        return plan
    return model.moved(plan, lambda windows, height: moved_windows(fault, height, windows))


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

    @property
    def convolution(self) -> Convolution:
        """The one that the fault is in, or that a hand-over is to; `no_place` has seen that there is one."""
        found = self.form.convolution(self.fault.conv or 2)
        assert found is not None
        return found

    def of(self, body: Block) -> Block:
        """The body with the fault."""
        family = self.fault.family
        if family == "wrong-stride":
            return _each_call(body, self._other_stride)
        if family.startswith("no-padding"):
            return self._past_edge(body)
        if family in ("k-step-skipped", "k-step-twice"):
            return each_block(body, self._last_step)
        if family == "acc-not-reset":
            return each_block(body, self._without_reset)
        if family == "map-corrupted":
            return each_block(body, self._corrupted_map)
        if family in _OTHER_READINGS:
            return _spoiled(body, self._ends_tile, spoils.requantised(requantise, READINGS[family]))
        if family in _REQUANTISED:
            spoil = spoils.requantised(_REQUANTISED[family], READINGS[self.variant])
            return _spoiled(body, self._ends_tile, spoil)
        if self.fault.id in _MAP_CHANGES:
            change = _MAP_CHANGES[self.fault.id](self.convolution.layer)
            window = self.convolution.parts[0].window
            pixels = window.rows * self.convolution.layer.width
            return _spoiled(body, self._fills_map_of_second, spoils.whole_map(change, pixels))
        return body

    # -- what a call is for

    def _reads(self, operand: Operand | None, tensor: str) -> bool:
        return isinstance(operand, Ref) and tensor in self.origins.get(operand.name, ())

    def _ends_tile(self, statement: Statement) -> bool:
        """Whether this requantises an ACC tile of the fault's convolution."""
        if not isinstance(statement, Call) or not statement.operator.startswith("tile.fixpipe_"):
            return False
        return self._reads(statement.operands.get("scale"), self.convolution.layer.scale)

    def _over_tiles(self, loop: For) -> bool:
        """Whether a loop makes ACC tiles of the fault's convolution, all with the same table entries."""
        ends = [each for each in loop.body if isinstance(each, Call) and self._ends_tile(each)]
        made = {each.target for each in loop.body if isinstance(each, Call)}
        return bool(ends) and not any(
            isinstance(scale := each.operands["scale"], Ref) and scale.name in made for each in ends
        )

    def _unfolds(self, call: Call) -> bool:
        """Whether this is img2col of the fault's convolution."""
        return call.operator == "tile.img2col" and self._reads(call.operands.get("tile"), self._map)

    def _fills(self, call: Call) -> bool:
        """Whether this makes a feature map of the fault's convolution anew, or begins to."""
        return call.operator in ("tile.create", "load") and self._reads(Ref(call.target), self._map)

    @property
    def _map(self) -> str:
        """What the convolution's feature map originates from: a GM tensor, or the table of the one before."""
        if self.convolution.loading is Loading.IN_L1:
            return requantised_by(self._table_before)
        return self.convolution.read_from

    @property
    def _table_before(self) -> str:
        return self.form.chain[self.convolution.number - 2].scale

    def _fills_map_of_second(self, call: Call) -> bool:
        """Whether this writes the feature map of the second convolution."""
        if self.convolution.loading is Loading.IN_L1:
            table = call.operands.get("scale")
            return call.operator == "tile.fixpipe_requant" and self._reads(table, self._table_before)
        loads = call.operator in ("load", "tile.gather_row")
        return loads and self._reads(call.operands["tensor"], self._map)

    # -- the faults

    def _other_stride(self, call: Call) -> Call:
        if not self._unfolds(call):
            return call
        conv = self.convolution.layer.conv
        wrong = tuple(other_stride(each) for each in (conv.stride_rows, conv.stride_columns))
        return replace(call, operands={**call.operands, "stride": wrong}, written={})

    def _past_edge(self, body: Block) -> Block:
        spare = self.convolution.parts[0].window.spare
        spoil = spoils.past_edge(padded_side(self.fault), spare)
        wanted = band_class(self.fault)
        spoiled = _spoiled(body, self._unfolds, spoil)
        return tuple(
            wrong if not wanted or wanted in classes else right
            for right, wrong, classes in zip(body, spoiled, self._classes(body), strict=True)
        )

    def _classes(self, body: Block) -> list[set[str]]:
        """Which bands each statement of a body works for: a single band is the first and the last.

        A band begins where its feature map is filled again after it was unfolded; a loop that fills and
        unfolds one works for as many bands as it has rounds, if it is not over blocks of output channels.

        Raises:
            FormError: the form has another number of bands than the body.
        """
        order = self.convolution.order
        last = len(order) - 1
        band, unfolded = 0, False
        found = []
        for statement in body:
            calls = [call for call in flat((statement,)) if isinstance(call, Call)]
            fills, unfolds = any(map(self._fills, calls)), any(map(self._unfolds, calls))
            if unfolded and fills:
                band, unfolded = band + 1, False
            rounds = 1
            if fills and unfolds and isinstance(statement, For) and not _over_blocks(statement):
                rounds = evaluate(statement.stop, {}) - evaluate(statement.start, {})
            of = order[band : band + rounds]
            classes = {"first": 0 in of, "last": last in of, "interior": any(0 < one < last for one in of)}
            found.append({name for name, here in classes.items() if here})
            unfolded |= unfolds
            band += rounds - 1
        if unfolded and band != last:
            raise FormError(
                f"convolution {self.fault.conv}: the form has {counted(last + 1, 'band')}, "
                f"the program {counted(band + 1, 'band')}"
            )
        return found

    def _last_step(self, block: Block) -> Block:
        """A block that makes an ACC tile, with the last step of its K loop left out or done twice."""
        loops = [number for number, statement in enumerate(block) if _accumulates(statement)]
        if not loops or not any(map(self._ends_tile, block)):
            return block
        loop = block[loops[-1]]
        assert isinstance(loop, For)
        return (*block[: loops[-1]], *self._step_changed(loop), *block[loops[-1] + 1 :])

    def _step_changed(self, loop: For) -> Block:
        """A K loop, or a loop that comes to its steps piece by piece, with its last step changed."""
        last = Binary("-", loop.stop, 1)
        inner = [each for each in loop.body if isinstance(each, For) and _accumulates(each)]
        if inner:
            whole = If(
                inner[-1].position,
                Binary("==", LoopVar(loop.variable), last),
                self._step_changed(inner[-1]),
                (inner[-1],),
            )
            return (replace(loop, body=_replaced(loop.body, inner[-1], whole), written=()),)
        if evaluate(loop.stop, {}) <= evaluate(loop.start, {}):
            return (loop,)  # the only step begins the sum
        again = replace(loop, start=last, body=_each_call(loop.body, replace), written=())  # calls of its own
        shorter = replace(loop, stop=last, body=_each_call(loop.body, replace), written=())
        return (shorter,) if self.fault.family == "k-step-skipped" else (loop, again)

    def _without_reset(self, block: Block) -> Block:
        """A block whose loops over ACC tiles reset the accumulator in their first round only."""

        def changed(loop: For, call: Statement) -> Statement:
            if not isinstance(call, Call) or call.operator != "tile.matmul_bias":
                return call
            operands = {"acc": Ref(call.target), "a": call.operands["a"], "b": call.operands["b"]}
            onto = replace(call, operator="tile.matmul_acc", operands=operands, written={})
            return If(call.position, Binary("==", LoopVar(loop.variable), loop.start), (call,), (onto,))

        return tuple(
            replace(statement, body=tuple(changed(statement, call) for call in statement.body))
            if isinstance(statement, For) and self._over_tiles(statement)
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
            return (statement, replace(gathered, operands=over, written={}))

        return tuple(found for statement in block for found in changed(statement))


_OTHER_READINGS = ("round-then-add", "half-away", "offset-unsigned", "scale32", "fma", "exact")
"""Families in which a right table is read as another variant reads its own."""

_REQUANTISED: Mapping[str, spoils.Requantise] = {
    "offset-sign": spoils.offset_subtracted,
    "no-saturation": spoils.unsaturated,
    "per-row-scale": spoils.by_row,
}
_MAP_CHANGES: Mapping[str, Callable[[Layer], spoils.MapChange]] = {
    "nz-as-nd-mid": lambda layer: spoils.nz_as_nd,
    "nd-as-nz-mid": lambda layer: spoils.nd_as_nz,
    "planes-swapped-2": lambda layer: spoils.rotate_planes,
    "halo-stale": lambda layer: spoils.stale_rows(halo_rows(layer.conv), layer.width),
}
"""How a fault changes the second convolution's feature map in L1."""


def _each_call(block: Block, change: Callable[[Call], Call]) -> Block:
    """The block with every call in it, at any depth, replaced by what `change` gives."""

    def changed(inner: Block) -> Block:
        return tuple(change(each) if isinstance(each, Call) else each for each in inner)

    return each_block(block, changed)


def _spoiled(block: Block, chosen: Callable[[Call], bool], spoil: Spoil) -> Block:
    return _each_call(block, lambda call: replace(call, spoil=spoil) if chosen(call) else call)


def _accumulates(statement: Statement) -> bool:
    """Whether it is a K loop, or a loop over slices of one."""
    return isinstance(statement, For) and any(
        (isinstance(step, Call) and step.operator == "tile.matmul_acc") or _accumulates(step)
        for step in statement.body
    )


def _over_blocks(loop: For) -> bool:
    """Whether a loop is over blocks of output channels: tiles go to columns that it counts."""
    return any(
        isinstance(call, Call)
        and call.operator.startswith("tile.fixpipe_")
        and isinstance(offsets := call.operands["offsets"], tuple)
        and loop.variable in variables(offsets[1])
        for call in flat(loop.body)
    )


def _replaced(block: Block, old: Statement, new: Statement) -> Block:
    return tuple(new if each is old else each for each in block)
