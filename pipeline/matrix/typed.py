"""Converts nodes to the schema's types; what does not fit is refused with its file, line and key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from pipeline.matrix.durations import Duration, parse_duration
from pipeline.matrix.errors import close_or_all, shown
from pipeline.matrix.schema import WORKLOADS, Document, Entry, GeometryEntry, entry_of
from pipeline.matrix.strict_yaml import KeyPath, Node
from pipeline.matrix.workloads import declaration, own_workloads, workload_at


def typed(root: Node) -> Document:
    """Return the matrix as the schema's types.

    Raises:
        MatrixError: at the first value, children before their parents, that the schema refuses.
    """
    check = _Check(root)
    try:
        return check.at_once()
    except msgspec.ValidationError:
        pass  # the search for its place takes longer, and is needed only now
    if isinstance(root.value, Mapping) and WORKLOADS in root.value:
        # Before the geometries, whose keys depend on them.
        check.convert(_fields(Document)[WORKLOADS], root.value[WORKLOADS], (WORKLOADS,))
    return check.convert(Document, root, ())  # type: ignore[no-any-return]


class _Check:
    """Converts children before their parents, so that an error is reported at the value that has it."""

    def __init__(self, root: Node) -> None:
        self._root = root
        self._own = own_workloads(root)

    def at_once(self) -> Document:
        """The whole matrix. Raises `msgspec.ValidationError`, which does not say where the mistake is."""
        document: Document = msgspec.convert(self._root.plain(), Document, dec_hook=_custom)
        for name in document.geometries:
            path = ("geometries", name)
            msgspec.convert(self._root.at(path).plain(), self._geometry(path))
        return document

    def convert(self, kind: Any, node: Node, path: KeyPath) -> Any:
        if kind is GeometryEntry:
            kind = self._geometry(path)
        for step, child_kind, child in self._children(kind, node, path):
            self.convert(child_kind, child, (*path, step))
        try:
            return msgspec.convert(node.plain(), kind, dec_hook=_custom)
        except msgspec.ValidationError as error:
            value = "" if isinstance(node.value, Mapping | tuple) else f"`{shown(node.value)}`: "
            said = str(error).replace(" | null", "")  # no matrix can write null
            what = said[0].lower() + said[1:]
            self._root.refuse(path, f"{value}{what}; write {_wanted(kind)}")

    def _geometry(self, path: KeyPath) -> Any:
        """The entry type of a geometry; any mapping if the file of its workload is broken."""
        declared = declaration(workload_at(self._root, path, self._own))
        return entry_of(declared) if declared is not None else dict[str, Any]

    def _children(self, kind: Any, node: Node, path: KeyPath) -> Iterator[tuple[str | int, Any, Node]]:
        bare = _bare(kind)
        if isinstance(node.value, tuple) and get_origin(bare) is tuple:
            for index, child in enumerate(node.value):
                yield index, get_args(bare)[0], child
        elif isinstance(node.value, Mapping) and get_origin(bare) is dict:
            key_kind, value_kind = get_args(bare)
            for key, child in node.value.items():
                yield key, key_kind, Node(key, child.file, child.line)
                yield key, value_kind, child
        elif isinstance(node.value, Mapping) and _is_entry(bare):
            fields = _fields(bare)
            self._check_keys(bare, fields, node.value, path)
            for key, child in node.value.items():
                yield key, fields[key], child

    def _check_keys(
        self, entry: type[Entry], fields: Mapping[str, Any], written: Mapping[str, Node], path: KeyPath
    ) -> None:
        for key in written:
            if key not in fields:
                self._root.refuse((*path, key), f"is not a key of this mapping; {close_or_all(key, fields)}")
        for field in msgspec.structs.fields(entry):
            if field.required and field.name not in written:
                self._root.refuse(path, f"has no `{field.name}`; write {_wanted(fields[field.name])}")


def _custom(kind: type, value: Any) -> object:
    if kind is GeometryEntry:
        if not isinstance(value, dict):
            raise TypeError  # no mapping
        return GeometryEntry(value)
    assert kind is Duration, kind
    return parse_duration(value)


@cache
def _fields(entry: type[Entry]) -> Mapping[str, Any]:
    return get_type_hints(entry, include_extras=True)


def _bare(kind: Any) -> Any:
    """Return a type without its `Annotated` facts."""
    return kind.__origin__ if hasattr(kind, "__metadata__") else kind


def _is_entry(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Entry)


def _wanted(kind: Any) -> str:
    """Say what the schema wants in a place, as the end of a sentence that starts with `write`."""
    descriptions = [fact.description for fact in getattr(kind, "__metadata__", ()) if fact.description]
    bare = _bare(kind)
    if descriptions:
        return str(descriptions[-1])
    if _is_entry(bare):
        return f"a mapping with the keys {', '.join(_fields(bare))}"
    return "a list" if get_origin(bare) is tuple else "a mapping from names"
