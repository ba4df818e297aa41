"""Checks the entries of a matrix together: names, geometries, unused entries, repeated jobs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from golden.geometry import GeometryError
from golden.profiles import ProfileError, parse, resolve
from kernels.plan import PlanError
from pipeline.engines.registry import BACKENDS
from pipeline.ground.jobs import EXCUSABLE, Lane, Platform, PlatformKind, State
from pipeline.ground.subject import Subject, geometry_of
from pipeline.ground.words import closest, shown
from pipeline.matrix.expand import Made, blocks, included, of_inputs, planned, with_compared
from pipeline.matrix.schema import Block, CompileBlock, Document, GeometryEntry, Matrix, PlatformEntry
from pipeline.matrix.select import as_pattern
from pipeline.matrix.strict_yaml import KeyPath, Node
from workloads.base import WorkloadError
from workloads.registry import SHIPPED, workload_named


def checked_matrix(document: Document, source: Node, of_file: str) -> Matrix:
    """Return the matrix of a document; what one of its files adds must be of use.

    Raises:
        MatrixError: a geometry breaks a rule of its workload or of the plan, a name is unknown or of another
            workload, a job is written twice, a pattern is not a regular expression, a cause is no known
            fault, no failure can have a fingerprint, no job uses an entry.
    """
    platforms = {name: _platform(name, entry, source) for name, entry in document.platforms.items()}
    matrix = Matrix(document, platforms, source)
    for name, geometry in matrix.geometries.items():
        _check_geometry(matrix, ("geometries", name), geometry)
    for _, path, block in blocks(document):
        _check_block(matrix, path, block)
    _refuse_repeated_jobs(matrix)
    for place, pattern in enumerate(document.retries.patterns):
        _check_pattern(source, ("retries", "patterns", place), pattern)
    for place, rule in enumerate(document.expected_failures):
        if rule.cause is not None:
            _check_cause(source, ("expected_failures", place, "cause"), rule.cause)
        if rule.fingerprint is not None:
            possible = EXCUSABLE if rule.cause is None else (State.MISMATCH,)
            _check_fingerprint(
                source, ("expected_failures", place, "fingerprint"), rule.fingerprint, possible
            )
    _refuse_idle_entries(matrix, of_file)
    return matrix


def _refuse_idle_entries(matrix: Matrix, of_file: str) -> None:
    """Refuse entries of one file that no job uses: workloads, geometries, platforms, rules."""
    document = matrix.document
    made = with_compared(matrix)
    used = {
        "workloads": {job.workload.name for job, _ in made},
        "geometries": {job.geometry_name for job, _ in made},
        "platforms": {job.platform.name for job, _ in made},
    }
    for section, in_use in used.items():
        for name in getattr(document, section):
            if name not in in_use and matrix.source.at((section, name)).file == of_file:
                matrix.source.refuse((section, name), "no lane uses it; name it in a lane or remove it")
    everything = [job for job, _ in made]
    left = [job for job, _ in planned(matrix)]
    for section, jobs in (("exclude", everything), ("timeouts", left), ("expected_failures", left)):
        rules = getattr(document, section)
        job_ids = [job.id for job in jobs]
        for place, rule in enumerate(rules):
            path, matches = (section, place, "jobs"), as_pattern(rule.jobs).match
            if matrix.source.at(path).file != of_file or any(map(matches, job_ids)):
                continue
            # A rule may be about the jobs that --inputs makes of those of the plan.
            if not any(matches(of_inputs(job).id) for job in jobs if job.lane is not Lane.COMPILE):
                what = f"`{shown(rule.jobs)}` matches no job; {closest(rule.jobs, job_ids)}"
                matrix.source.refuse(path, what)


def _check_geometry(matrix: Matrix, path: KeyPath, entry: GeometryEntry) -> None:
    declared = entry.declaration
    if declared is None:
        return
    try:
        geometry = geometry_of(declared, entry.shapes)
        socs = {platform.soc for platform in matrix.platforms.values()} if entry.plan_options else ()
        for soc in sorted(socs):
            Subject(declared, geometry, soc, entry.plan_options).plan  # noqa: B018 (raises where it has none)
    except PlanError as error:
        option = error.option or next(iter(entry.plan_options))
        rest = {} if error.option else {k: v for k, v in entry.plan_options.items() if k != option}
        beside = f" with {', '.join(f'{key} {value}' for key, value in rest.items())}" if rest else ""
        remedy = "write other values" if rest else "write another"
        what = f"`{entry.plan_options[option]}`{beside} cannot be tiled on {soc}: {error}; {remedy}"
        matrix.source.refuse((*path, option), what)
    except GeometryError as error:
        key, follows, _ = error.field.partition(" ")  # such as `conv input height`, which is no key
        rule = str(error).removeprefix(f"{key} ") if follows else str(error)
        matrix.source.refuse((*path, *key.split(".")), f"{rule}; write another value")
    except WorkloadError:
        pass  # a mistake in the workload's file: the geometry's jobs say what it is


def _platform(name: str, entry: PlatformEntry, source: Node) -> Platform:
    """A platform; if its kind is not written, it is the only one that the backend has."""
    path = ("platforms", name)
    kinds = BACKENDS[entry.backend].kinds
    wanted = " or ".join(f"`kind: {kind.value}`" for kind in kinds)
    if entry.kind is None and len(kinds) > 1:
        source.refuse(path, f"has no `kind`, which backend `{entry.backend}` needs; write {wanted}")
    if entry.kind is not None and entry.kind not in kinds:
        what = f"backend `{entry.backend}` does not run on `{shown(entry.kind)}`; write {wanted}"
        source.refuse((*path, "kind"), what)
    kind = PlatformKind(entry.kind or kinds[0])
    return Platform(name, entry.backend, entry.soc, entry.variant, entry.devices, entry.required, kind)


def _check_block(matrix: Matrix, path: KeyPath, block: Block) -> None:
    known: dict[str, tuple[str, Iterable[str]]] = {
        "platforms": ("platform", matrix.platforms),
        "geometries": ("geometry", matrix.geometries),
    }
    for section, (what, possible) in known.items():
        for item, name in enumerate(getattr(block, section)):
            _check_known(matrix.source, (*path, section, item), what, name, possible)
    _check_kernels(matrix, (*path, "kernels"), block)
    for place, profile in block.data.items():
        if profile is not None:
            _check_profile(matrix, (*path, *place), block, profile)
    if isinstance(block, CompileBlock) and block.verify is not None:
        for name in block.platforms:
            if matrix.platforms[name].on_cards:
                what = f"{name} runs on cards, and the compile lane uses none; verify it in the device lane"
                matrix.source.refuse((*path, "verify"), what)


def _check_kernels(matrix: Matrix, path: KeyPath, block: Block) -> None:
    everywhere = {
        kernel: geometry.declaration.name
        for geometry in matrix.geometries.values()
        if geometry.declaration is not None
        for kernel in geometry.declaration.kernel_names
    }
    for item, kernel in enumerate(block.kernels):
        for name in block.geometries:
            declared = matrix.geometries[name].declaration
            if declared is None or kernel in declared.kernel_names:
                continue  # what a broken file declares is not known
            # Importing all shipped workloads takes long, so they are asked about an unknown name only.
            shipped = (each for each in SHIPPED if kernel in workload_named(each).kernel_names)
            if owner := everywhere.get(kernel) or next(shipped, ""):
                matrix.source.refuse(
                    (*path, item),
                    f"`{shown(kernel)}` is a kernel of workload {owner}, and geometry {name} is one of "
                    f"{declared.name}; write it in a block whose geometries are of {owner}",
                )
            _check_known(
                matrix.source, (*path, item), "kernel", kernel, [*declared.kernel_names, *everywhere]
            )


def _check_profile(matrix: Matrix, path: KeyPath, block: Block, profile: str) -> None:
    name = resolve(profile, date.min)  # any date: only the name matters
    for geometry in block.geometries:
        entry = matrix.geometries[geometry]
        # Where the file of the workload is broken, only the seed can be checked.
        known = entry.declaration.definition.profiles if entry.declaration else [name.partition("@")[0]]
        try:
            parse(name, known)
        except ProfileError as error:
            matrix.source.refuse(path, f"{error}, for geometry {geometry} of workload {entry.workload.name}")


def _check_known(source: Node, path: KeyPath, what: str, name: str, known: Iterable[str]) -> None:
    if name not in known:
        source.refuse(path, f"`{shown(name)}` is no known {what}; {closest(name, known)}")


def _refuse_repeated_jobs(matrix: Matrix) -> None:
    first: dict[str, Made] = {}
    for job, path in included(matrix):
        # Reports join the parts with dots: `a.b` and `c` get the same name as `a` and `b.c`.
        earlier, earlier_path = first.setdefault(job.id.replace("/", "."), (job, path))
        if earlier is not job:
            node = matrix.source.at(earlier_path)
            place = f"the block at {node.file}:{node.line}"
            if earlier.id != job.id:
                what = f"{job.id} and {earlier.id} of {place} have the same name in reports; rename one"
            else:
                what = f"{job.id} is also made by {place}; keep it in one of them"
            matrix.source.refuse(path, what)


def _check_cause(source: Node, path: KeyPath, cause: str) -> None:
    from workloads.faults import FAULTS  # imported here, because only a matrix with causes needs it

    # A diagnosis names the family of a fault that is in both convolutions.
    known = dict.fromkeys(name for fault in FAULTS.values() for name in (fault.id, fault.family))
    _check_known(source, path, "fault", cause, known)


def _check_fingerprint(source: Node, path: KeyPath, fingerprint: str, possible: Iterable[State]) -> None:
    states = [state.value for state in possible]  # those of faults are mismatches
    state, _, rest = fingerprint.partition(" ")
    if state not in states or not rest:
        wanted = " or ".join(f"`{each} ...`" for each in states)
        what = f"`{shown(fingerprint)}` is that of no failure that can be excused; it must be {wanted}"
        source.refuse(path, what + (", as its entry has a cause" if len(states) == 1 else ""))


def _check_pattern(source: Node, path: KeyPath, pattern: str) -> None:
    # Imported here, because only a matrix with patterns needs it.
    from pipeline.ground.patterns import Pattern, PatternError

    try:
        matches_all = Pattern(pattern).occurs("")
    except PatternError as error:
        source.refuse(path, f"`{shown(pattern)}` is not a regular expression: {error}")
    if matches_all:
        source.refuse(path, f"`{shown(pattern)}` matches empty text and so every job; write a narrower one")
