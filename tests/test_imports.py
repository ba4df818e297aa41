"""Who may import whom. Change the code first, then these rules, or neither."""

from __future__ import annotations

import ast
import itertools
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from pipeline.__main__ import Later

ROOT = Path(__file__).parents[1]

WORKLOADS = ("conv_pair", "conv", "gemm")
"""The modules of the workloads that are shipped, in `golden/` and in `workloads/`."""

LAYERS = (
    ("golden.errors", "golden.draw", "golden.terms", "golden.entries", "emulator"),
    ("golden.geometry", "golden.vreq8", "lowering"),
    ("golden.layout", "golden.specs"),
    ("golden.reference", "golden.profiles", "golden.inputs"),
    ("golden.chain", "golden.definition"),
    ("golden.recipes", "golden.cache"),
    ("golden",),
    ("kernels",),
    ("workloads.form", "workloads.packing", "workloads.stages", "workloads.tensor_level"),
    ("workloads.base",),
    ("workloads.own",),
    ("workloads", *(f"workloads.{name}_tensor" for name in WORKLOADS)),
    tuple(f"workloads.{name}" for name in WORKLOADS),
    ("pipeline.ground",),
    ("pipeline.ground.jobs",),
    ("pipeline.ground.results",),
    ("pipeline.ground.subject",),
    ("pipeline.ground.programs", "pipeline.ground.cuts", "pipeline.engines.base"),
    ("pipeline.diff", "pipeline.faults"),
    ("pipeline.engines", "pipeline.results.fingerprint"),
    ("pipeline.work",),
    ("pipeline.run", "pipeline.matrix"),
    (
        "pipeline.commands.options",
        "pipeline.commands.facts",
        "pipeline.results.performance",
        "pipeline.results.excuses",
    ),
    ("pipeline.results.reproduce",),
    ("pipeline.report",),
    ("pipeline.history",),
    ("pipeline.results.review", "pipeline.results.baseline", "pipeline.work.replay"),
    ("pipeline.notify",),
    ("pipeline.dashboard",),
    ("pipeline.commands", "pipeline.faults.matrix"),
    ("pipeline.commands.cli",),
    ("pipeline.__main__",),
)
"""Rooms from the bottom to the top. A room imports from rooms below it, never beside or above."""

APART = {
    "engines": ("emulator", "cann", "pypto", "isa"),
    "report": ("junit", "summary", "terminal", "merge"),
}
"""Rooms of the pipeline whose members do not know one another."""

NAMED = re.compile(
    r"(?<![\w-])(fused|pass1|pass2|two-pass|first-tile(-[a-z-]+)?|conv-pair|gemm)(?![\w-])", re.ASCII
)
"""Names of the workloads that are shipped, of their kernels and programs, as words of their own.

Names of files that begin with the project's name, `conv-pair-pipeline`, are none of them.
"""


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {
    name_of(path): path
    for room in ("golden", "emulator", "lowering", "kernels", "workloads", "pipeline")
    for path in (ROOT / room).rglob("*.py")
}


def imported(node: ast.AST) -> Iterator[str]:
    """Full names of the modules that an import statement reads, of whatever project."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.module, "imports are written in full"
        for alias in node.names:
            full = f"{node.module}.{alias.name}"
            yield full if full in SOURCES else node.module


def imports(module: str) -> set[str]:
    tree = ast.parse(SOURCES[module].read_text())
    return {name for node in ast.walk(tree) for name in imported(node)}


def layer(module: str) -> tuple[int, str]:
    """Number of a module's layer, and its room there: the most exact that is listed."""
    found = [
        (len(room), number, room)
        for number, rooms in enumerate(LAYERS)
        for room in rooms
        if f"{module}.".startswith(f"{room}.")
    ]
    assert found, f"{module} is in no layer: give it a place in LAYERS"
    _, number, room = max(found)
    return number, room


@pytest.mark.parametrize("module", sorted(set(SOURCES) - {"pipeline", "pipeline.results"}))
def test_imports_go_down(module: str) -> None:
    mine, room = layer(module)
    for other in imports(module) & set(SOURCES):
        theirs, other_room = layer(other)
        assert other_room == room or theirs < mine, f"{module} imports {other}"


def test_no_modules_import_each_other_in_a_circle() -> None:
    below = {module: imports(module) & set(SOURCES) - {module} for module in SOURCES}
    assert set(TopologicalSorter(below).static_order()) == set(SOURCES)


def test_kernels_know_the_geometry_and_the_users_errors_alone() -> None:
    known = {other for module in SOURCES if module.startswith("kernels") for other in imports(module)}
    ours = {name for name in known & set(SOURCES) if not name.startswith("kernels")}
    assert ours == {"golden.geometry", "golden.errors"}


def test_the_lowering_knows_programs_their_operands_memory_and_the_soc_alone() -> None:
    known = {other for module in SOURCES if module.startswith("lowering") for other in imports(module)}
    ours = {name for name in known & set(SOURCES) if not name.startswith("lowering")}
    assert ours == {"emulator.program", "emulator.operands", "emulator.memory", "emulator.soc"}


def test_workloads_know_the_golden_and_the_kernels_alone() -> None:
    known = {other for module in SOURCES if module.startswith("workloads") for other in imports(module)}
    rooms = {name.partition(".")[0] for name in known & set(SOURCES)}
    assert rooms == {"golden", "kernels", "workloads"}


@pytest.mark.parametrize("folder", ["golden", "workloads"])
def test_workloads_do_not_know_one_another(folder: str) -> None:
    for one, other in itertools.permutations(WORKLOADS, 2):
        for module in (f"{folder}.{one}", f"{folder}.{one}_tensor"):
            known = imports(module) if module in SOURCES else set()
            assert not known & {f"golden.{other}", f"workloads.{other}", f"workloads.{other}_tensor"}, module


PIPELINE = sorted(module for module in SOURCES if module.startswith("pipeline"))


@pytest.mark.parametrize("module", PIPELINE)
def test_the_pipeline_names_no_workload(module: str) -> None:
    """It reads what is under test from the declaration, which it gets by the name that the matrix gives."""
    shipped = {
        f"{room}.{name}{of}"
        for room in ("golden", "workloads")
        for name in WORKLOADS
        for of in ("", "_tensor")
    }
    assert not imports(module) & shipped
    named = [text for text in texts(module) if NAMED.search(text)]
    assert not named


def texts(module: str) -> Iterator[str]:
    """The string constants of a module, parts of f-strings among them, docstrings left out."""
    tree = ast.parse(SOURCES[module].read_text())
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    documentation = {
        id(statement.value)
        for node in ast.walk(tree)
        if isinstance(node, documented)
        for statement in node.body
        if isinstance(statement, ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.value


@pytest.mark.parametrize(("room", "members"), APART.items())
def test_peers_do_not_know_one_another(room: str, members: tuple[str, ...]) -> None:
    for one, other in itertools.permutations([f"pipeline.{room}.{member}" for member in members], 2):
        mine = [module for module in SOURCES if f"{module}.".startswith(f"{one}.")]
        assert mine
        for module in mine:
            met = [name for name in imports(module) if f"{name}.".startswith(f"{other}.")]
            assert not met, f"{module} imports {met}"


def test_hypotheses_do_not_know_one_another() -> None:
    """Each is one fault: what they share stands in modules that hold none."""
    folder = "pipeline.diff.hypotheses."
    listed = {name for name in imports(f"{folder}registry") if name.startswith(folder)}
    hypotheses = listed - {f"{folder}base", f"{folder}model"}
    assert len(hypotheses) > 1
    for module in hypotheses:
        assert not imports(module) & hypotheses, module


def test_one_module_alone_imports_ray() -> None:
    importers = {module for module in SOURCES if any(name.split(".")[0] == "ray" for name in imports(module))}
    assert importers == {"pipeline.run.cluster.liaison"}


def test_the_command_line_alone_knows_that_there_are_clusters() -> None:
    """Reports, evidence and all else of a run are the same wherever its jobs run."""
    room = "pipeline.run.cluster"
    knowing = {
        module for module in SOURCES if any(f"{name}.".startswith(f"{room}.") for name in imports(module))
    }
    outside = {module for module in knowing if not f"{module}.".startswith(f"{room}.")}
    assert outside
    assert {module.rpartition(".")[0] for module in outside} == {"pipeline.commands"}


def test_the_actor_on_a_node_imports_nothing_of_ours() -> None:
    assert not imports("pipeline.run.cluster.node") & set(SOURCES)


@pytest.mark.parametrize("package", ["torch", "pypto"])
def test_frameworks_are_imported_late_and_where_they_belong(package: str) -> None:
    for module, path in SOURCES.items():
        if any(name.split(".")[0] == package for name in imports(module)):
            assert module == "golden.reference" or module.startswith("pipeline.engines."), module
        for statement in ast.parse(path.read_text()).body:
            assert package not in {name.split(".")[0] for name in imported(statement)}, module


HEAVY = (
    "torch",
    "pypto",
    "junit_xml",
    "rich",
    "asyncio",
    "matplotlib",
    "sqlalchemy",
    "alembic",
    "jinja2",
    "ray",
)


def loaded_by(code: str, heavy: tuple[str, ...] = HEAVY) -> set[str]:
    """Those of the heavy modules that a fresh interpreter has imported after some code."""
    tell = f"import sys; sys.stderr.write(' '.join(name for name in {heavy} if name in sys.modules))"
    ended = subprocess.run(
        [sys.executable, "-c", f"{code}\n{tell}"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(ended.stderr.split())


def test_listing_jobs_loads_nothing_heavy_and_nothing_that_only_runs_need() -> None:
    late = (
        "statistics",
        "difflib",
        "emulator.program",
        "pipeline.ground.results",
        "pipeline.ground.settings",
        "pipeline.engines.base",
        "workloads.faults",
        "workloads.probe",
        "workloads.offered",
        "workloads.loading",
        "workloads.tensor_level",
        "kernels.tensor",
    )
    code = "from pipeline.commands.cli import main; assert main(['list']) == 0"
    assert loaded_by(code, HEAVY + late) == set()


def test_listing_jobs_does_not_load_numpy() -> None:
    code = """
import os, runpy, sys
os._exit = sys.exit  # at once would be before we can look
sys.argv[1:] = ["list"]
try:
    runpy.run_module("pipeline", run_name="__main__")
except SystemExit as end:
    assert end.code == 0
"""
    assert loaded_by(code, ("numpy._core", "numpy.typing", "tempfile")) == set()


def test_a_stand_in_for_a_module_has_what_the_module_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    later = Later("colorsys")
    monkeypatch.setitem(sys.modules, "colorsys", later)
    import colorsys as early

    assert early is later
    assert early.rgb_to_hsv(1.0, 0.0, 0.0) == (0.0, 1.0, 1.0)
    assert sys.modules["colorsys"] is not later


def test_a_run_begins_without_the_database() -> None:
    assert not loaded_by("import pipeline.commands.lanes", ("sqlalchemy", "alembic", "jinja2", "ray"))


def test_a_compile_jobs_process_loads_nothing_heavy(tmp_path: Path) -> None:
    code = f"""
from datetime import date
from pathlib import Path
from pipeline.ground.jobs import State
from pipeline.ground.results import JobContext
from pipeline.matrix.expand import expand
from pipeline.matrix.load import load
from pipeline.run import worker
from pipeline.work.stages import execute
jobs = {{job.id: job for job in expand(load([Path("matrix.yaml")]), date(2026, 12, 1))}}
context = JobContext(Path({str(tmp_path)!r}), 0, Path("unused"))
result = execute(jobs["compile/emu-a2a3/pair-24x16/fused"], context)
assert result.state is State.PASSED
"""
    assert loaded_by(code) == set()
