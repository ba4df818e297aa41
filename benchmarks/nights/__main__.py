"""Ten nights of the shipped matrix: `python -m benchmarks.nights [--docs DIR] FOLDER [WORD...]`.

Each night is a run of the command line in a copy of the sources, which is a repository of its own: a fault is
committed there and reverted. What befalls jobs and devices besides is in `troubles`, what each night is in
`plan`. The clock of a night is handed to it; the history is written by the runs alone. Then the history is
asked, and each answer is compared with what the night was made to give.

Nights that FOLDER has already are not run again. WORD... narrows all nights, such as `--geometry gemm-128`.
With `--docs`, the nights and the answers become `nights.md` in that folder. Exit code 1 if a night or an
answer is not what it has to be.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from benchmarks.nights.plan import NIGHTS, OVERLAY, Ask, Edit, Night
from pipeline.commands.cli import main as pipeline

ROOT = Path(__file__).parents[2]
SOURCES = ("benchmarks", "emulator", "golden", "kernels", "pipeline", "workloads")
FILES = ("matrix.yaml", "references.json", "pyproject.toml")
PLATFORMS = ("emu-a2a3", "emu-a5", "cann-a2a3")
FIRST = datetime(2026, 3, 1, 4, tzinfo=timezone.utc)
MOST, SHOWN, WIDTH = 10, 3, 200
"""Answers that the page shows all, else so many of them; letters of each."""


class Nights:
    """The folder in which the nights are run: a copy of the sources, and the output of all runs."""

    def __init__(self, folder: Path, words: Sequence[str]) -> None:
        self._folder, self._words = folder.absolute(), words
        self._copy, self.output = self._folder / "checkout", self._folder / "out"
        self._hiding = self._folder / "hiding"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        self._environment = {"PIPELINE_LOCKS": str(self._folder / "locks"), **kept}

    def make(self) -> None:
        """Copy the sources, and commit them."""
        for name in SOURCES:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, self._copy / name, ignore=ignored)
        for name in FILES:
            shutil.copy(ROOT / name, self._copy)
        package = self._hiding / "pypto-0.dist-info"
        package.mkdir(parents=True)
        (package / "METADATA").write_text("Metadata-Version: 2.1\nName: pypto\nVersion: 0\n")
        (self._folder / "nights.yaml").write_text(OVERLAY)
        self._git("init", "--quiet", "--initial-branch", "main")
        self._commit("the sources", FIRST)

    def ended(self) -> list[str]:
        """Ids of the runs of the nights that have been, the first one first."""
        return sorted(path.name for path in (self.output / "runs").glob("*-*-*"))

    def spend(self, number: int, night: Night) -> int:
        """Run a night; gives its exit code."""
        at = FIRST + timedelta(days=number)
        for edit in night.edits:
            self._edit(edit)
            self._commit(edit.message, at - timedelta(hours=8))
        target = f"benchmarks.nights.troubles:{night.target}" if night.target else ""
        filters = [word for name in PLATFORMS for word in ("--platform", name)]
        overlay = ("--matrix", str(self._folder / "nights.yaml"))
        hiding = {"PYTHONPATH": str(self._hiding)} if night.hidden else {}
        command = [sys.executable, "-m", "benchmarks.nights.clock", at.isoformat(), target, "run"]
        words = [*filters, *overlay, *self._words, *night.words, "--output", str(self.output)]
        environment = {**self._environment, **hiding}
        with (self._folder / f"night-{number + 1}.log").open("w") as log:
            return subprocess.call(
                [*command, *words], cwd=self._copy, env=environment, stdout=log, stderr=log
            )

    def ask(self, question: str, run: str, *more: str) -> str:
        """What `history` prints about a run."""
        words = ["history", *question.split(), run, *more, "--output", str(self.output)]
        printed = io.StringIO()
        with redirect_stdout(printed):
            code = pipeline(words)
        assert code == 0, f"{words} ended with exit code {code}"
        return printed.getvalue()

    def verdict(self, run: str) -> str:
        """A run's last line."""
        results: Mapping[str, Any] = json.loads((self.output / "runs" / run / "results.json").read_bytes())
        return str(results["verdict"])

    def _edit(self, edit: Edit) -> None:
        path = self._copy / edit.file
        text = path.read_text()
        assert text.count(edit.old) == 1, f"{edit.file}: {edit.old!r} is not there once"
        path.write_text(text.replace(edit.old, edit.new))

    def _commit(self, message: str, when: datetime) -> None:
        dates = {name: when.isoformat() for name in ("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE")}
        who = ("-c", "user.name=Nights", "-c", "user.email=nights@example.org")
        self._git("add", ".")
        self._git(*who, "commit", "--quiet", "--message", message, **dates)

    def _git(self, *words: str, **environment: str) -> None:
        subprocess.run(["git", *words], cwd=self._copy, env={**self._environment, **environment}, check=True)


def morning(nights: Nights, night: Night, run: str) -> tuple[list[str], int]:
    """The lines of the page about a night, and how many answers are not as they should be."""
    lines, wrong = [], 0
    for ask in night.asks:
        answers = json.loads(nights.ask(ask.question, run, "--json"))["answers"]
        right = _right(ask, answers)
        wrong += not right
        print(f"    {'ok   ' if right else 'WRONG'} {ask.question}: {len(answers)} ({ask.should})")
        lines += ["", f"`{ask.question}` should say: {ask.should}.", "", "```text"]
        lines += [*_shown(nights.ask(ask.question, run)), "```"]
    return lines, wrong


def _right(ask: Ask, answers: Any) -> bool:
    try:
        return ask.does(answers)
    except (KeyError, ValueError, TypeError):
        return False


def _shown(table: str) -> list[str]:
    """The beginning of a table, without the name of this host."""
    named = table.replace(f"{socket.gethostname()} ", "host ")
    lines = [line.rstrip() for line in named.splitlines()]
    rows = len(lines) - 2  # a line and the names of the columns come before
    if rows > MOST:
        lines[2 + SHOWN :] = [f"... and {rows - SHOWN} more"]
    return [line if len(line) <= WIDTH else f"{line[: WIDTH - 3].rstrip()}..." for line in lines]


def main(arguments: Sequence[str]) -> int:
    """Run the nights that are missing, ask, compare, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nights")
    parser.add_argument("--docs", type=Path, help="write nights.md to this folder")
    parser.add_argument("folder", type=Path, help="where the nights are run")
    given, words = parser.parse_known_args(arguments)
    os.environ.pop("PIPELINE_HISTORY", None)
    nights = Nights(given.folder, words)
    if not given.folder.exists():
        nights.make()
    page = [(Path(__file__).parent / "page.md").read_text().rstrip()]
    wrong = 0
    for number, night in enumerate(NIGHTS):
        print(f"night {number + 1}: {night.title}", flush=True)
        if number >= len(nights.ended()):
            code = nights.spend(number, night)
            print(f"    {'ok   ' if code == night.exit_code else 'WRONG'} exit code {code}", flush=True)
        run = nights.ended()[number]
        verdict = nights.verdict(run)
        wrong += not verdict.endswith(f"exit code {night.exit_code}")
        lines, mistaken = morning(nights, night, run)
        wrong += mistaken
        page += ["", f"## Night {number + 1}: {night.title}", "", night.was, "", f"Its verdict: `{verdict}`"]
        page += lines
    if given.docs:
        (given.docs / "nights.md").write_text("\n".join(page) + "\n")
    print(f"{wrong} of the answers and exit codes are not what the nights were made to give")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
