"""Checks the entries of a matrix together: names, geometries, unused entries, repeated jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date

from emulator.soc import SOCS
from golden.geometry import GeometryError
from golden.profiles import ProfileError, parse, resolve
from golden.vreq8 import VARIANTS
from kernels.plan import PlanError
from pipeline.engines.registry import BACKENDS
from pipeline.ground.jobs import Platform, PlatformKind, WorkloadName
from pipeline.ground.subject import geometry_of
from pipeline.ground.tiling import limits_of
from pipeline.matrix.errors import closest, shown
from pipeline.matrix.expand import Matcher, Rule, included, planned, with_compared
from pipeline.matrix.model import GeometryFacts, Matrix
from pipeline.matrix.schema import CompileBlock, DeviceBlock, Document, GeometryEntry, PlatformEntry
from pipeline.matrix.strict_yaml import KeyPath, Node
from pipeline.matrix.workloads import declaration, own_workloads, workload_at
from workloads.base import Workload, WorkloadError
from workloads.registry import SHIPPED, workload_named


def checked_matrix(document: Document, source: Node) -> Matrix:
    """Return the matrix of a document.

    Raises:
        MatrixError: a geometry breaks a rule of its workload or of the plan, a name is unknown or of another
            workload, a device or a job is written twice, a pattern is not a regular expression.
    """
    own = own_workloads(source)
    geometries = {name: _geometry(name, entry, source, own) for name, entry in document.geometries.items()}
    platforms = {name: _platform(name, entry, source) for name, entry in document.platforms.items()}
    matrix = Matrix(document, geometries, platforms, source)
    _check_plan_options(matrix)
    _check_blocks(matrix, ("lanes", "compile", "include"), document.lanes.compile.include)
    _check_blocks(matrix, ("lanes", "device", "include"), document.lanes.device.include)
    _refuse_repeated_jobs(matrix)
    for place, pattern in enumerate(document.retries.patterns):
        _check_pattern(source, ("retries", "patterns", place), pattern)
    return matrix


def refuse_idle_entries(matrix: Matrix, of_file: str) -> None:
    """Refuse entries of one file that no job uses: workloads, geometries, platforms, rules.

    Raises:
        MatrixError: at the first of them.
    """
    document = matrix.document
    candidates = with_compared(matrix)
    used = {
        "workloads": {matrix.geometries[candidate.geometry].workload.name for candidate in candidates},
        "geometries": {candidate.geometry for candidate in candidates},
        "platforms": {candidate.platform for candidate in candidates},
    }
    for section, in_use in used.items():
        for name in getattr(document, section):
            if name not in in_use and matrix.source.at((section, name)).file == of_file:
                matrix.source.refuse((section, name), "no lane uses it; name it in a lane or remove it")
    everything = [candidate.id for candidate in candidates]
    left = [candidate.id for candidate in planned(matrix)]
    _refuse_idle_rules(matrix.source, "exclude", document.exclude, everything, of_file)
    _refuse_idle_rules(matrix.source, "timeouts", document.timeouts, left, of_file)
    _refuse_idle_rules(matrix.source, "expected_failures", document.expected_failures, left, of_file)


def _refuse_idle_rules(
    source: Node, section: str, rules: Sequence[Rule], job_ids: Sequence[str], of_file: str
) -> None:
    match = Matcher(rules)
    busy = {place for job_id in job_ids for place in match(job_id)}
    for place, rule in enumerate(rules):
        path = (section, place, "jobs")
        if place not in busy and source.at(path).file == of_file:
            source.refuse(path, f"`{shown(rule.jobs)}` matches no job; {closest(rule.jobs, job_ids)}")


def _geometry(
    name: str, entry: GeometryEntry, source: Node, own: Mapping[str, WorkloadName]
) -> GeometryFacts:
    path = ("geometries", name)
    workload = workload_at(source, path, own)
    declared = declaration(workload)
    options = declared.plan_options if declared is not None else {}
    facts = GeometryFacts(
        workload,
        declared,
        {key: value for key, value in entry.values.items() if key not in options},
        {key: value for key, value in entry.values.items() if key in options},
    )
    if declared is not None:
        try:
            geometry_of(declared, facts.shapes)
        except GeometryError as error:
            source.refuse((*path, *error.field.split(".")), str(error))
        except WorkloadError:
            pass  # a mistake in the workload's file: the geometry's jobs say what it is
    return facts


def _check_plan_options(matrix: Matrix) -> None:
    socs = sorted({platform.soc for platform in matrix.platforms.values()})
    for name, facts in matrix.geometries.items():
        if facts.declaration is None or not facts.plan_options:
            continue
        try:
            geometry = geometry_of(facts.declaration, facts.shapes)
        except WorkloadError:
            continue  # the geometry's jobs say what is wrong
        for soc in socs:
            try:
                facts.declaration.plan(geometry, limits_of(soc), facts.plan_options)
            except WorkloadError:
                break  # a mistake in the workload's file, which the geometry's jobs tell
            except PlanError as error:
                (option, value), *_ = facts.plan_options.items()
                matrix.source.refuse(
                    ("geometries", name, option),
                    f"`{value}` cannot be tiled on {soc}: {error}; write another",
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
    """The kind as it is written; if none is written, the only one that the backend has."""
    kinds = BACKENDS[entry.backend].kinds
    wanted = " or ".join(f"`kind: {kind.value}`" for kind in kinds)
    if entry.kind is None:
        if len(kinds) > 1:
            source.refuse(path, f"has no `kind`, which backend `{entry.backend}` needs; write {wanted}")
        return kinds[0]
    if entry.kind not in kinds:
        what = f"backend `{entry.backend}` does not run on `{shown(entry.kind)}`; write {wanted}"
        source.refuse((*path, "kind"), what)
    return PlatformKind(entry.kind)


def _check_blocks(matrix: Matrix, path: KeyPath, blocks: Sequence[CompileBlock | DeviceBlock]) -> None:
    for place, block in enumerate(blocks):
        known: dict[str, tuple[str, Sequence[str], Iterable[str]]] = {
            "platforms": ("platform", block.platforms, matrix.platforms),
            "geometries": ("geometry", block.geometries, matrix.geometries),
        }
        for section, (what, written, possible) in known.items():
            _refuse_repeats(matrix.source, (*path, place, section), written)
            for item, name in enumerate(written):
                _check_known(matrix.source, (*path, place, section, item), what, name, possible)
        _check_kernels(matrix, (*path, place, "kernels"), block)
        if isinstance(block, DeviceBlock):
            _check_profiles(matrix, (*path, place, "profiles"), block)
        elif block.verify is not None:
            _check_verification(matrix, (*path, place, "verify"), block, block.verify)


def _declarations(matrix: Matrix, block: CompileBlock | DeviceBlock) -> Iterator[tuple[str, Workload]]:
    """Each geometry of a block with its workload; those of broken files are left out."""
    for name in block.geometries:
        declared = matrix.geometries[name].declaration
        if declared is not None:
            yield name, declared


def _check_kernels(matrix: Matrix, path: KeyPath, block: CompileBlock | DeviceBlock) -> None:
    _refuse_repeats(matrix.source, path, block.kernels)
    everywhere = {
        kernel: facts.declaration.name
        for facts in matrix.geometries.values()
        if facts.declaration is not None
        for kernel in facts.declaration.kernel_names
    }
    for item, kernel in enumerate(block.kernels):
        for geometry, declared in _declarations(matrix, block):
            if kernel in declared.kernel_names:
                continue
            if owner := everywhere.get(kernel) or _shipped_with(kernel):
                matrix.source.refuse(
                    (*path, item),
                    f"`{shown(kernel)}` is a kernel of workload {owner}, and geometry {geometry} is one of "
                    f"{declared.name}; write it in a block whose geometries are of {owner}",
                )
            _check_known(
                matrix.source, (*path, item), "kernel", kernel, [*declared.kernel_names, *everywhere]
            )


def _shipped_with(kernel: str) -> str:
    """The shipped workload that has a kernel, or empty; imports them all, so only for an unknown name."""
    return next((name for name in SHIPPED if kernel in workload_named(name).kernel_names), "")


def _check_profiles(matrix: Matrix, path: KeyPath, block: DeviceBlock) -> None:
    _refuse_repeats(matrix.source, path, block.profiles)
    for item, profile in enumerate(block.profiles):
        _check_profile(matrix, (*path, item), block, profile)


def _check_profile(matrix: Matrix, path: KeyPath, block: CompileBlock | DeviceBlock, profile: str) -> None:
    name = resolve(profile, date.min)  # any date: only the name matters
    for geometry in block.geometries:
        facts = matrix.geometries[geometry]
        # Where the file of the workload is broken, only the seed can be checked.
        known = facts.declaration.definition.profiles if facts.declaration else [name.partition("@")[0]]
        try:
            parse(name, known)
        except ProfileError as error:
            matrix.source.refuse(path, f"{error}, for geometry {geometry} of workload {facts.workload.name}")


def _check_verification(matrix: Matrix, path: KeyPath, block: CompileBlock, profile: str) -> None:
    _check_profile(matrix, path, block, profile)
    for name in block.platforms:
        if matrix.platforms[name].on_cards:
            matrix.source.refuse(
                path, f"{name} runs on cards, and the compile lane uses none; verify it in the device lane"
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
        # Reports join the parts with dots: `a.b` and `c` get the same name as `a` and `b.c`.
        reported = one.id.replace("/", ".")
        if reported in first:
            earlier_id, earlier_path = first[reported]
            earlier = matrix.source.at(earlier_path)
            place = f"the block at {earlier.file}:{earlier.line}"
            if earlier_id != one.id:
                matrix.source.refuse(
                    path, f"{one.id} and {earlier_id} of {place} have the same name in reports; rename one"
                )
            matrix.source.refuse(path, f"{one.id} is also made by {place}; keep it in one of them")
        first[reported] = one.id, path


def _check_pattern(source: Node, path: KeyPath, pattern: str) -> None:
    # Imported here, because only a matrix with patterns needs it.
    from pipeline.ground.patterns import Pattern, PatternError

    try:
        matches_all = Pattern(pattern).occurs("")
    except PatternError as error:
        source.refuse(path, f"`{shown(pattern)}` is not a regular expression: {error}")
    if matches_all:
        source.refuse(path, f"`{shown(pattern)}` matches empty text and so every job; write a narrower one")
