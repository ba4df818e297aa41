"""Which lines an edit concerns: those that were edited, and those whose operands the edit changes."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from benchmarks.mutants.mutant import KERNELS
from emulator.errors import callers
from emulator.gaps import all_rounds
from emulator.operands import Operand, Position, valued, variables
from emulator.program import Call, For, If, Invoke, Program, Statement

Line = tuple[str, int]
"""A file's name and a line of it."""

Chain = tuple[Line, ...]
"""A line, then the lines that called the helpers around it, the innermost first."""


def chain_of(position: Position) -> Chain:
    """A position without the folder of its files."""
    return tuple((Path(place.file).name, place.line) for place in (position, *callers(position)))


@dataclass(frozen=True)
class Item:
    """A statement of a typed program and the loops around it, the outermost first."""

    statement: Call | For | If | Invoke
    loops: tuple[For, ...]

    @property
    def kind(self) -> tuple[str, str]:
        """What it is, apart from its operands."""
        statement = self.statement
        name = next(
            (
                getattr(statement, key)
                for key in ("operator", "variable", "function")
                if hasattr(statement, key)
            ),
            "",
        )
        return type(statement).__name__, name

    @property
    def content(self) -> Any:
        """What it is given; equal contents of equal kinds do the same."""
        statement = self.statement
        if isinstance(statement, Call):
            return statement.operands, statement.result, statement.target
        if isinstance(statement, For):
            return statement.start, statement.stop
        if isinstance(statement, If):
            return statement.condition
        return statement.targets, statement.arguments

    @property
    def operands(self) -> Mapping[str, Operand]:
        """The operands of a call, the bounds of a loop."""
        if isinstance(self.statement, Call):
            return self.statement.operands
        if isinstance(self.statement, For):
            return {"start": self.statement.start, "stop": self.statement.stop}
        return {}

    @property
    def variables(self) -> set[str]:
        """The loop variables in its operands."""
        return {name for operand in self.operands.values() for name in variables(operand)}

    def values(self, operand: str) -> dict[tuple[int, ...], Any]:
        """The value of an operand in every round of the loops around it."""
        given = self.operands[operand]
        names = [loop.variable for loop in self.loops]
        return {
            tuple(loops[name] for name in names): valued(given, loops)
            for loops in all_rounds(self.loops[::-1])
        }


def items(program: Program) -> list[Item]:
    """Every statement that does something, in the order of the source."""

    def within(statements: Sequence[Statement], loops: tuple[For, ...]) -> Iterator[Item]:
        for statement in statements:
            if isinstance(statement, Call | For | If | Invoke):
                yield Item(statement, loops)
            if isinstance(statement, For):
                yield from within(statement.body, (*loops, statement))
            elif isinstance(statement, If):
                yield from within((*statement.then, *statement.orelse), loops)

    return [item for function in program.functions.values() for item in within(function.body, ())]


def pairs(before: Program, after: Program) -> Iterator[tuple[Item | None, Item | None]]:
    """The statements of two programs side by side; None where one has no such statement."""
    old, new = items(before), items(after)
    if [item.kind for item in old] == [item.kind for item in new]:
        yield from zip(old, new, strict=True)
        return
    both = ([repr((item.kind, item.content)) for item in each] for each in (old, new))
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, *both, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from zip(old[i1:i2], new[j1:j2], strict=True)
        else:
            yield from _changed(old[i1:i2], new[j1:j2])


def _changed(old: Sequence[Item], new: Sequence[Item]) -> Iterator[tuple[Item | None, Item | None]]:
    """Statements that differ, side by side where they are of one kind."""
    kinds = ([item.kind for item in each] for each in (old, new))
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, *kinds, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from zip(old[i1:i2], new[j1:j2], strict=True)
        else:
            yield from ((item, None) for item in old[i1:i2])
            yield from ((None, item) for item in new[j1:j2])


def fed(before: Program, after: Program) -> set[Chain]:
    """The statements of the second program that an edit of the first added or gave other operands.

    Of a loop whose bounds differ these are also the calls that use its variable. Of a statement that the
    second does not have they are the lines that called its helper; `edited` has the lines around it.
    """
    found, loops = set(), set()
    for old, new in pairs(before, after):
        if new is None:
            assert old is not None
            found.add(chain_of(old.statement.position)[1:])
            continue
        changed = old is None or old.content != new.content
        if changed and isinstance(new.statement, For):
            loops.add(new.statement.position)
        used = any(loop.position in loops and loop.variable in new.variables for loop in new.loops)
        if changed or used:
            found.add(chain_of(new.statement.position))
    return found - {()}


def same(before: Program, after: Program) -> bool:
    """Whether two programs do the same, statement for statement."""
    return [(item.kind, item.content) for item in items(before)] == [
        (item.kind, item.content) for item in items(after)
    ]


def edited(folder: Path) -> set[Line]:
    """The lines of the statements that differ in a copy of `kernels/`.

    Where statements were only removed: the statements next to the gap, and the loops and branches around it.
    """
    found = set()
    for path in sorted((folder / "kernels").glob("*.py")):
        old, new = (where.read_text().splitlines() for where in (KERNELS / path.name, path))
        extents = list(_extents(ast.parse("\n".join(new))))
        for tag, _, _, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            if tag == "equal":
                continue
            gap = tag == "delete"
            touched = {j1, j1 + 1} if gap else set(range(j1 + 1, j2 + 1))
            found |= set() if gap else {(path.name, line) for line in touched}
            for line in touched:
                around = [extent for extent in extents if extent.first <= line <= extent.last]
                for extent in around:
                    if line <= extent.header or (gap and extent.header < extent.last):
                        found |= {(path.name, own) for own in range(extent.first, extent.header + 1)}
    return found


@dataclass(frozen=True)
class _Extent:
    """The lines of a statement; those up to `header` are its own, the rest those of its body."""

    first: int
    header: int
    last: int


def _extents(tree: ast.Module) -> Iterator[_Extent]:
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not isinstance(node, ast.FunctionDef | ast.ClassDef):
            last = node.end_lineno or node.lineno
            body = getattr(node, "body", None)
            yield _Extent(node.lineno, body[0].lineno - 1 if body else last, last)
