"""Strict YAML: the parser's events become nodes with file and line, and whatever is ambiguous is an error.

Values are made here, not by the YAML library: `true` and `false` are the only booleans, numbers are decimal
(or `0o10`, `0x10`), everything else is text. Text that YAML 1.1 would read as another kind of value is
refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn

import yaml
from msgspec import Struct
from msgspec.structs import replace

from golden.errors import UserError
from pipeline.ground.words import shown
from pipeline.matrix.durations import FORMS

Scalar = str | int | float | bool
KeyPath = tuple[str | int, ...]

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_VALUES = 20_000
"""Most values of a file, counted as if every alias were written out."""
_DEPTH = 16
_DIGITS = 18

_REFUSED = {
    # No set has more than two ranges above U+00FF: `re` compiles others slowly, and `list` waits for it.
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|[\u2028\u2029\ud800-\udfff]|[\ufeff\ufffe\uffff]|\r(?!\n)": (
        "character U+{:04X} is not allowed; remove it"
    ),
    r"^ *\t\s*\S": "there is a tab in the indentation; indent with spaces",
}
"""What a file must not have anywhere, each with what is said of it; `{}` stands for its first character."""

_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_NOTHING = re.compile(r"~|null|Null|NULL|")
_LEADING_ZERO = re.compile(r"([-+]?)0+([0-9][0-9.]*)")
_TRAPS = (
    (
        re.compile(r"[-+]?[0-9]+(?::[0-9]+)+(?:\.[0-9]*)?"),
        f"some YAML readers take it for a number in base 60; a duration is {FORMS}, text is put in quotes",
    ),
    (
        re.compile(r"[-+]?(?:0x)?(?=[0-9a-fA-F.]*_)[0-9][0-9a-fA-F_.]*"),
        "underscores in a number are read differently by different readers; write it without them",
    ),
    (re.compile(r"[-+]?0b[01]+"), "binary numbers are not read; write it in decimal"),
    (re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"), "is not a finite number; write one"),
)


class MatrixError(UserError):
    """A matrix is refused: one line, `file:line: key: what; remedy`.

    `line` counts from 1, and is None where the file, as the user named it, could not be read at all; `path`
    leads to the fault.
    """

    def __init__(self, file: str, line: int | None, path: Iterable[str | int], message: str) -> None:
        place = file if line is None else f"{file}:{line}"
        key = dotted(path)
        super().__init__(": ".join(part for part in (place, key, message) if part))


def dotted(path: Iterable[str | int]) -> str:
    """Write a path as `lanes.device.include[0].platforms`."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{shown(step)}" for step in path)
    return "".join(steps).lstrip(".")


class Node(Struct, frozen=True):
    """A value with the place where it is written: for the value of a key, the line of the key."""

    value: Mapping[str, Node] | tuple[Node, ...] | Scalar
    file: str
    line: int

    def plain(self) -> Any:
        """Return the value without its places."""
        if isinstance(self.value, Mapping):
            return {key: child.plain() for key, child in self.value.items()}
        if isinstance(self.value, tuple):
            return [child.plain() for child in self.value]
        return self.value

    def at(self, path: KeyPath) -> Node:
        """Return the node at a path, or the deepest one on the way to it that is written."""
        node = self
        for step in path:
            if isinstance(node.value, Mapping) and step in node.value:
                node = node.value[str(step)]
            elif isinstance(node.value, tuple) and isinstance(step, int) and step < len(node.value):
                node = node.value[step]
            else:
                break
        return node

    def refuse(self, path: KeyPath, message: str) -> NoReturn:
        """Raise a `MatrixError` for the value at a path below this node, which is the root of its matrix."""
        place = self.at(path)
        raise MatrixError(place.file, place.line, path, message)


def read_yaml(data: bytes, file: str) -> Node:
    """Read the bytes of one YAML file whose top is a mapping; `file` is its name in messages.

    Raises:
        MatrixError: where anything in it could be read in two ways; see docs/matrix.md.
    """
    return _Reader(_decode(data, file), file).read()


def _decode(data: bytes, file: str) -> str:
    if data.startswith(b"\xef\xbb\xbf"):
        raise MatrixError(file, 1, (), "starts with a byte order mark; save it as UTF-8 without one")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        what = f"byte {data[error.start]:#04x} is not UTF-8; save it as UTF-8"
        raise MatrixError(file, line, (), what) from None
    for pattern, said in _REFUSED.items():
        if refused := re.search(pattern, text, re.MULTILINE):
            line = text.count("\n", 0, refused.start()) + 1
            raise MatrixError(file, line, (), said.format(ord(refused[0][0])))
    return text


class _Reader:
    """Turns the parser's events into nodes; `path` is the current place, for messages."""

    def __init__(self, text: str, file: str) -> None:
        self._file = file
        self._events: Iterator[Any] = yaml.parse(text, Loader=_LOADER)
        self._path: list[str | int] = []
        self._anchors: dict[str, tuple[Node, int]] = {}
        self._count = 0

    def read(self) -> Node:
        self._next()  # the stream's start
        start = self._next()
        if isinstance(start, yaml.StreamEndEvent):
            raise MatrixError(self._file, 1, (), "is empty; write a matrix (docs/matrix.md)")
        first = self._next()
        if not isinstance(first, yaml.MappingStartEvent):
            self._refuse(first, "the top must be a mapping; write `key: value` lines (docs/matrix.md)")
        root = self._node(first, self._line(first))
        self._next()  # the document's end
        after = self._next()
        if not isinstance(after, yaml.StreamEndEvent):
            self._refuse(after, "a second document starts; put it into a file of its own")
        return root

    def _next(self) -> Any:
        try:
            return next(self._events)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = mark.line + 1 if mark else 1
            message = f"is not YAML: {error.problem}; look at the indentation and punctuation up to here"
            raise MatrixError(self._file, line, self._path, message) from None

    @staticmethod
    def _line(event: Any) -> int:
        return int(event.start_mark.line) + 1

    def _refuse(self, event: Any, message: str) -> NoReturn:
        raise MatrixError(self._file, self._line(event), self._path, message)

    def _node(self, event: Any, line: int) -> Node:
        """Read the node that starts with `event`; `line` is the line that messages name."""
        before = self._count
        self._spend(event, 1)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, line)
        if event.tag is not None and event.tag != "!":
            self._refuse(event, f"the tag `{shown(event.tag)}` is not read; remove it")
        if len(self._path) > _DEPTH:
            self._refuse(event, f"lies more than {_DEPTH} levels deep; write it flatter")
        if event.anchor in self._anchors:
            self._refuse(event, f"the anchor `&{event.anchor}` is written again; give it another name")
        value: Mapping[str, Node] | tuple[Node, ...] | Scalar
        if isinstance(event, yaml.MappingStartEvent):
            value = self._mapping()
        elif isinstance(event, yaml.SequenceStartEvent):
            value = self._sequence()
        else:
            value = self._scalar(event)
        node = Node(value, self._file, line)
        if event.anchor is not None:
            self._anchors[event.anchor] = (node, self._count - before)
        return node

    def _spend(self, event: Any, values: int) -> None:
        self._count += values
        if self._count > _VALUES:
            self._refuse(event, f"more than {_VALUES} values with aliases written out; write fewer")

    def _alias(self, event: Any, line: int) -> Node:
        if event.anchor not in self._anchors:
            self._refuse(event, f"the alias `*{event.anchor}` has no anchor before it; write the value out")
        node, size = self._anchors[event.anchor]
        self._spend(event, size)
        return replace(node, line=line)

    def _mapping(self) -> Mapping[str, Node]:
        children: dict[str, Node] = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            if not (isinstance(event, yaml.ScalarEvent) and event.value.isprintable()):
                self._refuse(event, "a key must be one line of plain text; write it so")
            key = event.value
            self._path.append(key)
            if key == "<<" and not event.style:
                self._refuse(event, "merge keys are not read; write the keys out")
            if key in children:
                self._refuse(
                    event, f"is written again (first on line {children[key].line}); keep one of them"
                )
            self._spend(event, 1)
            children[key] = self._node(self._next(), self._line(event))
            self._path.pop()
        return children

    def _sequence(self) -> tuple[Node, ...]:
        children: list[Node] = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            self._path.append(len(children))
            children.append(self._node(event, self._line(event)))
            self._path.pop()
        return tuple(children)

    def _scalar(self, event: Any) -> Scalar:
        text: str = event.value
        if not text.isprintable():
            self._refuse(event, "text must be one line of printable characters; fold longer text with `>-`")
        if event.style or event.tag == "!":
            return text
        if _NOTHING.fullmatch(text):
            self._refuse(event, "has no value; write one or remove the key")
        if text in ("true", "false"):
            return text == "true"
        if _INTEGER.fullmatch(text):
            if len(text) > _DIGITS:
                self._refuse(event, f"`{shown(text)}` is too large; write at most {_DIGITS} digits")
            return int(text, 0)
        if _FLOAT.fullmatch(text):
            number = float(text)
            if not math.isfinite(number):
                self._refuse(event, f"`{shown(text)}` is too large; write a finite number")
            return number
        self._refuse_traps(event, text)
        return text

    def _refuse_traps(self, event: Any, text: str) -> None:
        if zero := _LEADING_ZERO.fullmatch(text):
            sign, digits = zero.groups()
            octal = f" or 0o{digits}" if not sign and set(digits) <= set("01234567") else ""
            remedy = f"write {sign}{shown(digits)}{shown(octal)}"
            self._refuse(event, f"`{shown(text)}` has a leading zero, which may mean octal; {remedy}")
        for trap, message in _TRAPS:
            if trap.fullmatch(text):
                self._refuse(event, f"`{shown(text)}`: {message}")
