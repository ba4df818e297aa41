"""Jobs of the emulator share walks on disk: the same comes out, and no walk of other sources is met."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from emulator.engine import compile_program
from emulator.program import Program
from emulator.soc import SOCS
from golden.geometry import Conv, Geometry
from pipeline.engines import walks as module
from pipeline.engines.base import CompileError, Done, Request
from pipeline.engines.emulator import EmulatorEngine
from pipeline.engines.walks import Walks, rooms
from pipeline.ground.jobs import Platform, WorkloadName
from pipeline.ground.programs import typed_program
from pipeline.ground.subject import Subject, subject_of
from pipeline.matrix.expand import expand
from pipeline.matrix.load import load
from workloads.registry import workload_named

ROOT = Path(__file__).parents[3]
PAIR = Geometry(24, 16, 64, 64, 64, Conv(3, 2, 1), Conv(3, 1, 1))
SMALL = 20_000_000
"""Multiply-accumulates of a geometry whose programs are always run."""

LATER = 1e12
"""When a process begins that finds all sources written long ago, in seconds."""


def new_subject(geometry: Any = PAIR) -> Subject:
    """As in another process: nothing is known of it yet."""
    return Subject(workload_named("conv-pair"), geometry, "a2a3")


def walks_in(folder: Path, sources: tuple[Path, ...] = rooms(), born: float = LATER) -> Walks:
    """The walks as another process has them."""
    found = Walks.of(folder, sources, born)
    assert found is not None
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "emulator"


@pytest.fixture
def copies(tmp_path: Path) -> tuple[Path, ...]:
    """Copies of the sources that determine a walk."""
    return tuple(
        Path(shutil.copytree(room, tmp_path / "copies" / room.name, ignore=shutil.ignore_patterns("*.pyc")))
        for room in rooms()
    )


def keep(folder: Path, sources: tuple[Path, ...] = rooms()) -> Path:
    """Keep the walk of a program; its file."""
    subject = new_subject()
    walks_in(folder, sources).keep(subject, "fused", typed_program(subject, "fused"))
    (path,) = folder.iterdir()
    return path


def entries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# -- the same comes out


def outcome(engine: EmulatorEngine, subject: Subject, name: str, folder: Path) -> list[object]:
    """All that compiling and running a program gives, to the byte."""
    entry, definition = subject.program(name), subject.definition
    tensors = subject.packing.tensors(definition.make("full-range@3", subject.geometry))
    arrays = dict(tensors.arrays("vreq8"))
    arrays |= subject.host_made(name, arrays)
    draw = np.random.default_rng(2)
    for read in set(entry.inputs) - set(arrays):  # an output of another program
        shape = next(
            param.type.shape for param in typed_program(subject, name).main.params if param.name == read
        )
        arrays[read] = draw.integers(-128, 128, shape).astype(np.int8)
    folder.mkdir(parents=True)
    platform = Platform("emu", "emulator", subject.soc)
    request = Request(name, WorkloadName(subject.workload.name), subject, platform, folder)
    done = [engine.compile(request), engine.run(request, {name: arrays[name] for name in entry.inputs})]
    return [told for each in done for told in _told(each)]


def _told(done: Done) -> Iterator[object]:
    yield from (done.facts, done.problems, done.metrics)
    yield from (path.read_bytes() for path in done.artefacts)
    yield from ((name, output.dtype, output.tobytes()) for name, output in done.outputs.items())


def alike(subject: Subject, name: str, folder: Path) -> None:
    """A job that walks, one that walks and keeps it, and one that finds it: all give the same."""

    def again() -> Subject:
        return Subject(subject.workload, subject.geometry, subject.soc, subject.plan_options)

    shared = folder / "walks"
    first = outcome(EmulatorEngine(walks_in(shared)), again(), name, folder / "first")
    third, finder = again(), walks_in(shared)
    found = finder.find(third, name)
    assert found is not None
    assert found == typed_program(subject, name)
    assert not any(call.written for call in found.calls)
    assert outcome(EmulatorEngine(finder), third, name, folder / "third") == first
    assert outcome(EmulatorEngine(), subject, name, folder / "alone") == first


@pytest.fixture(scope="module")
def programs() -> list[tuple[Subject, str]]:
    """Every tile program that the shipped matrix has for the emulator, in each geometry, on each soc."""
    jobs = expand(load([ROOT / "matrix.yaml"]), date(2026, 1, 1))
    emulated = [job for job in jobs if job.platform.backend == "emulator"]
    subjects = {(job.geometry_name, job.platform.soc): subject_of(job) for job in emulated}
    return [(subject, program.name) for subject in subjects.values() for program in subject.workload.programs]


def is_small(subject: Subject) -> bool:
    return bool(subject.soc == "a2a3" and subject.geometry.macs < SMALL)


def test_small_geometries(programs: list[tuple[Subject, str]], tmp_path: Path) -> None:
    small = [named for named in programs if is_small(named[0])][::3]
    assert len({subject.workload.name for subject, _ in small}) > 2
    for number, (subject, name) in enumerate(small):
        alike(subject, name, tmp_path / str(number))


@pytest.mark.thorough
def test_all_geometries(programs: list[tuple[Subject, str]], tmp_path: Path) -> None:
    for number, (subject, name) in enumerate(programs):
        alike(subject, name, tmp_path / str(number))


def test_a_kept_program_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(folder)
    monkeypatch.setattr("pipeline.engines.emulator.typed_program", None)
    EmulatorEngine(walks_in(folder)).check(new_subject(), "fused")


def test_a_refused_program_is_refused_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leaky(subject: Subject, name: str) -> Program:
        program = typed_program(subject, name)
        kernel = next(each for each in program.functions.values() if not each.orchestration)
        return replace(
            program, functions={**program.functions, kernel.name: replace(kernel, body=kernel.body[:-2])}
        )

    monkeypatch.setattr("pipeline.engines.emulator.typed_program", leaky)
    said = []
    for number in range(2):
        subject, own = new_subject(), tmp_path / str(number)
        own.mkdir()
        request = Request(
            "pass1", WorkloadName("conv-pair"), subject, Platform("emu", "emulator", "a2a3"), own
        )
        with pytest.raises(CompileError, match="never written") as refused:
            EmulatorEngine(walks_in(folder)).compile(request)
        said.append(str(refused.value))
    assert said[0] == said[1]
    assert not folder.exists()


def test_a_program_with_a_fault_neither_meets_a_walk_nor_leaves_one(folder: Path, tmp_path: Path) -> None:
    kept = keep(folder)
    before = kept.read_bytes()
    subject = new_subject()
    platform = Platform("emu", "emulator", "a2a3")
    plain = Request("fused", WorkloadName("conv-pair"), subject, platform, tmp_path)
    told = []
    for request in (plain, replace(plain, fault="acc-not-reset-2")):
        EmulatorEngine(walks_in(folder)).compile(request)
        told.append((tmp_path / "listing.txt").read_text())
    assert told[0] != told[1]
    assert entries(folder) == [kept.name]
    assert kept.read_bytes() == before


# -- no walk of anything else is met


@pytest.mark.parametrize(
    "edited",
    [
        "kernels/blocks.py",
        "emulator/engine.py",
        "workloads/base.py",
        "golden/geometry.py",
        "ground/subject.py",
    ],
)
def test_an_edit_meets_no_old_walk(folder: Path, copies: tuple[Path, ...], edited: str) -> None:
    keep(folder, copies)
    assert walks_in(folder, copies).find(new_subject(), "fused") is not None
    began_before = walks_in(folder, copies)
    path = copies[0].parent / edited
    before = path.read_text()
    path.write_text(before + "\n")
    for walks in (walks_in(folder, copies), began_before):
        assert walks.find(new_subject(), "fused") is None
    path.write_text(before)
    assert walks_in(folder, copies).find(new_subject(), "fused") is not None


def test_a_new_file_meets_no_old_walk(folder: Path, copies: tuple[Path, ...]) -> None:
    keep(folder, copies)
    (copies[0] / "more.py").touch()
    assert walks_in(folder, copies).find(new_subject(), "fused") is None


def test_a_process_whose_sources_were_edited_keeps_no_walk(folder: Path, copies: tuple[Path, ...]) -> None:
    walks, subject = walks_in(folder, copies), new_subject()
    (copies[0] / "__init__.py").write_text('"""Other words."""\n')
    walks.keep(subject, "fused", typed_program(subject, "fused"))
    assert not folder.exists()


def test_a_process_that_began_before_an_edit_shares_no_walks(folder: Path, copies: tuple[Path, ...]) -> None:
    """It may have imported what was there before."""
    assert Walks.of(folder, copies, time.time()) is None
    assert Walks.of(folder, copies, time.time() + 60) is not None


def test_other_copies_of_the_sources_have_other_walks(folder: Path, copies: tuple[Path, ...]) -> None:
    """A kernel's messages name its files."""
    keep(folder, copies)
    assert walks_in(folder).find(new_subject(), "fused") is None


def test_another_soc_geometry_plan_and_program_have_other_walks(folder: Path) -> None:
    keep(folder)
    subject = new_subject()
    others = [
        replace(subject, soc="a5"),
        replace(subject, geometry=replace(PAIR, height=28)),
        replace(subject, plan_options={"band_rows": 4}),
    ]
    for other in others:
        assert walks_in(folder).find(other, "fused") is None
    assert walks_in(folder).find(subject, "pass1") is None
    assert walks_in(folder).find(subject, "fused") is not None


def test_a_workload_that_is_not_the_shipped_one_shares_no_walks(folder: Path) -> None:
    kept, shipped = keep(folder), new_subject()
    own = replace(shipped, workload=replace(shipped.workload))
    walks = walks_in(folder)
    assert walks.find(own, "fused") is None
    walks.keep(own, "pass1", typed_program(own, "pass1"))
    assert entries(folder) == [kept.name]


# -- what is in the folder


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a flipped bit": _flip,
    "cut short": lambda path: os.truncate(path, 1000),
    "empty": lambda path: os.truncate(path, 0),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path, 0o600)),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "written by others": lambda path: path.chmod(0o666),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_or_foreign_file_is_no_walk(folder: Path, damage: Callable[[Path], object]) -> None:
    damage(keep(folder))
    walks, subject = walks_in(folder), new_subject()
    assert walks.find(subject, "fused") is None
    walks.keep(subject, "fused", typed_program(subject, "fused"))
    again = walks_in(folder).find(new_subject(), "fused")
    assert (again is None) == (damage is DAMAGES["a folder"])


def test_another_users_file_is_no_walk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(folder)
    monkeypatch.setattr("os.geteuid", lambda: 4_000_000_000)
    assert walks_in(folder).find(new_subject(), "fused") is None


def test_a_walk_under_another_name_is_none(folder: Path) -> None:
    path, subject = keep(folder), new_subject()
    walks_in(folder).keep(subject, "pass1", typed_program(subject, "pass1"))
    (other,) = set(folder.iterdir()) - {path}
    shutil.copy(other, path)
    assert walks_in(folder).find(new_subject(), "fused") is None


def test_a_folder_that_takes_no_files_is_harmless(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    walks, subject = walks_in(tmp_path / "file" / "emulator"), new_subject()
    assert walks.find(subject, "fused") is None
    walks.keep(subject, "fused", typed_program(subject, "fused"))


SCRIPT = """
import resource, signal, sys
from pathlib import Path
from pipeline.engines.walks import Walks, rooms
from pipeline.ground.programs import typed_program
from tests.pipeline.engines.test_kept_walks import new_subject

folder, limit = Path(sys.argv[1]), int(sys.argv[2])
if limit:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
program = typed_program(new_subject(), "fused")
print("begun", flush=True)
while True:
    Walks.of(folder, rooms(), 1e12).keep(new_subject(), "fused", program)
    if limit:
        break
"""


def writing(folder: Path, limit: int = 0) -> subprocess.Popen[str]:
    """A process that keeps the walk again and again; with a limit, once, and no file may be longer."""
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(folder), str(limit)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    return process


def test_a_full_disk_leaves_nothing(folder: Path) -> None:
    with writing(folder, 1000) as process:
        assert process.wait(60) == 0
    assert entries(folder) == []


def test_two_processes_that_write_at_once_and_are_killed_leave_a_whole_walk(folder: Path) -> None:
    with writing(folder) as one, writing(folder) as other:
        try:
            path = keep_until_there(folder)
            for _ in range(30):
                assert walks_in(folder).find(new_subject(), "fused") is not None
        finally:
            for process in (one, other):
                process.send_signal(signal.SIGKILL)
    assert walks_in(folder).find(new_subject(), "fused") is not None
    assert {Path(name).suffix for name in entries(folder)} <= {".walk", ".partial"}
    assert path.exists()


def keep_until_there(folder: Path) -> Path:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if folder.exists() and (found := [*folder.glob("*.walk")]):
            return found[0]
        time.sleep(0.01)
    raise AssertionError("no walk was kept")


def old(path: Path, seconds: float, size: int = 10) -> Path:
    """A sparse file, last used so long ago."""
    path.touch()
    os.truncate(path, size)
    os.utime(path, (time.time() - seconds,) * 2)
    return path


def test_what_is_old_or_too_much_is_removed(folder: Path) -> None:
    folder.mkdir(parents=True)
    day, most = 24 * 3600.0, module._MOST_BYTES
    left = [
        old(folder / "0.walk", 29 * day),
        old(folder / "1.walk", day, most - 100),
        old(folder / "2.partial", 60),
    ]
    old(folder / "3.walk", 31 * day)
    old(folder / "4.partial", day)
    subject = new_subject()
    walks = walks_in(folder)
    walks.keep(subject, "fused", typed_program(subject, "fused"))
    kept = {path.name for path in folder.iterdir()} - {path.name for path in left}
    assert all(path.exists() for path in left)
    assert len(kept) == 1
    walks.keep(subject, "pass1", typed_program(subject, "pass1"))
    assert not left[0].exists()
    assert not left[1].exists()
    assert len([*folder.glob("*.walk")]) == 2


def test_a_walk_that_is_used_stays(folder: Path) -> None:
    path = old(keep(folder), 20 * 24 * 3600.0, keep_size := keep_size_of(folder))
    assert path.stat().st_size == keep_size
    assert walks_in(folder).find(new_subject(), "fused") is not None
    assert time.time() - path.stat().st_mtime < 3600


def keep_size_of(folder: Path) -> int:
    (path,) = folder.iterdir()
    return path.stat().st_size


def test_counts_and_memory_maps_of_a_kept_walk_are_those_of_the_walk(folder: Path) -> None:
    subject = new_subject()
    keep(folder)
    found = walks_in(folder).find(new_subject(), "fused")
    assert found is not None
    kept, own = (compile_program(each, SOCS["a2a3"]) for each in (found, typed_program(subject, "fused")))
    assert (kept.counts, kept.estimate) == (own.counts, own.estimate)
    assert {name: placed.residents for name, placed in kept.memory.items()} == {
        name: placed.residents for name, placed in own.memory.items()
    }
