"""What the headers make of requantisation: measured with a kernel of known answers, not trusted."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

import emulator.language
from emulator.soc import SOCS
from lowering.minimise import program_flags
from lowering.runner import runner
from lowering.text import lower
from pipeline.engines.base import Availability, CompileError, InfrastructureError
from pipeline.engines.isa import questions
from pipeline.engines.isa.build import PROGRAM, RUNNER, SimulatorError, build, run
from pipeline.engines.isa.toolchain import ROOT, Toolchain
from pipeline.ground.jobs import Platform
from pipeline.ground.memory import untouched_output

_SOC = SOCS["a2a3"]
"""The simulator requantises for all socs alike."""

_PATIENCE = 60.0

PER_CHANNEL_SINCE = "787d692d (20 August 2026)"
"""The commit from which on TINSERT_FP scales by channel."""

_PACKED_AS = {"scale19-rne": "vreq8"}
"""Variants that another reading follows, because only the packing of the table differs."""


@dataclass(frozen=True)
class Reading:
    """How an instruction requantises: by which variant, and by channel or by row; or what it answers else."""

    variant: str = ""
    by_row: bool = False
    unknown: str = ""

    def __str__(self) -> str:
        return self.unknown or f"{self.variant} by {'row' if self.by_row else 'channel'}"


@dataclass(frozen=True)
class Measured:
    """What was measured of TINSERT_FP, by which programs requantise here, and of TSTORE_FP; or why not."""

    insert: Reading = Reading()
    store: Reading = Reading()
    failure: str = ""


def read(given: npt.NDArray[np.int8]) -> Reading:
    """The one reading that gives these answers, int8[16, 32]."""
    nearest, fewest, where = "", given.size + 1, (0, 0)
    for by_row in (False, True):
        for variant in questions.READINGS:
            expected = questions.answers(variant, by_row=by_row)
            wrong = np.argwhere(given != expected)
            if not len(wrong):
                return Reading(variant, by_row)
            if len(wrong) < fewest:
                nearest, fewest = str(Reading(variant, by_row)), len(wrong)
                row, column = map(int, wrong[0])
                where = row, column
                said = f"{given[row, column]} instead of {expected[row, column]}"
    return Reading(
        unknown=f"no known reading: nearest is {nearest}, of which {fewest} of {given.size} answers differ, "
        f"the first at {list(where)}: {said}"
    )


def measure(toolchain: Toolchain, cache: Path) -> Measured:
    """Build and run the kernel of known answers, once for these headers, compiler and flags."""
    kernel = questions.build(emulator.language)
    sources = {
        PROGRAM: lower(kernel, _SOC, program_flags(kernel, _SOC)),
        RUNNER: runner(kernel, _SOC),
    }
    try:
        executable = build(toolchain, sources, cache, "-DSTORES_AS_A_CARD")
        kept = executable.with_name("measured.json")
        if kept.exists():
            return msgspec.json.decode(kept.read_bytes(), type=Measured)
        arrays = questions.inputs()
        outputs = {
            name: untouched_output((questions.ROWS, questions.COLUMNS), np.dtype(np.int8))
            for name in ("inserted", "stored")
        }
        with tempfile.TemporaryDirectory(dir=executable.parent) as folder:
            files = {name: Path(folder) / name for name in (*arrays, *outputs)}
            for name, array in {**arrays, **outputs}.items():
                array.tofile(files[name])
            run(executable, list(files.values()), Path(folder) / "log", _PATIENCE)
            inserted, stored = (
                read(np.fromfile(files[name], np.int8).reshape(outputs[name].shape)) for name in outputs
            )
        measured = Measured(inserted, stored)
        unfinished = Path(f"{kept}.{id(measured)}")
        unfinished.write_bytes(msgspec.json.encode(measured))
        unfinished.replace(kept)
    except (CompileError, SimulatorError, InfrastructureError, OSError) as error:
        return Measured(failure=str(error))
    return measured


def judge(measured: Measured, platform: Platform, headers: str) -> Availability:
    """Whether headers of this measurement give what a platform declares."""
    if measured.failure:
        return Availability(
            f"pto-isa ({headers}) cannot be probed: {measured.failure}",
            f"repair the compiler, or name another checkout in {ROOT}",
        )
    insert = measured.insert
    if insert.unknown:
        return Availability(
            f"pto-isa ({headers}): TINSERT_FP follows {insert}", f"name another checkout in {ROOT}"
        )
    if insert.by_row:
        return Availability(
            f"pto-isa ({headers}): TINSERT_FP scales by row, not by channel: its outputs would be wrong",
            f"name a checkout of commit {PER_CHANNEL_SINCE} or newer in {ROOT}",
        )
    if insert.variant != _PACKED_AS.get(platform.variant, platform.variant):
        return Availability(
            f"pto-isa ({headers}) requantises by {insert.variant}, "
            f"but platform {platform.name} declares {platform.variant}",
            f"write `variant: {insert.variant}` for the platform, or name another checkout in {ROOT}",
        )
    return Availability()
