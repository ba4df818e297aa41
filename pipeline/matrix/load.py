"""Loads a matrix and its overlays: strict YAML, the schema's types, then the rules between entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path

from msgspec.structs import replace

from pipeline.ground.files import read_file
from pipeline.matrix.check import checked_matrix
from pipeline.matrix.schema import Matrix
from pipeline.matrix.strict_yaml import MatrixError, Node, read_yaml
from pipeline.matrix.typed import typed


def load(paths: Sequence[Path]) -> Matrix:
    """Load a matrix: its file, then overlays in the order in which they are laid on top.

    Each file must make sense together with those before it: a later overlay may leave an earlier entry
    without use.

    Raises:
        MatrixError: at the first thing that is wrong.
    """
    for path, source in zip(paths, accumulate(map(_read, paths), merge), strict=True):
        matrix = checked_matrix(typed(source), source, of_file=str(path))
    return matrix


def _read(path: Path) -> Node:
    try:
        data = read_file(path)
    except OSError as error:
        what = f"cannot be read: {error.strerror}; name a matrix file"
        raise MatrixError(str(path), None, (), what) from None
    return read_yaml(data, str(path))


def merge(base: Node, overlay: Node) -> Node:
    """Merge an overlay into a matrix: mappings key by key, lists of blocks or rules one after the other.

    For everything else that both have, lists of names and numbers among it, the overlay's value counts.
    """
    if isinstance(base.value, Mapping) and isinstance(overlay.value, Mapping):
        merged = dict(base.value)
        for key, node in overlay.value.items():
            merged[key] = merge(merged[key], node) if key in merged else node
        return replace(base, value=merged)
    if (
        isinstance(base.value, tuple)
        and isinstance(overlay.value, tuple)
        and any(isinstance(item.value, Mapping) for item in base.value)
    ):
        return replace(base, value=base.value + overlay.value)
    return overlay
