"""The recipes of README, docs/kernels.md and docs/workloads.md, followed to the letter.

A page is carried out block by block. A block of Python or YAML whose first line is a comment with a file's
name is written there; a block of shell is run; each line of a block of text must be among what the commands
before it printed, `...` standing for anything. Commands that no text follows must succeed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import junitparser
import pytest

from pipeline.engines.cann.engine import COMPILER
from pipeline.engines.identity import Framework, identify

pytestmark = pytest.mark.usefixtures("torch_installed")

ROOT = Path(__file__).parents[1]
WORKLOADS, KERNELS = ROOT / "docs/workloads.md", ROOT / "docs/kernels.md"
SESSIONS = {"device": "run", "compile": "compile", "compare": "compare", "report": "report"}
CHECKS = "$PYTHON -m ruff check .\n$PYTHON -m ruff format --check .\n$PYTHON -m mypy"
DENSE = ".venv/bin/nox -s device -- --matrix ../dense/dense.yaml --geometry dense-64 --devices 0"
"""Runs the page's workload on one device, so that a job that fails is not tried on a second one."""

PLACE = re.compile(r"# (?P<file>[\w./-]+\.(?:py|yaml))(?:, (?P<how>[^\n]+))?\n")


def sections(page: Path) -> dict[str, list[tuple[str, str]]]:
    """The blocks of each section by its heading: their languages and texts, in order."""
    parts = re.split(r"^## (.+)\n", page.read_text(), flags=re.MULTILINE)
    return {
        heading: re.findall(r"```(\w+)\n(.*?)```", text, re.DOTALL)
        for heading, text in zip(parts[1::2], parts[2::2], strict=True)
    }


@dataclass
class Reader:
    """Somebody who does what a page says, in a folder; `source` is the code that runs."""

    folder: Path
    source: Path
    printed: str = ""

    def follow(self, blocks: list[tuple[str, str]]) -> None:
        """Do all blocks of a section."""
        for number, (language, text) in enumerate(blocks):
            if language == "sh":
                following = blocks[number + 1][0] if number + 1 < len(blocks) else ""
                code = self.run(text)
                assert following == "text" or code == 0, self.printed
            elif language == "text":
                for line in text.splitlines():
                    self.find(line)
            else:
                self.write(text)

    def write(self, block: str) -> None:
        """Put a block where its first line says; one that names no file is only shown."""
        found = PLACE.match(block)
        if found is None:
            return
        file, how, block = self.folder / found["file"], found["how"], block[found.end() :]
        text = file.read_text() if file.exists() else ""
        if how is None:
            text = block
        elif how == "appended":
            text += block
        elif how == "above WORKLOAD":
            text = once(text, r"^WORKLOAD = ", f"{block}\n\nWORKLOAD = ")
        elif how.startswith("at the end of "):
            field = how.removeprefix("at the end of ")
            text = once(text, rf"^    {field}=\(\n(?:     .*\n)*", r"\g<0>" + block)
        else:
            assert how == "in place of the line"
            key = block.partition("[")[0]
            text = once(text, rf"^{re.escape(key)}.*\n", block)
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)

    def run(self, script: str) -> int:
        """Run shell commands, those of nox as what they call; gives the exit code of the first that fails."""
        script = re.sub(
            r"\.venv/bin/nox -s (\w+) -- ", lambda found: f"$PYTHON -m pipeline {SESSIONS[found[1]]} ", script
        )
        script = script.replace(".venv/bin/nox -s lint typecheck", CHECKS)
        script = script.replace(".nox/environment/bin/python", "$PYTHON")
        ended = subprocess.run(
            ["bash", "-c", "".join(f"{line} || exit\n" for line in script.splitlines())],
            cwd=self.folder,
            env={
                **os.environ,
                "PYTHON": sys.executable,
                "PYTHONPATH": str(self.source),
                "PIPELINE_LOCKS": str(self.folder / "locks"),
                "GIT_DIR": str(self.folder / "none"),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.printed = ended.stdout
        return ended.returncode

    def find(self, line: str) -> None:
        """A line of the page must be among what was printed."""
        pattern = ".*".join(map(re.escape, line.split("...")))
        assert re.search(rf"^ *{pattern}$", self.printed, re.MULTILINE), (line, self.printed)

    def cases(self, lane: str) -> list[junitparser.TestCase]:
        """The cases of the last run of a lane."""
        runs = sorted((self.folder / "out/runs").glob(f"*/jobs/{lane}+*"))
        report = runs[-1].parents[1] / "junit.xml"
        return [case for suite in junitparser.JUnitXml.fromfile(str(report)) for case in suite]

    def diagnoses(self) -> set[str]:
        """The facts `diagnosis` of the last run of the device lane."""
        said = "".join(case.system_out or "" for case in self.cases("device"))
        return set(re.findall(r"^(?:[\w-]+\.)?diagnosis=(.*)$", said, re.MULTILINE))


def once(text: str, pattern: str, replacement: str) -> str:
    """The text with the only match of a pattern replaced."""
    changed, count = re.subn(pattern, replacement, text, flags=re.MULTILINE)  # no block has a backslash
    assert count == 1, pattern
    return changed


@pytest.fixture
def reader(tmp_path: Path, goldens: Path) -> Reader:
    """In a folder with the matrix; the code is this checkout's."""
    folder = tmp_path / "checkout"
    (folder / "out").mkdir(parents=True)
    (folder / "out" / "goldens").symlink_to(goldens)
    shutil.copy(ROOT / "matrix.yaml", folder)
    return Reader(folder, ROOT)


@pytest.fixture
def owner(tmp_path: Path, goldens: Path) -> Reader:
    """In a copy of the repository, with what mypy knows of it and with the bytecode."""
    kept = (".mypy_cache", "__pycache__")
    ignored = [line.strip("/") for line in (ROOT / ".gitignore").read_text().splitlines()]
    copy = tmp_path / "copy"
    left_out = (name for name in ignored if name not in kept)
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", *left_out))
    (copy / "out").mkdir()
    (copy / "out" / "goldens").symlink_to(goldens)
    return Reader(copy, copy)


def test_the_commands_of_the_readme_work_in_their_order(reader: Reader) -> None:
    commands = sections(ROOT / "README.md")["Use"][0][1].splitlines()
    assert len(commands) > 10
    for command in commands:
        assert reader.run(command) == ("# red: " in command), reader.printed


def test_a_geometry_and_a_platform_are_added(reader: Reader) -> None:
    (recipe,) = (blocks for heading, blocks in sections(ROOT / "README.md").items() if "Add a" in heading)
    assert [language for language, _ in recipe] == ["yaml", "sh", "text"]
    reader.follow(recipe)


@pytest.mark.thorough
def test_a_kernel_is_added_also_after_a_workload(owner: Reader) -> None:
    written(owner)
    for blocks in sections(owner.folder / "docs/kernels.md").values():
        owner.follow(blocks)
    assert owner.run(".nox/environment/bin/python -m pipeline.matrix.schema") == 0
    assert owner.printed == (owner.folder / "ci/schemas/matrix.schema.json").read_text()
    stages = {case.name.split("/", 3)[3] for case in owner.cases("compare")}
    assert {"small/upward", "small/upward-vs-fused"} <= stages


def written(reader: Reader, *, tensor_level: bool = False) -> None:
    """Write the files of the page on workloads, and run nothing."""
    for heading, blocks in sections(WORKLOADS).items():
        if tensor_level or "CANN" not in heading:
            reader.follow([block for block in blocks if block[0] in ("python", "yaml")])


@pytest.mark.thorough
def test_a_workload_is_added(reader: Reader) -> None:
    for heading, blocks in sections(WORKLOADS).items():
        if "CANN" not in heading:
            reader.follow(blocks)


@pytest.mark.skipif(
    identify().framework is not Framework.CANN or shutil.which(COMPILER) is None,
    reason="needs CANN's PyPTO and its C++ compiler",
)
@pytest.mark.thorough
def test_a_workload_is_added_for_cann(reader: Reader) -> None:
    written(reader)
    (blocks,) = (blocks for heading, blocks in sections(WORKLOADS).items() if "CANN" in heading)
    reader.follow(blocks)


def test_a_wrong_golden_is_red_and_no_fault_is_blamed_for_it(reader: Reader) -> None:
    written(reader)
    declared = reader.folder / "../dense/dense.py"
    declared.write_text(once(declared.read_text(), r"sums \+ bias", "sums"))
    assert reader.run(DENSE) == 1
    reader.find("2 of 2 jobs are red: 2 mismatch; ...")
    (diagnosis,) = reader.diagnoses()
    assert diagnosis.startswith("the program is right: ")
    assert "golden" in diagnosis


@pytest.mark.parametrize(
    ("fault", "steps"), [("bias-missing-1", "conv"), ("k-step-skipped-1", "conv"), ("x-nhwc", "layout")]
)
@pytest.mark.thorough
def test_the_form_lets_faults_be_named(reader: Reader, fault: str, steps: str) -> None:
    written(reader)
    reader.run(f"{DENSE} --inject {fault}")
    for diagnosis in reader.diagnoses():
        assert diagnosis.startswith(f"{fault}: ")
        assert diagnosis.endswith(f"step {steps}")
    assert reader.diagnoses()


def test_every_type_of_a_declaration_is_offered_in_one_place() -> None:
    import workloads

    assert sorted(workloads.__all__) == workloads.__all__
    assert all(hasattr(workloads, name) for name in workloads.__all__)
