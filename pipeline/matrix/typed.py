"""Converts nodes to the schema's types; what does not fit is refused with its file, line and key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from pipeline.ground.jobs import WorkloadName
from pipeline.ground.words import close_or_all, closest, shown
from pipeline.matrix.durations import Duration, parse_duration
from pipeline.matrix.schema import WORKLOAD, WORKLOADS, Document, Entry, GeometryEntry, entry_of
from pipeline.matrix.strict_yaml import KeyPath, Node
from workloads.base import Workload, WorkloadError
from workloads.registry import DEFAULT, SHIPPED, workload_named


def typed(root: Node) -> Document:
    """Return the matrix as the schema's types.

    Raises:
        MatrixError: at the first value, children before their parents, that the schema refuses.
    """
    own = {}
    if WORKLOADS in root.plain():
        # Before the geometries, whose keys depend on them.
        entries = _Check(root, {}).convert(_fields(Document)[WORKLOADS], root.at((WORKLOADS,)), (WORKLOADS,))
        for name, entry in entries.items():
            place = WORKLOADS, name
            if name in SHIPPED:
                root.refuse(place, "is the name of a workload that is shipped; give yours another")
            folder = Path(root.at((*place, "file")).file).parent
            own[name] = WorkloadName(name, str((folder / entry.file).absolute()))
    return _Check(root, own).whole()


class _Check:
    """Converts children before their parents, so that an error is reported at the value that has it.

    `own` are the user's own workloads by name.
    """

    def __init__(self, root: Node, own: Mapping[str, WorkloadName]) -> None:
        self._root = root
        self._workloads = {name: WorkloadName(name) for name in SHIPPED} | dict(own)
        self._declaration = cache(_declaration)  # so that the file of a broken one is tried once

    def whole(self) -> Document:
        """The matrix in one call if it fits; else value by value, to find the first that does not."""
        try:
            document: Document = msgspec.convert(self._root.plain(), Document, dec_hook=self._custom)
            for name in document.geometries:
                path = ("geometries", name)
                written = self._root.at(path).plain()
                msgspec.convert(written, self._geometry(written, path))
        except msgspec.ValidationError:
            return self.convert(Document, self._root, ())  # type: ignore[no-any-return]
        self._check_said(Document, self._root, ())
        return document

    def _check_said(self, kind: Any, node: Node, path: KeyPath) -> None:
        """Check the rules of `_check_said_to_editors` everywhere in a value that fits its type."""
        for step, child_kind, child in self._children(kind, node, path):
            self._check_said(child_kind, child, (*path, step))
        for fact in getattr(kind, "__metadata__", ()):
            self._check_said_to_editors(fact.extra_json_schema or {}, node.plain(), path)

    def convert(self, kind: Any, node: Node, path: KeyPath) -> Any:
        if kind is GeometryEntry:
            kind = self._geometry(node.plain(), path)
        for step, child_kind, child in self._children(kind, node, path):
            self.convert(child_kind, child, (*path, step))
        try:
            converted = msgspec.convert(node.plain(), kind, dec_hook=self._custom)
        except msgspec.ValidationError as error:
            value = "" if isinstance(node.value, Mapping | tuple) else f"`{shown(node.value)}`: "
            # No matrix can write null, and what a date looks like is said behind it.
            said = str(error).replace(" | null", "").replace("RFC3339 encoded ", "")
            what = said[0].lower() + said[1:]
            self._root.refuse(path, f"{value}{what}; write {_wanted(kind)}")
        for fact in getattr(kind, "__metadata__", ()):
            self._check_said_to_editors(fact.extra_json_schema or {}, converted, path)
        return converted

    def _custom(self, kind: type, value: Any) -> object:
        if kind is Duration:
            return parse_duration(value)
        assert kind is GeometryEntry, kind
        workload = self._workloads.get(value.get(WORKLOAD, DEFAULT)) if isinstance(value, dict) else None
        if workload is None:
            raise ValueError("no mapping, or no known workload")
        return GeometryEntry(workload, self._declaration(workload), value)

    def _geometry(self, written: Any, path: KeyPath) -> Any:
        """The entry type of a geometry; any mapping if the file of its workload is broken."""
        name = written.get(WORKLOAD, DEFAULT) if isinstance(written, dict) else DEFAULT
        path, known = (*path, WORKLOAD), self._workloads
        if isinstance(name, dict | list):
            self._root.refuse(path, f"is not a name; {close_or_all('', known)}")
        if not isinstance(name, str):
            what = f"`{shown(name)}` is not text, and a workload is named by text"
            self._root.refuse(path, f"{what}; {close_or_all('', known)}")
        if name not in known:
            self._root.refuse(path, f"`{shown(name)}` is no known workload; {closest(name, known)}")
        declared = self._declaration(known[name])
        return entry_of(declared) if declared is not None else dict[str, Any]

    def _children(self, kind: Any, node: Node, path: KeyPath) -> Iterator[tuple[str | int, Any, Node]]:
        bare = _bare(kind)
        if isinstance(node.value, tuple) and (item := _item_of(bare)) is not None:
            for index, child in enumerate(node.value):
                yield index, item, child
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
        for field in _declared(entry):
            if field.required and field.name not in written:
                self._root.refuse(path, f"has no `{field.name}`; write {_wanted(fields[field.name])}")

    def _check_said_to_editors(self, said: Mapping[str, Any], value: Any, path: KeyPath) -> None:
        """Refuse what the JSON Schema alone says is wrong: an unknown name, or a repeated item of a list."""
        if value not in said.get("enum", [value]):
            self._root.refuse(
                path, f"`{shown(value)}` is no known {path[-1]}; {closest(value, said['enum'])}"
            )
        if "uniqueItems" in said:
            for place, item in enumerate(value):
                if item in value[:place]:
                    self._root.refuse((*path, place), f"`{shown(item)}` is written again; keep one of them")


def _declaration(workload: WorkloadName) -> Workload | None:
    """The declaration of a workload; None where the user's file is broken."""
    try:
        return workload_named(workload.name, workload.file)
    except WorkloadError:
        return None


_declared = cache(msgspec.structs.fields)


@cache
def _fields(entry: type[Entry]) -> Mapping[str, Any]:
    return get_type_hints(entry, include_extras=True)


def _bare(kind: Any) -> Any:
    """Return a type without its `Annotated` facts."""
    return kind.__origin__ if hasattr(kind, "__metadata__") else kind


def _item_of(kind: Any) -> Any:
    """The type of the items of a list; of a value that may be a list, that of the list; else None."""
    if get_origin(kind) in (Union, UnionType):
        return next(filter(None, map(_item_of, get_args(kind))), None)
    return get_args(kind)[0] if get_origin(kind) is tuple else None


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
    if bare is int:
        return "a whole number"
    return "a list" if get_origin(bare) is tuple else "a mapping from names"
