"""Which lines a suspicion is about: the operator's, or a loop, a branch, an assignment or one of `main`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from emulator.backward import Fault, Suspicion
from emulator.blame.finding import Finding, chain
from emulator.errors import callers
from emulator.gaps import around, loops_around, missing_round
from emulator.operands import Position, Ref
from emulator.program import Bind, Call, For, If, Invoke, Program, flat
from emulator.sources import leaves
from emulator.terms import Numbering
from emulator.trace import Multiply

_LOOPS = (Fault.MISSING_TERMS, Fault.UNWRITTEN, Fault.STALE)
"""Faults of a loop that ends too early, if there is one."""


def located(program: Program, finding: Finding, suspicion: Suspicion) -> Finding:
    """The finding at the line that it is about: for missing work a loop, a branch or an assignment."""
    call, lines = suspicion.event.step.call, [*finding.others]
    loops = loops_around(program, call)
    calls = [each.step.call for each in (suspicion.event, suspicion.also) if each is not None]
    inner = [loop.position for each in calls for loop in loops_around(program, each)[:1]]
    if suspicion.fault is Fault.TWICE or isinstance(suspicion.event, Multiply):
        lines += inner
    elif suspicion.fault is Fault.UNWRITTEN:
        lines += [loop.position for loop in loops]
        missing = missing_round(program, suspicion.writers, suspicion.place)
        if missing is not None:
            kind = "for" if isinstance(missing, For) else "if"
            lines = [*_origins(missing), finding.position, *lines]
            finding = replace(finding, position=missing.position, operator=kind, rounds={})
    elif suspicion.fault is Fault.CUT:
        lines += [each.position for each in around(program, call)]
    elif suspicion.fault in _LOOPS:
        lines += [*inner, call.position]
        lines += [each for product in calls for each in _operands(program, product)]
        if loops:
            finding = replace(finding, position=loops[0].position, operator="for")
    if empty := _empty(program, suspicion):
        lines += empty
        words = f"{finding.words}; or {chain(empty[0])}, an assignment without an operator, should have one"
        finding = replace(finding, words=words)
    others = tuple(line for line in dict.fromkeys(lines) if line != finding.position)
    return replace(finding, others=others)


def passed(program: Program, numbering: Numbering, suspicion: Suspicion) -> tuple[Position, str] | None:
    """The line in `main` that passes another tensor than the parameter is named for, and words for it."""
    call = suspicion.event.step.call
    wanted, held = (numbering.tensor(each) for each in (suspicion.wanted, suspicion.held))
    operand = call.operands.get("tensor")
    if not isinstance(operand, Ref) or operand.name != wanted or held in ("", wanted):
        return None
    for invoke in program.main.body:
        if isinstance(invoke, Invoke):
            function = program.functions[invoke.function]
            names = [param.name for param in function.params]
            if program.function_of(call) is function and operand.name in names:
                given = invoke.arguments[names.index(operand.name)]
                return invoke.position, f"main passes {given} for {operand.name} of {function.name}"
    return None


def _empty(program: Program, suspicion: Suspicion) -> list[Position]:
    """The assignments that gave the tile its name and stand for no operator: a helper may do nothing."""
    if suspicion.fault is Fault.MISSING_TERMS and suspicion.leave is not None:
        call, operands = suspicion.leave.step.call, ["acc", "tile"]
    elif suspicion.fault in (Fault.READERS, Fault.SOURCE, Fault.PADDING):
        call, operands = suspicion.event.step.call, ["tile", "a", "b", "bias", "scale"]
    else:
        return []
    statements = [*flat(program.function_of(call).body)]
    calls = [each for each in statements if isinstance(each, Call)]
    called = {(line.file, line.line) for each in calls for line in callers(each.position)}
    binds = {each.target: each for each in statements if isinstance(each, Bind)}
    name = next((ref.name for key in operands if isinstance(ref := call.operands.get(key), Ref)), "")
    found = []
    while (bind := binds.pop(name, None)) is not None:
        name = bind.source
        if (bind.position.file, bind.position.line) not in called:
            found.append(bind.position)
    return found


def _origins(statement: For | If) -> Iterator[Position]:
    """Where the constants of a branch come from."""
    for leaf in leaves(statement.written) if isinstance(statement, If) else ():
        if leaf.origin is not None:
            yield leaf.origin.position


def _operands(program: Program, call: Call) -> Iterator[Position]:
    """The lines that made the operands of a product, whose sizes say how many terms it adds."""
    names = {ref.name for key in ("a", "b") if isinstance(ref := call.operands.get(key), Ref)}
    for each in flat(program.function_of(call).body):
        made = isinstance(each, Call) and each.target in names
        if made and each.position.caller == call.position.caller:
            yield each.position
