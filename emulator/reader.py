"""Reads a kernel class from its source into a typed program, and refuses what PyPTO's parser refuses."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import permutations
from typing import Any, NoReturn

from emulator.definitions import Inline, class_source
from emulator.errors import SourceError, TypeMismatchError
from emulator.names import Change, Held, Made, Renewal, assign, joined, updated
from emulator.operands import Expr, LoopVar, Operand, Position, Ref
from emulator.operators import OPERATORS, MisfitError, Operator
from emulator.program import (
    Bind,
    Call,
    For,
    Function,
    If,
    Invoke,
    Param,
    Program,
    Return,
    Statement,
    TensorType,
    TileType,
    flat,
)
from emulator.scope import Scope, dotted, shown
from emulator.sources import Context, Definition, Index, Leaf, Operands, Text, Written, written

_LOOPS = ("range", "unroll", "pipeline")


def read_program(cls: type, names: Mapping[str, Any]) -> Program:
    """Read a program class.

    Args:
        cls: the decorated class; the code objects of its methods name the source file.
        names: the Python names around the class (the factory's locals over its module's globals).

    Raises:
        SourceError: the class is not in the language.
        TypeMismatchError: the operands of an operator do not fit.
    """
    definition = class_source(cls, names)
    position = Position(definition.file, definition.node.lineno)
    functions: dict[str, Function] = {}
    for item in definition.node.body:
        if isinstance(item, ast.FunctionDef):
            functions[item.name] = _FunctionReader(definition, functions).read(item)
        elif not _is_docstring(item):
            where = Position(definition.file, item.lineno)
            raise SourceError(where, "class body", "only @pl.function methods belong in a program")
    if "main" not in functions or not functions["main"].orchestration:
        raise SourceError(position, f"class {cls.__name__}", "needs an Orchestration function called main")
    return Program(position, cls.__name__, functions)


@lru_cache(maxsize=256)
def _used_names(node: ast.FunctionDef) -> tuple[str, ...]:
    return tuple({used.id: None for used in ast.walk(node) if isinstance(used, ast.Name)})


def _is_docstring(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


class _FunctionReader:
    """Reads one function; `functions` are those read before it, which an orchestration may call."""

    def __init__(self, definition: Definition, functions: Mapping[str, Function]) -> None:
        self._scope = Scope(Context(definition, definition.names))
        self._functions = functions
        self._expanding: list[ast.FunctionDef] = []
        self._orchestration = False
        self._decided: dict[Position, If] = {}

    def read(self, node: ast.FunctionDef) -> Function:
        self._orchestration = self._is_orchestration(node)
        arguments = self._arguments(node)[1:]
        params = tuple(self._param(argument) for argument in arguments)
        for param, argument in zip(params, arguments, strict=True):
            self._scope.held[param.name] = Held(param.name, param.type, param.name, self._made(argument))
        *statements, last = node.body
        body = tuple(self._block(statements))
        if not isinstance(last, ast.Return):
            self._refuse(last, f"function {node.name}", "must end by returning its outputs")
        outputs = [param.name for param in params if param.type.out]
        returned = self._return(last, outputs)
        position, decided = self._scope.at(node), tuple(self._decided.values())
        return Function(position, node.name, self._orchestration, params, (*body, returned), decided)

    def _refuse(self, node: ast.AST, construct: str, problem: str) -> NoReturn:
        self._scope.refuse(node, construct, problem)

    # -- signature

    def _is_orchestration(self, node: ast.FunctionDef) -> bool:
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and dotted(decorator.func) == "pl.function":
                kinds = {keyword.arg: dotted(keyword.value) for keyword in decorator.keywords}
                kind = kinds.get("type", "")
                if kind in ("pl.FunctionType.InCore", "pl.FunctionType.Orchestration"):
                    return kind.endswith("Orchestration")
        construct = f"function {node.name}"
        self._refuse(node, construct, "needs @pl.function(type=pl.FunctionType.InCore or Orchestration)")

    def _arguments(self, node: ast.FunctionDef) -> list[ast.arg]:
        arguments = node.args
        if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.defaults:
            self._refuse(node, f"function {node.name}", "takes plain positional parameters only")
        if not arguments.args or arguments.args[0].arg != "self":
            self._refuse(node, f"function {node.name}", "its first parameter must be self")
        return arguments.args

    def _param(self, argument: ast.arg) -> Param:
        annotation = argument.annotation
        out = isinstance(annotation, ast.Subscript) and dotted(annotation.value) == "pl.Out"
        if out:
            assert isinstance(annotation, ast.Subscript)
            annotation = annotation.slice
        if not (
            isinstance(annotation, ast.Subscript)
            and dotted(annotation.value) == "pl.Tensor"
            and isinstance(annotation.slice, ast.Tuple)
            and len(annotation.slice.elts) == 2
        ):
            self._refuse(
                argument, f"parameter {argument.arg}", "must be pl.Tensor[[rows, columns], pl.DTYPE]"
            )
        shape, dtype = annotation.slice.elts
        sizes = self._scope.constants(shape, f"shape of {argument.arg}")
        if min(sizes, default=0) < 1:
            self._refuse(argument, f"parameter {argument.arg}", f"shape {list(sizes)}: must be positive")
        return Param(argument.arg, TensorType(sizes, self._scope.dtype(dtype), out))

    # -- statements

    def _block(self, nodes: Sequence[ast.stmt]) -> Iterator[Statement]:
        for node in nodes:
            if not _is_docstring(node):
                yield from self._statement(node)

    def _statement(self, node: ast.stmt) -> Iterator[Statement]:
        if isinstance(node, ast.Assign):
            yield from self._assign(node)
        elif self._orchestration:
            self._refuse(node, _first_words(node), "an orchestration only calls functions")
        elif isinstance(node, ast.For):
            yield self._for(node)
        elif isinstance(node, ast.If):
            yield from self._if(node)
        elif isinstance(node, ast.Return):
            self._refuse(node, "return", "is allowed only at the end of a function")
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            call = dotted(node.value.func) or "call"
            self._refuse(node, call, "its result is dropped: write name = ... (the destination is returned)")
        else:
            self._refuse(node, _first_words(node), "is not part of the language")

    def _assign(self, node: ast.Assign) -> Iterator[Statement]:
        target = node.targets[0]
        elements = target.elts if isinstance(target, ast.Tuple) else [target]
        names = [element.id for element in elements if isinstance(element, ast.Name)]
        if len(node.targets) != 1 or not names or len(names) != len(elements):
            self._refuse(node, "assignment", "must assign to one plain name, or to the outputs of a call")
        for name in names:
            if name in self._scope.here.indices:
                self._refuse(node, f"assignment to {name}", "is an index here: take another name")
        if not isinstance(node.value, ast.Call):
            self._refuse(node, f"assignment to {names[0]}", "the right side must be a call of an operator")
        called = dotted(node.value.func)
        if called.startswith("self."):
            yield self._invoke(node, names, node.value)
        elif self._orchestration:
            self._refuse(node, called or "call", "an orchestration only calls functions")
        elif isinstance(target, ast.Tuple):
            self._refuse(node, called or "call", "gives one result: assign it to one name")
        elif isinstance(helper := self._scope.constant(called), Inline):
            yield from self._expand(node, names[0], helper, node.value)
        else:
            yield self._operator_call(node, names[0], node.value)

    def _made(self, node: ast.stmt | ast.arg) -> Made:
        return frozenset({(self._scope.at(node), node.col_offset)})

    def _hold(self, node: ast.Assign, name: str, source: Held, change: Change | None = None) -> str:
        """Bind a source name, which must keep its type and its tensor; return the program's name for it."""
        held = self._scope.held.get(name)
        if held is not None and held.type != source.type:
            problem = f"a name keeps its type: {name} was {held.type}, this is {source.type}"
            self._refuse(node, f"assignment to {name}", problem)
        if held is not None and held.parameter != source.parameter:
            problem = f"a name keeps its tensor: {name} was {held.parameter}, this is {source.parameter}"
            self._refuse(node, f"assignment to {name}", problem)
        value = replace(source, name=held.name if held else name)
        if change is None and value.name != source.name:
            change = Change.REPLACED
        if change is not None:
            assign(self._scope.held, name, value, Renewal(name, self._scope.at(node), change))
        self._scope.held[name] = value
        return value.name

    def _operator_call(self, node: ast.Assign, target: str, call: ast.Call) -> Call:
        operator = self._operator(call)
        label = f"pl.{operator.name}"
        operands: dict[str, Operand] = {}
        typed: dict[str, Any] = {}
        texts: dict[str, Text] = {}
        for name, kind, value in self._arguments_of(call, operator):
            operands[name], typed[name] = self._operand(value, kind, f"{label}({name})")
            texts[name] = self._text(value)
        try:
            result = operator.infer(**typed)
        except MisfitError as misfit:
            raise TypeMismatchError(self._scope.at(node), label, str(misfit)) from None
        if isinstance(result, TensorType) and not result.out:
            output = operands[operator.destination]
            assert isinstance(output, Ref)
            self._refuse(node, label, f"writes {output.name}, which is not marked pl.Out")
        if operator.destination:
            source = call.args[list(operator.positional).index(operator.destination)]
            if not (isinstance(source, ast.Name) and source.id == target):
                self._refuse(
                    node, label, f"writes its {operator.destination} in place: assign to the same name"
                )
            held = self._hold(node, target, self._scope.held[target], Change.WRITTEN)
        else:
            held = self._hold(node, target, Held(target, result, "", self._made(node)), Change.REPLACED)
        written = Operands(texts, operands)
        return Call(self._scope.at(node), held, operator.name, operands, result, written=written)

    def _text(self, node: ast.expr) -> Text:
        """Where an operand is written; a tile that a helper is given, where the caller passes it."""
        held = self._scope.held.get(node.id) if isinstance(node, ast.Name) else None
        return (held.passed if held else None) or Text(node, self._scope.here)

    def _written(self, node: ast.expr, value: Operand) -> Written:
        return written(self._text(node), value)

    def _operator(self, call: ast.Call) -> Operator:
        called = dotted(call.func)
        name = called.removeprefix("pl.")
        if called.startswith("pl.") and name in OPERATORS:
            return OPERATORS[name]
        label = called or "call"
        if not called.startswith("pl."):
            self._refuse(call, label, "operators are called as pl.<name>; a helper needs @pl.inline")
        close = difflib.get_close_matches(name, OPERATORS, 1)
        self._refuse(call, label, "unknown operator" + (f"; did you mean pl.{close[0]}?" if close else ""))

    def _arguments_of(self, call: ast.Call, operator: Operator) -> Iterator[tuple[str, str, ast.expr]]:
        label = f"pl.{operator.name}"
        if len(call.args) != len(operator.positional):
            wanted = ", ".join(operator.positional)
            self._refuse(call, label, f"takes {len(operator.positional)} positional operands ({wanted})")
        given = {key.arg or f"**{ast.unparse(key.value)}": key.value for key in call.keywords}
        if set(given) != set(operator.keyword):
            wanted = ", ".join(operator.keyword) or "none"
            got = ", ".join(given) or "none"
            self._refuse(call, label, f"takes the keywords {wanted}; got {got}")
        for (name, kind), value in zip(operator.positional.items(), call.args, strict=True):
            yield name, kind, value
        for name, kind in operator.keyword.items():
            yield name, kind, given[name]

    def _operand(self, node: ast.expr, kind: str, what: str) -> tuple[Operand, Any]:
        """One operand: what the program holds, and what the operator's rule is given (type or constant)."""
        if kind in ("tile", "tensor"):
            held = self._scope.tile_or_tensor(node, what)
            wanted = TileType if kind == "tile" else TensorType
            if not isinstance(held.type, wanted):
                self._refuse(node, what, f"{ast.unparse(node)} is not a {kind}")
            return Ref(held.name), held.type
        if kind == "offsets":
            if not isinstance(node, (ast.List, ast.Tuple)) or len(node.elts) != 2:
                self._refuse(node, what, "must be [row, column]")
            offsets = tuple(self._scope.expr(element, what) for element in node.elts)
            return offsets, offsets
        value: Any
        if kind == "index":
            value = self._scope.expr(node, what)
        elif kind == "space":
            value = self._scope.space(node, what)
        elif kind == "dtype":
            value = self._scope.dtype(node)
        else:
            value = self._scope.constants(node, what)
        return value, value

    def _for(self, node: ast.For) -> For:
        called = dotted(node.iter.func) if isinstance(node.iter, ast.Call) else ""
        if not isinstance(node.iter, ast.Call) or called not in [f"pl.{name}" for name in _LOOPS]:
            self._refuse(node, f"for {ast.unparse(node.target)}", "loops run over pl.range(...)")
        if not isinstance(node.target, ast.Name) or node.orelse or node.iter.keywords:
            self._refuse(node, called, "takes one loop variable, one or two bounds, no else")
        if len(node.iter.args) not in (1, 2):
            self._refuse(node, called, "takes (stop) or (start, stop)")
        variable = node.target.id
        if variable in self._scope.here.indices or variable in self._scope.held:
            self._refuse(node, called, f"{variable} already means something here; use another name")
        bounds = [self._scope.expr(bound, called) for bound in node.iter.args]
        start, stop = bounds if len(bounds) == 2 else (0, bounds[0])
        rounds = stop - start if isinstance(start, int) and isinstance(stop, int) else None
        said = [self._written(bound, value) for bound, value in zip(node.iter.args, bounds, strict=True)]
        if len(said) == 1:
            said.insert(0, Leaf("0", 0, self._scope.at(node), node.iter.col_offset))
        held, indices = dict(self._scope.held), self._scope.here.indices
        while True:  # a further round begins with the names as a round leaves them
            self._scope.held = dict(held)
            self._scope.bind({**indices, variable: Index(LoopVar(variable))})
            body = tuple(self._block(node.body))
            left = self._scope.held
            again = held | joined(held, left)
            if again == held or (rounds is not None and rounds < 2):
                break
            held = again
        # A name first bound in a loop ends with it.
        self._scope.held = updated(held, left) if rounds else again
        self._scope.bind(indices)
        if rounds is None or rounds > 1:
            self._refuse_carried_twins(body)
        return For(self._scope.at(node), variable, start, stop, body, tuple(said))

    def _refuse_carried_twins(self, body: Sequence[Statement]) -> None:
        """Refuse two names of one tile that were bound before a loop and are bound again in it.

        The loop carries both. PyPTO would then move the tile onto itself, which it cannot do.
        """
        tiles = {held.name for held in self._scope.held.values() if isinstance(held.type, TileType)}
        for twin in flat(body):
            if isinstance(twin, Bind) and twin.target in tiles and twin.source in tiles:
                problem = f"the loop carries two names of one tile: bind {twin.source} only inside the loop"
                raise SourceError(twin.position, f"assignment to {twin.target}", problem)

    def _if(self, node: ast.If) -> Iterator[Statement]:
        """A branch. Both sides are read and checked; where the condition is a constant only one is kept."""
        condition = self._scope.condition(node.test)
        before, indices = dict(self._scope.held), self._scope.here.indices
        then = tuple(self._block(node.body))
        after_then = self._scope.held
        self._scope.held = dict(before)
        self._scope.bind(indices)
        orelse = tuple(self._block(node.orelse))
        self._scope.bind(indices)
        # A name that only one branch binds ends with the branch.
        in_both = joined(after_then, self._scope.held)
        if isinstance(condition, int):
            taken = after_then if condition else self._scope.held
            self._scope.held = before | {name: taken[name] for name in in_both}
            branch = If(self._scope.at(node), condition, then, orelse, self._written(node.test, condition))
            self._decided[branch.position] = branch
            yield from then if condition else orelse
        else:
            self._scope.held = before | in_both
            said = self._written(node.test, condition)
            yield If(self._scope.at(node), condition, then, orelse, said)

    def _return(self, node: ast.Return, outputs: Sequence[str]) -> Return:
        values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        held = [self._scope.held.get(value.id) for value in values if isinstance(value, ast.Name)]
        if not outputs or [value.parameter if value else "" for value in held] != outputs:
            wanted = ", ".join(outputs) or "at least one, but no parameter is marked pl.Out"
            self._refuse(node, "return", f"must return the outputs by name, in order: {wanted}")
        for value in values:
            assert value is not None
            self._scope.tile_or_tensor(value, "return")
        return Return(self._scope.at(node), tuple(value.name for value in held if value))

    # -- calls of other functions

    def _invoke(self, node: ast.Assign, targets: Sequence[str], call: ast.Call) -> Invoke:
        called = dotted(call.func)
        function = self._functions.get(called.removeprefix("self."))
        if function is None or function.orchestration or not self._orchestration:
            self._refuse(
                node, called, "only an orchestration may call, and only InCore functions defined before it"
            )
        if call.keywords or len(call.args) != len(function.params):
            wanted = ", ".join(param.name for param in function.params)
            self._refuse(node, called, f"takes {len(function.params)} positional tensors ({wanted})")
        arguments = []
        for param, argument in zip(function.params, call.args, strict=True):
            held = self._scope.tile_or_tensor(argument, called)
            if not isinstance(held.type, TensorType) or held.type.shape != param.type.shape:
                self._refuse(
                    node,
                    called,
                    f"{param.name} needs shape {list(param.type.shape)}: {held.name} is {held.type}",
                )
            if held.type.dtype is not param.type.dtype:
                self._refuse(node, called, f"{param.name} needs {param.type.dtype.value}")
            if param.type.out and not held.type.out:
                self._refuse(node, called, f"writes {held.name}, which is not marked pl.Out")
            arguments.append(held)
        self._refuse_output_twins(node, called, function.params, arguments)
        outputs = [held for param, held in zip(function.params, arguments, strict=True) if param.type.out]
        if len(targets) != len(outputs):
            problem = f"returns {len(outputs)} outputs, but names to assign them to: {len(targets)}"
            self._refuse(node, called, problem)
        held_targets = [
            self._hold(node, name, held, Change.WRITTEN) for name, held in zip(targets, outputs, strict=True)
        ]
        names = tuple(held.name for held in arguments)
        said = tuple(
            Leaf(ast.unparse(argument), Ref(name), self._scope.at(argument), argument.col_offset)
            for argument, name in zip(call.args, names, strict=True)
        )
        return Invoke(self._scope.at(node), tuple(held_targets), function.name, names, said)

    def _refuse_output_twins(
        self, node: ast.AST, called: str, params: Sequence[Param], arguments: Sequence[Held]
    ) -> None:
        """Refuse a call in which an output is also another parameter: what is read would depend on when."""
        for (param, held), (other, twin) in permutations(zip(params, arguments, strict=True), 2):
            if param.type.out and held.made & twin.made:
                self._refuse(
                    node,
                    called,
                    f"{held.name} is passed as {param.name} and as {other.name}: an output is passed once",
                )

    def _expand(self, node: ast.Assign, target: str, helper: Inline, call: ast.Call) -> Iterator[Statement]:
        """The body of an inline helper, with its result bound to `target`.

        As in PyPTO the body shares the caller's names: parameters and locals stay bound after the call, an
        assignment to a parameter assigns the caller's tile, and a name keeps its type over all calls. A tile
        that the body writes in place and returns goes on as `target`: any other name that was passed is old.
        """
        name = helper.node.name
        params = [argument.arg for argument in helper.node.args.args]
        if call.keywords or len(call.args) != len(params):
            self._refuse(node, name, f"takes {len(params)} positional arguments ({', '.join(params)})")
        if helper.node in self._expanding:
            self._refuse(node, name, "calls itself")
        self._refuse_hidden_names(node, helper)
        arguments = [self._argument(argument, name) for argument in call.args]
        scope, position, around = self._scope, self._scope.at(node), self._scope.here
        indices = dict(around.indices)
        for param, passed, argument in zip(params, call.args, arguments, strict=True):
            scope.held.pop(param, None)
            indices.pop(param, None)
            if isinstance(argument, Held):
                scope.held[param] = replace(argument, passed=Text(passed, around))
            else:
                indices[param] = Index(argument, Text(passed, around))
        scope.here = Context(helper, {**helper.names, **around.constants}, indices, position, around)
        self._expanding.append(helper.node)
        *nodes, last = helper.node.body
        body = list(self._block(nodes))
        yield from body
        if not (isinstance(last, ast.Return) and isinstance(last.value, ast.Name)):
            self._refuse(last, name, "an inline helper ends by returning one name")
        result = self._scope.tile_or_tensor(last.value, name)
        self._expanding.pop()
        # Parameters stay bound.
        scope.here = replace(around, indices=scope.here.indices)
        in_place = {
            leaf.target
            for leaf in flat(body)
            if isinstance(leaf, Call) and OPERATORS[leaf.operator].destination
        }
        for param, passed, argument in zip(params, call.args, arguments, strict=True):
            if isinstance(passed, ast.Name) and isinstance(argument, Held) and passed.id != target:
                old = Renewal(target, position)
                self._follow(old, passed.id, argument, param, result, written=argument.name in in_place)
        bound = self._hold(node, target, replace(result, passed=None))
        if bound != result.name:
            yield Bind(position, bound, result.name)

    def _follow(
        self, old: Renewal, name: str, passed: Held, param: str, result: Held, *, written: bool
    ) -> None:
        """Settle what a name that was passed to a helper holds after it; `old` is why it may be old."""
        names = self._scope.held
        now = names.get(name, passed)
        if (now.old or written) and passed.made & result.made:
            names[name] = replace(passed, old=old)
        elif now.old and (own := names.get(param, now)).name == passed.name and not own.old:
            names[name] = replace(own, passed=passed.passed)

    def _argument(self, node: ast.expr, helper: str) -> Held | Expr:
        if isinstance(node, ast.Name) and node.id in self._scope.held:
            return self._scope.tile_or_tensor(node, helper)
        return self._scope.expr(node, helper)

    def _refuse_hidden_names(self, node: ast.AST, helper: Inline) -> None:
        """Refuse a constant that differs between helper and caller: PyPTO would take the caller's."""
        names, constants = helper.names, self._scope.here.constants
        for used in _used_names(helper.node):
            if used in names and used in constants:
                own, around = names[used], constants[used]
                if own is not around and own != around:
                    problem = (
                        f"its {used} is hidden by the caller's: {shown(own)} in the helper, "
                        f"{shown(around)} in the caller; rename one"
                    )
                    self._refuse(node, helper.node.name, problem)


def _first_words(node: ast.stmt) -> str:
    """The first line of a statement, without the colon of what has a body."""
    return ast.unparse(node).splitlines()[0].rstrip(":")
