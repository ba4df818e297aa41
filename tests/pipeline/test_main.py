from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def ended_with_cli(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """How `python -m pipeline list` ends in a copy of the pipeline whose `cli.py` reads so."""
    shutil.copytree(ROOT / "pipeline", folder / "pipeline", ignore=shutil.ignore_patterns("__pycache__"))
    for room in ("golden", "kernels", "workloads", "emulator"):
        (folder / room).symlink_to(ROOT / room)
    (folder / "pipeline" / "commands" / "cli.py").write_text(text)
    command = [sys.executable, "-m", "pipeline", "list"]
    # A shell makes what it starts with `&` ignore Ctrl-C, and its children inherit that.
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, preexec_fn=heard)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("def main(arguments):\n    return 1 // 0\n", "ZeroDivisionError"),
        ("def main(\n", "SyntaxError"),
    ],
)
def test_an_error_of_our_own_is_told_whole_and_is_no_mismatch(tmp_path: Path, text: str, error: str) -> None:
    ended = ended_with_cli(tmp_path, text)
    assert ended.returncode == 3
    assert error in ended.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_a_run_begins_is_an_interruption(tmp_path: Path, number: signal.Signals) -> None:
    """While the rooms are being imported, as here, or the plan is made."""
    text = f"import signal, time\nsignal.raise_signal({int(number)})\ntime.sleep(10)\n"
    ended = ended_with_cli(tmp_path, text)
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", "interrupted\n")


def test_a_command_lines_exit_code_is_the_processs(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pipeline", "list"]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 0
    ended = subprocess.run([*command, "--geometry", "mc63"], cwd=ROOT, capture_output=True, check=False)
    assert ended.returncode == 4


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("list", 0),
        ("list --help", 0),
        ("report merge red.xml --out all.xml", 1),
    ],
)
def test_a_reader_who_has_enough_changes_no_exit_code(tmp_path: Path, words: str, code: int) -> None:
    """As in `list | head`."""
    red = '<testcase classname="c" name="n"><failure message="m" type="mismatch">m</failure></testcase>'
    totals = 'tests="1" failures="1" errors="0" skipped="0"'
    suite = f'<testsuite name="s" {totals}>{red}</testsuite>'
    (tmp_path / "red.xml").write_text(f"<testsuites {totals}>{suite}</testsuites>")
    (tmp_path / "matrix.yaml").symlink_to(ROOT / "matrix.yaml")
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [sys.executable, "-m", "pipeline", *words.split()],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (code, "")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_change_no_exit_code(closed: str) -> None:
    for words, code in (("list --geometry mc62", 0), ("list --geometry mc63", 4)):
        shell = f'"{sys.executable}" -m pipeline {words} {closed}'
        ended = subprocess.run(shell, shell=True, cwd=ROOT, capture_output=True, text=True, check=False)
        assert ended.returncode == code
        assert "Traceback" not in ended.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this host has no /dev/full")
@pytest.mark.parametrize(
    "words",
    [
        "pipeline list",
        "pipeline --help",
        "pipeline doctor",
        "pipeline.faults.matrix --geometry pair-24x16 --profile small --fault round-then-add-1",
        "pipeline.commands.tilings --help",
        "pipeline.matrix.schema",
        "pipeline.report.results",
    ],
)
def test_output_that_cannot_be_written_is_one_line(words: str) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", *words.split()]
        ended = subprocess.run(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    said = "standard output cannot be written: No space left on device; make room there, or send it elsewhere"
    assert (ended.returncode, ended.stderr) == (3, f"{said}\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this host has no /dev/full")
def test_errors_that_cannot_be_written_change_no_exit_code() -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "pipeline", "list", "--geometry", "mc63"]
        assert subprocess.run(command, cwd=ROOT, stderr=full, check=False).returncode == 4


def test_a_kernel_that_is_not_python_fails_alone_with_its_line(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "kernels", tmp_path / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    for room in ("golden", "workloads", "pipeline", "emulator", "matrix.yaml"):
        (tmp_path / room).symlink_to(ROOT / room)
    kernel = tmp_path / "kernels" / "first_tile.py"
    source = kernel.read_text()
    lines = len(source.splitlines())
    kernel.write_text(source + "def (\n")
    pair = ["--platform", "emu-a2a3", "--geometry", "pair-24x16"]

    def ended(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pipeline", *words, *pair]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert ended("list").returncode == 0
    assert ended("compile", "--kernel", "fused").returncode == 0
    broken = ended("compile", "--kernel", "first-tile-load")
    assert broken.returncode == 1
    assert f"first_tile.py:{lines + 1}: not Python" in broken.stdout
    head = "def build_first_tile_load(pl: Any, plan: Plan) -> Any:\n"
    line = source[: source.index(head)].count("\n") + 2
    kernel.write_text(source.replace(head, f'{head}    raise ValueError("boom")\n'))
    raised = ended("compile", "--kernel", "first-tile-load")
    assert raised.returncode == 1
    assert f"1 crashed: kernels/first_tile.py:{line}: ValueError: boom\n" in raised.stdout
    summary = max(tmp_path.glob("out/runs/*/summary.md"))
    assert f"kernels/first_tile.py:{line}: ValueError: boom" in summary.read_text()
