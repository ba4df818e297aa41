"""The checked matrix: what every other module of this package works from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from golden.geometry import Geometry
from pipeline.ground.jobs import Platform
from pipeline.matrix.schema import Document
from pipeline.matrix.strict_yaml import Node


@dataclass(frozen=True)
class Matrix:
    """A matrix whose every entry was checked.

    `document` holds the entries, `geometries` and `platforms` the facts made from them, `source` the nodes
    they were read from, with files and lines.
    """

    document: Document
    geometries: Mapping[str, Geometry]
    platforms: Mapping[str, Platform]
    source: Node
