"""The checked matrix: what every other module of this package works from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.ground.jobs import Platform, WorkloadName
from pipeline.matrix.schema import Document
from pipeline.matrix.strict_yaml import Node
from workloads.base import Workload


@dataclass(frozen=True)
class GeometryFacts:
    """A geometry of the matrix: its workload, its shapes as written, and what it sets for the plan.

    `declaration` is that of the workload; None where the user's file that should declare it is broken. Its
    jobs then stay in the plan, and each says what is wrong with the file.
    """

    workload: WorkloadName
    declaration: Workload | None
    shapes: Mapping[str, Any]
    plan_options: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class Matrix:
    """A matrix whose every entry was checked.

    `document` holds the entries, `geometries` and `platforms` the facts made from them, `source` the nodes
    they were read from, with files and lines.
    """

    document: Document
    geometries: Mapping[str, GeometryFacts]
    platforms: Mapping[str, Platform]
    source: Node
