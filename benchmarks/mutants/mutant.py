"""A mutant: edits of the source of `kernels/`, and the geometry and the programs in which they matter."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

KERNELS = Path(__file__).parents[2] / "kernels"


class CatalogueError(Exception):
    """A mutant does not do what the catalogue says of it."""


@dataclass(frozen=True)
class Edit:
    """A text of one file of `kernels/` and what stands there instead; the text occurs `count` times."""

    file: str
    old: str
    new: str
    count: int = 1


@dataclass(frozen=True)
class Case:
    """A workload in one geometry, tiled with the options of its plan.

    `l1` are the bytes of L1 for which it is tiled, if they are not those of the soc: with fewer, filters and
    maps of a small geometry come in by pieces as those of a large one do.
    """

    workload: str
    geometry: Any
    options: Mapping[str, int] = field(default_factory=dict, hash=False)
    l1: int | None = None


@dataclass(frozen=True)
class Mutant:
    """One or more faults, or an equivalent reordering.

    Attributes:
        name: what is wrong, in plain words.
        faults: the edits of each fault; an equivalent mutant has one group of edits.
        programs: those whose results are wrong, or that are refused; if it is equivalent, those it changes.
        case: the workload and the geometry that reach it.
        equivalent: whether all results stay as they are.
    """

    name: str
    faults: tuple[tuple[Edit, ...], ...]
    programs: tuple[str, ...]
    case: Case
    equivalent: bool = False

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The edits of all its faults."""
        return tuple(edit for fault in self.faults for edit in fault)


def edited_texts(edits: Sequence[Edit]) -> dict[str, str]:
    """The source of each file that is edited, after the edits.

    Raises:
        CatalogueError: a text does not occur as often as its edit says.
    """
    texts: dict[str, str] = {}
    for edit in edits:
        text = texts.get(edit.file) or (KERNELS / edit.file).read_text()
        found = text.count(edit.old)
        if found != edit.count:
            raise CatalogueError(f"{edit.file} has this text {found} times, not {edit.count}: {edit.old}")
        texts[edit.file] = text.replace(edit.old, edit.new)
    return texts


def copied(folder: Path, edits: Sequence[Edit]) -> Path:
    """Copy the package `kernels` into a folder and edit it there; the folder.

    Raises:
        CatalogueError: a text does not occur as often as its edit says.
    """
    texts = edited_texts(edits)
    shutil.copytree(KERNELS, folder / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    for file, text in texts.items():
        (folder / "kernels" / file).write_text(text)
    return folder
