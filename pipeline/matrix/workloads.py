"""The workloads that a matrix may name: those that are shipped, and a user's own in a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pipeline.ground.jobs import WorkloadName
from pipeline.matrix.errors import close_or_all, closest, shown
from pipeline.matrix.schema import WORKLOAD, WORKLOADS
from pipeline.matrix.strict_yaml import KeyPath, Node
from workloads.base import Workload, WorkloadError
from workloads.registry import DEFAULT, SHIPPED, workload_named


def own_workloads(root: Node) -> Mapping[str, WorkloadName]:
    """A user's own workloads by name, each file relative to the matrix file that names it.

    Entries that do not fit the schema are left out here; the check of the schema refuses them.

    Raises:
        MatrixError: one has the name of a workload that is shipped.
    """
    top = root.value if isinstance(root.value, Mapping) else {}
    section = top[WORKLOADS].value if WORKLOADS in top else {}
    found = {}
    for name in section if isinstance(section, Mapping) else ():
        if name in SHIPPED:
            root.refuse((WORKLOADS, name), "is the name of a workload that is shipped; give yours another")
        file = root.at((WORKLOADS, name, "file"))
        if isinstance(file.value, str) and file.value:
            found[name] = WorkloadName(name, str((Path(file.file).parent / file.value).absolute()))
    return found


def workload_at(root: Node, path: KeyPath, own: Mapping[str, WorkloadName]) -> WorkloadName:
    """The workload of the geometry that is written at a path.

    Raises:
        MatrixError: no workload has this name.
    """
    node = root.at(path)
    written = node.value.get(WORKLOAD) if isinstance(node.value, Mapping) else None
    known = [*SHIPPED, *own]
    if written is not None and isinstance(written.value, Mapping | tuple):
        root.refuse((*path, WORKLOAD), f"is not a name; {close_or_all('', known)}")
    name = DEFAULT if written is None else written.value
    if not isinstance(name, str):
        what = f"`{shown(name)}` is not text, and a workload is named by text"
        root.refuse((*path, WORKLOAD), f"{what}; {close_or_all('', known)}")
    if name not in known:
        root.refuse((*path, WORKLOAD), f"`{shown(name)}` is no known workload; {closest(name, known)}")
    return own.get(name) or WorkloadName(name)


def declaration(workload: WorkloadName) -> Workload | None:
    """The declaration of a workload; None where the user's file is broken."""
    try:
        return workload_named(workload.name, workload.file)
    except WorkloadError:
        return None
