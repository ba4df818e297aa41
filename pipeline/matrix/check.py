"""The rules between the entries of a matrix: known names, sound geometries, nothing idle, no job twice."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date

from emulator.soc import SOCS
from golden.geometry import Conv, Geometry, GeometryError
from golden.profiles import ProfileError, resolve
from golden.vreq8 import VARIANTS
from kernels.catalogue import KERNELS
from kernels.plan import PlanError
from pipeline.engines.registry import BACKENDS
from pipeline.ground.jobs import Platform, PlatformKind
from pipeline.ground.tiling import plan_for
from pipeline.matrix.errors import closest, shown
from pipeline.matrix.expand import Matcher, Rule, included, remaining, with_compared
from pipeline.matrix.model import Matrix
from pipeline.matrix.schema import CompileBlock, DeviceBlock, Document, GeometryEntry, PlatformEntry
from pipeline.matrix.strict_yaml import KeyPath, Node


def checked_matrix(document: Document, source: Node) -> Matrix:
    """Return the matrix of a document.

    Raises:
        MatrixError: a geometry breaks a rule of the conv pair or a band height one of the plan, a name is
            unknown, a device or a job is written twice, a pattern is no regular expression.
    """
    geometries = {name: _geometry(name, entry, source) for name, entry in document.geometries.items()}
    platforms = {name: _platform(name, entry, source) for name, entry in document.platforms.items()}
    matrix = Matrix(document, geometries, platforms, source)
    _check_band_rows(matrix)
    _check_blocks(matrix, ("lanes", "compile", "include"), document.lanes.compile.include)
    _check_blocks(matrix, ("lanes", "device", "include"), document.lanes.device.include)
    _refuse_repeated_jobs(matrix)
    for place, pattern in enumerate(document.retries.patterns):
        _check_pattern(source, ("retries", "patterns", place), pattern)
    return matrix


def refuse_idle_entries(matrix: Matrix, of_file: str) -> None:
    """Refuse entries of one file that no job needs: geometries, platforms, rules whose glob matches none.

    Raises:
        MatrixError: at the first of them.
    """
    document = matrix.document
    candidates = included(matrix)
    used = {
        "geometries": {candidate.geometry for candidate in candidates},
        "platforms": {candidate.platform for candidate in candidates},
    }
    for section, in_use in used.items():
        for name in getattr(document, section):
            if name not in in_use and matrix.source.at((section, name)).file == of_file:
                matrix.source.refuse((section, name), "no lane uses it; name it in a lane or remove it")
    everything = [candidate.id for candidate in with_compared(matrix)]
    planned = [candidate.id for candidate in remaining(matrix)]
    _refuse_idle_rules(matrix.source, "exclude", document.exclude, everything, of_file)
    _refuse_idle_rules(matrix.source, "timeouts", document.timeouts, planned, of_file)
    _refuse_idle_rules(matrix.source, "expected_failures", document.expected_failures, planned, of_file)


def _refuse_idle_rules(
    source: Node, section: str, rules: Sequence[Rule], job_ids: Sequence[str], of_file: str
) -> None:
    match = Matcher(rules)
    busy = {place for job_id in job_ids for place in match(job_id)}
    for place, rule in enumerate(rules):
        path = (section, place, "jobs")
        if place not in busy and source.at(path).file == of_file:
            source.refuse(path, f"`{shown(rule.jobs)}` matches no job; {closest(rule.jobs, job_ids)}")


def _geometry(name: str, entry: GeometryEntry, source: Node) -> Geometry:
    conv1, conv2 = (Conv(conv.kernel, conv.stride, conv.padding) for conv in (entry.conv1, entry.conv2))
    try:
        return Geometry(entry.height, entry.width, entry.cin, entry.cmid, entry.cout, conv1, conv2)
    except GeometryError as error:
        source.refuse(("geometries", name, *error.field.split(".")), str(error))


def _check_band_rows(matrix: Matrix) -> None:
    socs = sorted({platform.soc for platform in matrix.platforms.values()})
    for name, entry in matrix.document.geometries.items():
        for soc in socs if entry.band_rows is not None else ():
            try:
                plan_for(matrix.geometries[name], soc, entry.band_rows)
            except PlanError as error:
                path = ("geometries", name, "band_rows")
                matrix.source.refuse(
                    path, f"`{entry.band_rows}` cannot be tiled on {soc}: {error}; write another"
                )


def _platform(name: str, entry: PlatformEntry, source: Node) -> Platform:
    path = ("platforms", name)
    _check_known(source, (*path, "backend"), "backend", entry.backend, BACKENDS)
    _check_known(source, (*path, "soc"), "soc", entry.soc, SOCS)
    _check_known(source, (*path, "variant"), "variant", entry.variant, VARIANTS)
    _refuse_repeats(source, (*path, "devices"), entry.devices)
    kind = _kind(entry, source, path)
    return Platform(name, entry.backend, entry.soc, entry.variant, entry.devices, entry.required, kind)


def _kind(entry: PlatformEntry, source: Node, path: KeyPath) -> PlatformKind:
    """The kind that is written; where none is, the only one that the backend has."""
    kinds = BACKENDS[entry.backend].kinds
    wanted = " or ".join(f"`kind: {kind.value}`" for kind in kinds)
    if entry.kind is None:
        if len(kinds) > 1:
            source.refuse(path, f"has no `kind`, which backend `{entry.backend}` needs; write {wanted}")
        return kinds[0]
    if entry.kind not in kinds:
        what = f"`{shown(entry.kind)}` is nothing that backend `{entry.backend}` runs on; write {wanted}"
        source.refuse((*path, "kind"), what)
    return PlatformKind(entry.kind)


def _check_blocks(matrix: Matrix, path: KeyPath, blocks: Sequence[CompileBlock | DeviceBlock]) -> None:
    for place, block in enumerate(blocks):
        known: dict[str, tuple[str, Sequence[str], Iterable[str]]] = {
            "platforms": ("platform", block.platforms, matrix.platforms),
            "geometries": ("geometry", block.geometries, matrix.geometries),
            "kernels": ("kernel", block.kernels, KERNELS),
        }
        for section, (what, written, possible) in known.items():
            _refuse_repeats(matrix.source, (*path, place, section), written)
            for item, name in enumerate(written):
                _check_known(matrix.source, (*path, place, section, item), what, name, possible)
        if isinstance(block, DeviceBlock):
            _check_profiles(matrix.source, (*path, place, "profiles"), block.profiles)
        elif block.verify is not None:
            _check_verification(matrix, (*path, place, "verify"), block, block.verify)


def _check_profiles(source: Node, path: KeyPath, profiles: Sequence[str]) -> None:
    _refuse_repeats(source, path, profiles)
    for item, profile in enumerate(profiles):
        _check_profile(source, (*path, item), profile)


def _check_profile(source: Node, path: KeyPath, profile: str) -> None:
    try:
        resolve(profile, date.min)  # any night: only the name is in question
    except ProfileError as error:
        source.refuse(path, str(error))


def _check_verification(matrix: Matrix, path: KeyPath, block: CompileBlock, profile: str) -> None:
    _check_profile(matrix.source, path, profile)
    for name in block.platforms:
        if matrix.platforms[name].on_cards:
            matrix.source.refuse(
                path, f"{name} runs on cards, and the compile lane holds none; verify it in the device lane"
            )


def _check_known(source: Node, path: KeyPath, what: str, name: str, known: Iterable[str]) -> None:
    if name not in known:
        source.refuse(path, f"`{shown(name)}` is no known {what}; {closest(name, known)}")


def _refuse_repeats(source: Node, path: KeyPath, values: Sequence[object]) -> None:
    for item, value in enumerate(values):
        if value in values[:item]:
            source.refuse((*path, item), f"`{shown(value)}` is written again; keep one of them")


def _refuse_repeated_jobs(matrix: Matrix) -> None:
    first: dict[str, tuple[str, KeyPath]] = {}
    for one in included(matrix):
        path: KeyPath = ("lanes", one.lane.value, "include", one.block)
        # As reports join the parts: of `a.b` and `c` they make the name that they make of `a` and `b.c`.
        reported = one.id.replace("/", ".")
        if reported in first:
            earlier_id, earlier_path = first[reported]
            earlier = matrix.source.at(earlier_path)
            place = f"the block at {earlier.file}:{earlier.line}"
            if earlier_id != one.id:
                matrix.source.refuse(
                    path, f"{one.id} and {earlier_id} of {place} have one name in reports; rename one"
                )
            matrix.source.refuse(path, f"{one.id} is made by {place} too; name it in one of them")
        first[reported] = one.id, path


def _check_pattern(source: Node, path: KeyPath, pattern: str) -> None:
    try:
        matches_all = re.compile(pattern).search("") is not None
    except (re.error, OverflowError, RecursionError) as error:
        source.refuse(path, f"`{shown(pattern)}` is no regular expression: {error}; correct it")
    if matches_all:
        source.refuse(path, f"`{shown(pattern)}` matches empty text and so every job; write a narrower one")
