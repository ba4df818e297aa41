"""The one schema of `matrix.yaml`: its entries as types, and the JSON Schema made from them for editors.

The JSON Schema lists names that other packages define, so that editors complete them; for an unknown one
`pipeline.matrix.typed` names the closest.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterable, Mapping
from datetime import date
from functools import cache
from typing import Annotated, Any, cast, get_type_hints

import msgspec
from msgspec import Meta, field

from emulator.soc import SOCS
from golden.profiles import NIGHTLY
from golden.vreq8 import VARIANTS
from pipeline.engines.registry import BACKENDS
from pipeline.ground.jobs import EXCUSABLE, Platform, PlatformKind, WorkloadName
from pipeline.ground.streams import printed
from pipeline.matrix.durations import LONGEST, PATTERN, Duration
from pipeline.matrix.strict_yaml import KeyPath, Node
from workloads.base import Workload
from workloads.registry import DEFAULT, SHIPPED, workload_named

WORKLOAD = "workload"
"""The key of a geometry that names its workload."""

WORKLOADS = "workloads"
"""The key of a matrix that names the files of a user's own workloads."""


def _choice(description: str, names: Iterable[str]) -> Meta:
    return Meta(description=description, extra_json_schema={"enum": list(names)})


def _names(description: str) -> Meta:
    return Meta(min_length=1, description=description, extra_json_schema={"uniqueItems": True})


_NAME = r"^[a-z0-9][a-z0-9._-]{0,63}$"
Name = Annotated[str, Meta(pattern=_NAME, description="a name: lower-case letters, digits, `.`, `_` and `-`")]
Glob = Annotated[
    str, Meta(min_length=1, description="job ids as a glob: `*` stands for any text, `/` included")
]
Reason = Annotated[str, Meta(min_length=1, description="why, in one sentence")]
TimeLimit = Annotated[Duration, Meta(description="the time limit of a job, such as 5m")]


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A mapping of the matrix; a key that is not one of its fields is refused."""


class WorkloadEntry(Entry, frozen=True):
    """A workload of the user's own."""

    file: Annotated[
        str,
        Meta(
            min_length=1, description="the Python file that declares it, relative to the file that names it"
        ),
    ]


class GeometryEntry:
    """The shapes of a workload, and what is set for its plan, as they are written.

    Its keys depend on the workload: `entry_of` makes the type of each. `declaration` is that of the workload;
    None where the user's file that should declare it is broken. Its jobs then stay in the plan, and each says
    what is wrong with the file.
    """

    def __init__(
        self, workload: WorkloadName, declaration: Workload | None, written: Mapping[str, Any]
    ) -> None:
        self.workload = workload
        self.declaration = declaration
        options = declaration.plan_options if declaration is not None else {}
        values = {key: value for key, value in written.items() if key != WORKLOAD}
        self.shapes = {key: value for key, value in values.items() if key not in options}
        self.plan_options = {key: value for key, value in values.items() if key in options}


@cache
def entry_of(workload: Workload) -> type[Entry]:
    """The entry type of a workload's geometries: the fields of its geometry and the options of its plan."""
    options = [
        (name, Annotated[Annotated[int, Meta(ge=1)] | None, Meta(description=what)], None)
        for name, what in workload.plan_options.items()
    ]
    tag = (WORKLOAD, Annotated[str, Meta(description="the workload that it is a geometry of")], DEFAULT)
    return _struct(workload.definition.geometry, tag, *options)


def _struct(kind: type[Any], *more: tuple[str, Any, Any]) -> type[Entry]:
    """The entry type of a geometry's dataclass, or of one within it.

    A field is required unless its metadata say that it may be left out (`golden.geometry.OPTIONAL`).
    """
    hints = get_type_hints(kind, include_extras=True)
    fields: list[Any] = []
    for shape in dataclasses.fields(kind):
        default = (shape.default,) if shape.metadata.get("optional") else ()
        fields.append((shape.name, _kind(hints[shape.name]), *default))
    doc = (kind.__doc__ or "").partition("\n")[0]
    # `defstruct` leaves annotations where `get_type_hints` finds them.
    made = msgspec.defstruct(
        kind.__name__, [*fields, *more], bases=(Entry,), frozen=True, namespace={"__doc__": doc}
    )
    return cast(type[Entry], made)


def _kind(hint: Any) -> Any:
    if dataclasses.is_dataclass(hint):
        return _struct(cast(type[Any], hint))
    facts = getattr(hint, "__metadata__", ())
    said = next((fact for fact in facts if isinstance(fact, str)), "a whole number")
    return Annotated[hint.__origin__ if facts else hint, Meta(description=said)]


class PlatformEntry(Entry, frozen=True):
    """Where jobs run."""

    backend: Annotated[str, _choice("the engine that compiles and runs", BACKENDS)]
    soc: Annotated[str, _choice("the chip whose limits hold", SOCS)]
    variant: Annotated[str, _choice("the reading of requantisation it follows", VARIANTS)] = "vreq8"
    devices: Annotated[
        tuple[Annotated[int, Meta(ge=0, le=65535, description="a device id, from 0")], ...],
        Meta(
            description="the physical ids of its devices as a list, such as [0, 1]",
            extra_json_schema={"uniqueItems": True},
        ),
    ] = ()
    required: Annotated[bool, Meta(description="true or false: whether a skip here is an error")] = False
    # `pipeline.matrix.check` refuses an unknown kind: it says which kinds the backend has.
    kind: Annotated[
        Annotated[str, _choice("what its jobs run on", (kind.value for kind in PlatformKind))] | None,
        Meta(description="what its jobs run on: card or simulator; only backend pypto needs it written"),
    ] = None


Kernel = Annotated[str, Meta(pattern=_NAME, description="a kernel of the workload of the block's geometries")]
Profile = Annotated[
    str,
    Meta(
        # `golden.profiles` refuses wrong seeds and unknown names, with a remedy.
        pattern=r"^[a-z0-9][a-z0-9._-]*(@.*)?$",
        description="a data profile, such as small, full-range@7 or ties@nightly",
        extra_json_schema={"allOf": [{"pattern": f"^[^@]*(@({NIGHTLY}|[0-9]+))?$"}]},
    ),
]
Geometries = Annotated[tuple[Name, ...], _names("a list of names from `geometries`")]
Platforms = Annotated[tuple[Name, ...], _names("a list of names from `platforms`")]
Kernels = Annotated[tuple[Kernel, ...], _names("a list of kernels of the workload")]
Profiles = Annotated[tuple[Profile, ...], _names("a list of data profiles, such as [small, full-range@7]")]


class CompileBlock(Entry, frozen=True):
    """A block of compile jobs: each of its platforms with each geometry and each kernel."""

    platforms: Platforms
    geometries: Geometries
    kernels: Kernels
    verify: Annotated[
        Profile | None,
        Meta(description="one data profile, such as full-range@7, that compiled programs are verified on"),
    ] = None

    @property
    def data(self) -> Mapping[KeyPath, str | None]:
        """The profile of its jobs, by its place in the block; None where they are only compiled."""
        return {("verify",): self.verify}


class DeviceBlock(Entry, frozen=True):
    """A block of device jobs: each of its platforms with each geometry, each kernel and each profile."""

    platforms: Platforms
    geometries: Geometries
    kernels: Kernels
    profiles: Profiles

    @property
    def data(self) -> Mapping[KeyPath, str | None]:
        """The profiles of its jobs, by their places in the block."""
        return {("profiles", place): profile for place, profile in enumerate(self.profiles)}


Block = CompileBlock | DeviceBlock


class _Lane(Entry, frozen=True):
    timeout: TimeLimit = field(default_factory=lambda: Duration(600))


class CompileLane(_Lane, frozen=True):
    """Kernels are compiled, and verified if their block names a profile to verify on; no card is used."""

    include: tuple[CompileBlock, ...] = ()


class DeviceLane(_Lane, frozen=True):
    """Kernels run on data and are compared with the golden."""

    include: tuple[DeviceBlock, ...] = ()


class CompareLane(_Lane, frozen=True):
    """Stage by stage comparison: a job for each platform, geometry and profile of the device lane."""


class Lanes(Entry, frozen=True):
    """What is done with the kernels, and with which time limits."""

    compile: CompileLane = field(default_factory=CompileLane)
    device: DeviceLane = field(default_factory=DeviceLane)
    compare: CompareLane = field(default_factory=CompareLane)


class Rule(Entry, frozen=True):
    """An entry that names jobs by a glob of their ids."""

    jobs: Glob


class Exclusion(Rule, frozen=True):
    """Jobs taken out of the plan again."""

    reason: Reason


class TimeoutRule(Rule, frozen=True):
    """Jobs with a time limit of their own; the last rule that matches a job counts."""

    timeout: TimeLimit


class ExpectedFailureRule(Rule, frozen=True):
    """Jobs known to fail; the last rule that matches a job and has not ended counts."""

    reason: Reason
    link: Annotated[
        str, Meta(pattern=r"^https?://\S+$", description="the web address where the fault is tracked")
    ]
    # `pipeline.matrix.check` refuses an unknown cause, as importing the faults takes long, and what no
    # fingerprint begins with.
    cause: Annotated[
        Annotated[str, Meta(min_length=1)] | None,
        Meta(description="the id of the one fault that is excused, as the fact `cause` shows it"),
    ] = None
    fingerprint: Annotated[
        Annotated[str, Meta(min_length=1)] | None,
        Meta(
            description="the one failure that is excused, as the fact `fingerprint` shows it",
            extra_json_schema={"pattern": f"^({'|'.join(state.value for state in EXCUSABLE)}) ."},
        ),
    ] = None
    until: Annotated[date | None, Meta(description="the last day it is expected, as 2027-01-31")] = None


class Retries(Entry, frozen=True):
    """What counts as an infrastructure error, and how often a job is tried again after one.

    The runner has defaults for what is not written.
    """

    limit: Annotated[
        Annotated[int, Meta(ge=0, le=9)] | None,
        Meta(description="how often a job is tried again, from 0 to 9"),
    ] = None
    patterns: Annotated[
        tuple[Annotated[str, Meta(min_length=1, description="a regular expression in RE2's syntax")], ...],
        Meta(description="a list of regular expressions that count beside the runner's own"),
    ] = ()


class Document(Entry, frozen=True):
    """A whole matrix, its overlays merged in."""

    geometries: dict[Name, GeometryEntry]
    platforms: dict[Name, PlatformEntry]
    lanes: Lanes
    exclude: tuple[Exclusion, ...] = ()
    timeouts: tuple[TimeoutRule, ...] = ()
    expected_failures: tuple[ExpectedFailureRule, ...] = ()
    retries: Retries = Retries()
    workloads: dict[Name, WorkloadEntry] = {}


class Matrix(msgspec.Struct, frozen=True, eq=False):
    """A matrix whose every entry was checked. `source` are the nodes that it was read from."""

    document: Document
    platforms: Mapping[str, Platform]
    source: Node

    @property
    def geometries(self) -> Mapping[str, GeometryEntry]:
        """The geometries by their names."""
        return self.document.geometries


def json_schema() -> str:
    """Return the JSON Schema of `matrix.yaml` as published in `ci/schemas/matrix.schema.json`."""
    shipped = [kernel for name in SHIPPED for kernel in workload_named(name).kernel_names]
    blocks = {"items": {"properties": {"kernels": {"items": {"enum": shipped}}}}}
    lanes = {lane: {"properties": {"include": blocks}} for lane in ("compile", "device")}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "matrix.yaml",
        **msgspec.json.schema(Document, schema_hook=_custom),
        # A user's own workloads may have kernels of any name.
        "if": {"not": {"required": [WORKLOADS]}},
        "then": {"properties": {"lanes": {"properties": lanes}}},
    }
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _custom(kind: type) -> dict[str, Any]:
    if kind is Duration:
        number = {"type": "number", "exclusiveMinimum": 0, "maximum": LONGEST}
        return {"anyOf": [{"type": "string", "pattern": PATTERN}, number]}
    assert kind is GeometryEntry, kind
    # One alternative for each workload that is shipped, and an open one for a user's own.
    alternatives: list[dict[str, Any]] = []
    for name in SHIPPED:
        (schema,), parts = msgspec.json.schema_components([entry_of(workload_named(name))])
        schema = _inlined(schema, parts)
        schema["properties"][WORKLOAD] = {"const": name}
        schema["required"] = [*([] if name == DEFAULT else [WORKLOAD]), *schema["required"]]
        alternatives.append(schema)
    own = {"type": "string", "not": {"enum": list(SHIPPED)}}
    alternatives.append({"type": "object", "properties": {WORKLOAD: own}, "required": [WORKLOAD]})
    return {"anyOf": alternatives}


def _inlined(value: Any, parts: Mapping[str, Any]) -> Any:
    """A schema with each reference to a part replaced by the part."""
    if isinstance(value, dict):
        if "$ref" in value:
            return _inlined(parts[value["$ref"].rpartition("/")[2]], parts)
        return {key: _inlined(item, parts) for key, item in value.items()}
    return [_inlined(item, parts) for item in value] if isinstance(value, list) else value


if __name__ == "__main__":
    sys.exit(printed(json_schema()))
