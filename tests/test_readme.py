"""What the README and the other pages for people promise: commands that parse, links that lead somewhere."""

from __future__ import annotations

import dataclasses
import inspect
import re
import shlex
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from emulator.operators import OPERATORS
from golden import conv, conv_pair, gemm
from golden.definition import Definition
from golden.draw import Draw
from golden.geometry import Conv, ConvGeometry, GemmGeometry, Geometry
from golden.inputs import load_inputs
from golden.layout import matrix_to_filter, nc1hwc0_to_nhwc
from golden.specs import Role, Tensors
from golden.vreq8 import VARIANTS
from pipeline.commands.options import parser
from pipeline.matrix.expand import expand
from pipeline.matrix.load import load
from workloads.registry import SHIPPED, workload_named

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMANDS = {"device": "run", "compile": "compile", "compare": "compare", "report": "report"}


def blocks(language: str, page: str = "README.md") -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def pipeline_commands() -> list[list[str]]:
    """The pipeline's words of every command line in the README."""
    found = []
    for line in "".join(blocks("sh")).splitlines():
        words = shlex.split(line, comments=True)
        if "--" in words:
            session = words[words.index("--") - 1]
            found.append([COMMANDS[session], *words[words.index("--") + 1 :]])
        elif "pipeline" in words:
            found.append(words[words.index("pipeline") + 1 :])
    return found


@pytest.mark.parametrize("words", pipeline_commands(), ids=" ".join)
def test_a_command_is_understood(words: list[str]) -> None:
    assert parser().parse_args(words).command == words[0]


def test_what_only_the_compare_lane_has_is_shown() -> None:
    commands = parser().commands
    shown = {word for words in pipeline_commands() if words[0] == "compare" for word in words}
    assert commands["compare"].options - commands["run"].options <= shown


def test_the_two_commands_stand_together() -> None:
    setup, tests = blocks("sh")[0].splitlines()
    assert setup.endswith("nox -s device -- --geometry mc62")
    assert tests == ".venv/bin/nox -s tests"


def test_the_overlay_can_be_used_as_it_stands(tmp_path: Path) -> None:
    (overlay,) = blocks("yaml")
    (tmp_path / "mine.yaml").write_text(overlay)
    jobs = expand(load([ROOT / "matrix.yaml", tmp_path / "mine.yaml"]), date(2026, 12, 1))
    mine = [job.id for job in jobs if job.geometry_name == "mine" and job.id.startswith("device/")]
    assert len(mine) == 8
    assert "device/emu-half-away/mine/two-pass/ties" in mine


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
    for target in targets:
        assert target.startswith("https://") or (page.parent / target).exists(), target


def named_in_tables(page: str) -> list[set[str]]:
    """The names in each column of a page's tables, over all their rows."""
    rows = [
        line.split("|")[1:-1] for line in (ROOT / page).read_text().splitlines() if line.startswith("| `")
    ]
    width = max(map(len, rows))
    return [
        {name for row in rows if len(row) > column for name in re.findall(r"`([^`]+)`", row[column])}
        for column in range(width)
    ]


def test_every_variant_and_profile_is_told() -> None:
    profiles = {name for shipped in SHIPPED for name in workload_named(shipped).definition.profiles}
    assert {*VARIANTS, *profiles} <= named_in_tables("docs/tensors.md")[0]


def test_every_workload_is_told_with_its_tensors_and_kernels() -> None:
    page = (ROOT / "docs/workloads.md").read_text()
    rows = {
        cells[1].strip(): cells[2:-1]
        for cells in (line.split("|") for line in page.splitlines() if line.startswith("| "))
        if len(cells) == len(SHIPPED) + 3
    }
    assert [re.findall(r"`([^`]+)`", cell) for cell in rows[""]] == [[name] for name in SHIPPED]
    for column, name in enumerate(SHIPPED):
        workload = workload_named(name)
        specs = workload.definition.specs(workload.example)

        def told(row: str, column: int = column) -> list[str]:
            return re.findall(r"`([^`]+)`", rows[row][column])

        assert told("inputs") == [spec.name for spec in specs if spec.role is not Role.OUTPUT]
        assert told("outputs") == [spec.name for spec in specs if spec.role is Role.OUTPUT]
        assert sorted(told("kernels")) == sorted(workload.kernel_names)
        fields = [field.name for field in dataclasses.fields(workload.definition.geometry)]
        assert told("shapes") == [*fields, *workload.plan_options]


def test_every_operator_is_told_with_its_parameters_and_what_it_writes() -> None:
    rows = {
        cells[1].strip(" `"): [cell.strip() for cell in cells[2:-1]]
        for cells in (line.split("|") for line in (ROOT / "docs/emulator.md").read_text().splitlines())
        if len(cells) == 6 and cells[1].startswith(" `pl.")
    }
    assert rows.keys() == {f"pl.{name}" for name in OPERATORS}
    for name, operator in OPERATORS.items():
        parameters, gives, memories = rows[f"pl.{name}"]
        behind = ["*", *operator.keyword] if operator.keyword else []
        assert parameters == f"`{', '.join([*operator.positional, *behind])}`"
        written = f"`{operator.destination}`, " if operator.destination else "a new "
        assert gives.startswith(written), name
        assert memories


def test_every_role_and_all_that_a_profile_draws_from_is_told() -> None:
    page = (ROOT / "docs/workloads.md").read_text()
    assert [role.name for role in Role if f"\n| `{role.name}` |" not in page] == []
    calls = dict(re.findall(r"\n\| `draw\.(\w+)\(([^)]*)\)` \|", page))
    offered = {name: method for name, method in vars(Draw).items() if not name.startswith("_")}
    assert {name: call.split(", ") for name, call in calls.items()} == {
        name: list(inspect.signature(method).parameters)[1:] for name, method in offered.items()
    }


@pytest.mark.parametrize("page", ["README.md", "docs/kernels.md"])
def test_who_adds_a_kernel_is_told_which_tests_to_run(page: str) -> None:
    (paths,) = re.findall(r"`\.venv/bin/nox -s tests -- ([^`]+)`", (ROOT / page).read_text())
    assert all((ROOT / path).is_dir() for path in paths.split())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_anchors_lead_to_headings(page: Path) -> None:
    for file, anchor in re.findall(r"\]\(([^):#]*)#([^)]+)\)", page.read_text()):
        target = page.parent / file if file else page
        headings = re.findall(r"^#+ (.+)$", target.read_text(), re.MULTILINE)
        slugs = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
        assert anchor in slugs, (file, anchor)


def parts_of_a_chain(tensors: Tensors, height: int, width: int, convs: dict[str, Conv]) -> dict[str, Any]:
    """The tensors of convolutions as a framework has them: NCHW, [Cout, Cin, kh, kw], rows, int32 offsets."""
    return {
        name: nc1hwc0_to_nhwc(array, height, width).T.reshape(1, -1, height, width)
        if name == "x"
        else matrix_to_filter(array, convs[name])
        if name in convs
        else array.astype(np.int32).ravel()
        if name.startswith("offsets")
        else array.ravel()
        for name, array in tensors.values.items()
    }


PAIR = Geometry(10, 16, 32, 64, 32, Conv(), Conv())
CONV = ConvGeometry(10, 16, 64, 32, Conv(5, 1, 2))
GEMM = GemmGeometry(16, 64, 32)


@pytest.mark.usefixtures("torch_installed")
@pytest.mark.parametrize(
    ("number", "file", "definition", "geometry", "convs"),
    [
        (0, "my-tensors.npz", conv_pair.DEFINITION, PAIR, {"filter1": Conv(), "filter2": Conv()}),
        (1, "my-conv.npz", conv.DEFINITION, CONV, {"filter": CONV.conv}),
        (2, "my-gemm.npz", gemm.DEFINITION, GEMM, None),
    ],
    ids=["conv-pair", "conv", "gemm"],
)
def test_the_inputs_are_made_as_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    file: str,
    definition: Definition,
    geometry: Any,
    convs: dict[str, Conv] | None,
) -> None:
    tensors = definition.make("full-range", geometry)
    given = dict(tensors.values)
    if convs is not None:
        given = parts_of_a_chain(tensors, geometry.height, geometry.width, convs)
    examples = blocks("python", "docs/tensors.md")
    assert len(examples) == len(SHIPPED)
    monkeypatch.chdir(tmp_path)
    exec(examples[number], given)
    loaded = load_inputs(Path(file), definition.specs(geometry)).arrays("vreq8")
    expected = tensors.arrays("vreq8")
    assert loaded.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(loaded[name], array)
