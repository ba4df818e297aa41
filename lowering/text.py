"""A typed program as one C++ file: loops stay loops, every tile lies where the memory map places it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from emulator.memory import MemoryMap, place
from emulator.program import (
    Bind,
    Call,
    For,
    Function,
    If,
    Invoke,
    Program,
    Statement,
    TensorType,
    TileType,
    flat,
)
from emulator.soc import Soc, Space
from lowering.flags import Flag, Flags
from lowering.instructions import (
    INSTRUCTIONS,
    LoweringError,
    ctype,
    expression,
    loop_variable,
    reference,
    spare,
    tile_type,
)

_PREAMBLE = """\
#include <cstdint>
// The headers need the standard library's integers before them.
#include <pto/pto-inst.hpp>

namespace lowered {{
using namespace pto;

// What differs from a card on the simulator, and only there:
// - It keeps bias table, fixpipe table and UB in one memory: the tables get addresses of their own, after UB.
// - Its TSTORE_FP scales by row: what is requantised to GM goes through spare bytes of UB, after the tables.
// - Its event flags do nothing.
#ifdef __CPU_SIM
constexpr uint64_t BIAS = {bias}, SCALING = {scaling}, SPARE = {spare};
#else
constexpr uint64_t BIAS = 0, SCALING = 0;
#define STORES_AS_A_CARD
#endif

// A tile in L1, in fractals of 16 x 32 bytes, plane after plane of 32 columns.
template <int rows, int columns, int valid = columns, int valid_rows = rows>
using Fractals =
    Tile<TileType::Mat, int8_t, rows, columns, BLayout::ColMajor, valid_rows, valid, SLayout::RowMajor, 512>;
// A tile whose rows lie one after another.
template <TileType place, typename T, int rows, int columns, int valid = columns, int valid_rows = rows>
using Rows = Tile<place, T, rows, columns, BLayout::RowMajor, valid_rows, valid>;
// A rectangle of a tensor in GM.
template <typename T, int rows, int columns, int stride>
using Matrix = GlobalTensor<T, Shape<1, 1, 1, rows, columns>,
                            Stride<rows * stride, rows * stride, rows * stride, stride, 1>, Layout::ND>;
// One whose number of rows is a run-time value.
template <typename T, int columns, int stride>
using SomeRows = GlobalTensor<T, Shape<1, 1, 1, DYNAMIC, columns>, Stride<stride, stride, stride, stride, 1>,
                              Layout::ND>;
// The same bytes as a tile in fractals, as img2col reads them.
template <int planes, int height, int width>
using Image = ConvTile<TileType::Mat, int8_t, planes * height * width * 32, Layout::NC1HWC0,
                       ConvTileShape<1, planes, height, width, 32>>;

struct Pair {{
    uint16_t rows, columns;
}};
struct Padding {{
    uint8_t left, right, top, bottom;
}};

// What img2col has to know of an image beside its shape.
template <int planes, int height, int width>
AICORE inline void describe(Image<planes, height, width>& image, Pair kernel, Pair stride, Padding padding)
{{
    const uint8_t list[4] = {{padding.left, padding.right, padding.top, padding.bottom}};
    image.SetFmapH(height);
    image.SetFmapW(width);
    image.SetFilterH(kernel.rows);
    image.SetFilterW(kernel.columns);
    image.SetStrideH(stride.rows);
    image.SetStrideW(stride.columns);
    image.SetPadListArray(list);
    image.SetChannelSize(planes * 32);
    image.SetPadValue(0);
}}

AICORE constexpr int floor_quotient(int a, int b) {{ return a / b - (a % b < 0); }}
AICORE constexpr int floor_remainder(int a, int b) {{ return a - floor_quotient(a, b) * b; }}
"""


def lower(program: Program, soc: Soc, flags: Mapping[str, Flags]) -> str:
    """The C++ of a program: a function for each InCore function, and `main` that calls them.

    Args:
        program: the typed program, which the emulator has accepted.
        soc: whose capacities apply.
        flags: the event flags of each InCore function, by its name.

    Raises:
        LoweringError: an operator cannot be said in instructions, or there is no room for what the simulator
            needs beside the program's tiles.
        CapacityError: a memory is over its capacity.
    """
    cores = [function for function in program.functions.values() if not function.orchestration]
    memory = {function.name: place(function, soc.capacity) for function in cores}
    lines = [
        f"// {program.name} of {program.position}, for {soc.name}. Written by a program: do not edit.",
        *_PREAMBLE.format(**_bases(program, soc, memory)).splitlines(),
    ]
    for function in cores:
        lines += ["", *_Function(function, memory[function.name], flags[function.name]).lines()]
    lines += ["", *_main(program), "}  // namespace lowered"]
    return "\n".join(lines) + "\n"


def _bases(program: Program, soc: Soc, memory: Mapping[str, MemoryMap]) -> dict[str, int]:
    """Addresses in bytes that only the simulator needs."""
    used = max(placed.peak(Space.Vec) for placed in memory.values())
    bias = -(-used // 32) * 32
    scaling = bias + soc.capacity[Space.Bias]
    start = scaling + soc.capacity[Space.LeftScale]
    if start > soc.capacity[Space.Vec]:
        raise LoweringError(
            program.position,
            f"the simulator keeps bias and fixpipe table in UB, of which tiles use {used} bytes: "
            f"no room for the tables",
        )
    for call, acc in _stored(program):
        if start + spare(acc).size > soc.capacity[Space.Vec]:
            raise LoweringError(
                call.position,
                f"the simulator stores {list(acc.shape)} through {spare(acc).size} spare bytes of UB, "
                f"of which tiles and tables use {start} of {soc.capacity[Space.Vec]}: no room",
            )
    return {"bias": bias, "scaling": scaling, "spare": start}


def _stored(program: Program) -> Iterator[tuple[Call, TileType]]:
    """The calls that requantise to GM, each with the type of its accumulator."""
    for function in program.functions.values():
        types = _Types(function)
        for statement in flat(function.body):
            types.reach(statement)
            if isinstance(statement, Call) and statement.operator == "tile.fixpipe_store":
                acc = types.of(statement.operands["acc"])
                assert isinstance(acc, TileType)
                yield statement, acc


class _Types:
    """The types of a function's names, statement after statement in the order in which they are written.

    A name keeps its type as long as it is bound; bound again in another loop or branch it may have another.
    """

    def __init__(self, function: Function) -> None:
        self._types: dict[str, TileType | TensorType] = {param.name: param.type for param in function.params}

    def reach(self, statement: Statement) -> None:
        if isinstance(statement, Bind):
            self._types[statement.target] = self._types[statement.source]
        elif isinstance(statement, Call):
            self._types[statement.target] = statement.result

    def named(self, name: str) -> TileType | TensorType:
        return self._types[name]

    def of(self, operand: Any) -> TileType | TensorType:
        return self._types[reference(operand)]


def _ragged(function: Function) -> frozenset[str]:
    """The names of tiles that `tile.set_validshape` is said of, and all others that the same tiles have."""
    body = [*flat(function.body)]
    names = {
        each.target for each in body if isinstance(each, Call) and each.operator == "tile.set_validshape"
    }
    binds = [{each.target, each.source} for each in body if isinstance(each, Bind)]
    while more := set().union(*(bind for bind in binds if bind & names)) - names:
        names |= more
    return frozenset(names)


class _Function:
    """One InCore function; as it is written down, the variables that its body needs are collected."""

    def __init__(self, function: Function, memory: MemoryMap, flags: Flags) -> None:
        self._function = function
        self._memory = memory
        self._flags = flags
        self._types = _Types(function)
        self._ragged = _ragged(function)
        self._variables: dict[tuple[str, TileType | TensorType], str] = {}
        self._taken: dict[str, int] = {}

    def lines(self) -> list[str]:
        function = self._function
        params = [self._variable(param.name, param.type) for param in function.params]
        body = list(self._block(function.body))
        return [
            f"// {function.position}",
            *f"AICORE inline void {_function_name(function.name)}({_signature(function)})".splitlines(),
            "{",
            *(f"    {self._declared(key)}" for key, name in self._variables.items() if name not in params),
            *_indented(body),
            "}",
        ]

    def tile(self, operand: Any) -> tuple[str, TileType]:
        typed = self._types.of(operand)
        assert isinstance(typed, TileType)
        return self._variable(reference(operand), typed), typed

    def tensor(self, operand: Any) -> tuple[str, TensorType]:
        typed = self._types.of(operand)
        assert isinstance(typed, TensorType)
        return self._variable(reference(operand), typed), typed

    def ragged(self, operand: Any) -> bool:
        return self._is_ragged(reference(operand), self._types.of(operand))

    def _is_ragged(self, name: str, typed: TileType | TensorType) -> bool:
        return (
            name in self._ragged
            and isinstance(typed, TileType)
            and (typed.fractal or typed.space is Space.Acc)
        )

    def _declared(self, key: tuple[str, TileType | TensorType]) -> str:
        name, typed = self._variables[key], key[1]
        if not isinstance(typed, TileType):
            return f"__gm__ {ctype(typed.dtype)}* {name} = nullptr;"
        declared = f"{tile_type(typed, ragged=self._is_ragged(*key))} {name};"
        return declared + f" uint64_t {name}_at = 0;" * _addressed(typed)

    def _variable(self, name: str, typed: TileType | TensorType) -> str:
        """A variable for each name, or for each type of a name."""
        key = name, typed
        if key not in self._variables:
            number = self._taken[name] = self._taken.get(name, 0) + 1
            prefix = "t" if isinstance(typed, TileType) else "gm"
            self._variables[key] = f"{prefix}_{name}" + (f"_{number}" if number > 1 else "")
        return self._variables[key]

    def _block(self, statements: Sequence[Statement]) -> Iterator[str]:
        for statement in statements:
            if isinstance(statement, For):
                variable = loop_variable(statement.variable)
                start, stop = expression(statement.start), expression(statement.stop)
                head = f"for (int {variable} = {start}; {variable} < {stop}; ++{variable}) {{"
                yield f"{head}  // {statement.position}"
                yield from _indented(self._block(statement.body))
                yield "}"
            elif isinstance(statement, If):
                yield f"if ({expression(statement.condition)}) {{  // {statement.position}"
                yield from _indented(self._block(statement.then))
                if statement.orelse:
                    yield "} else {"
                    yield from _indented(self._block(statement.orelse))
                yield "}"
            elif isinstance(statement, Bind):
                yield from self._bind(statement)
            elif isinstance(statement, Call):
                yield from self._call(statement)

    def _bind(self, bind: Bind) -> Iterator[str]:
        self._types.reach(bind)
        typed = self._types.named(bind.target)
        target, source = (self._variable(name, typed) for name in (bind.target, bind.source))
        address = f" {target}_at = {source}_at;" if _addressed(typed) else ""
        yield f"{target} = {source};{address}  // {bind.position}"

    def _call(self, call: Call) -> Iterator[str]:
        instruction, result = INSTRUCTIONS[call.operator], call.result
        lines = [line for flag in self._flags.get(id(call), ()) for line in _flagged(flag)]
        target = ""
        if isinstance(result, TileType) and not instruction.writes:
            target = self._variable(call.target, result)
            kept = f"{target}_at = " if _addressed(result) else ""
            address = f"{_BASES.get(result.space, '')}{self._memory.at(call).address}"
            lines.append(f"TASSIGN({target}, {kept}{address});")
            if self._is_ragged(call.target, result):
                lines.append(f"{target}.SetValidRow({result.shape[0]});")
        lines += instruction.lines(call, self, target)
        self._types.reach(call)
        yield f"{{  // {call.position}: {call.target} = pl.{call.operator}"
        yield from _indented(lines)
        yield "}"


_BASES = {Space.Bias: "BIAS + ", Space.LeftScale: "SCALING + "}
"""What is added to the addresses of a space."""


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (line if line.startswith("#") else f"    {line}" for line in lines)


def _flagged(flag: Flag) -> tuple[str, str]:
    pipes = f"{flag.source.value}, {flag.target.value}, EVENT_ID{flag.event}"
    return f"set_flag({pipes});", f"wait_flag({pipes});"


def _addressed(typed: TileType | TensorType) -> bool:
    """Whether parts or views of it may be laid over its bytes."""
    return isinstance(typed, TileType) and typed.space in (Space.Mat, Space.Vec)


def _function_name(name: str) -> str:
    return f"f_{name}"


def _signature(function: Function) -> str:
    params = (f"\n    __gm__ {ctype(param.type.dtype)}* gm_{param.name}" for param in function.params)
    return ",".join(params)


def _main(program: Program) -> Iterator[str]:
    """The orchestration: each function in its turn. Names of tensors are those of what they hold."""
    yield f"// {program.main.position}"
    yield from f"inline void lowered_main({_signature(program.main)})".splitlines()
    yield "{"
    held = {param.name: param.name for param in program.main.params}
    for statement in program.main.body:
        if isinstance(statement, Invoke):
            function = program.functions[statement.function]
            arguments = [held[name] for name in statement.arguments]
            given = ", ".join(f"gm_{name}" for name in arguments)
            yield f"    {_function_name(function.name)}({given});  // {statement.position}"
            outputs = [name for param, name in zip(function.params, arguments, strict=True) if param.type.out]
            held.update(zip(statement.targets, outputs, strict=True))
    yield "}"
