"""One wrong line in a kernel, in a copy of this checkout: the job fails and the report says where."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

RIGHT = "    bands = plan.bands\n"
WRONG = """\
    last_mid = Window(plan.bands[-1].mid.row, plan.bands[-1].mid.rows, (1, 0, 1, 1), plan.bands[-1].mid.skip)
    bands = (*plan.bands[:-1], Band(plan.bands[-1].row, plan.bands[-1].rows, last_mid, plan.bands[-1].x))
"""


@pytest.mark.usefixtures("torch_installed")
def test_a_wrong_padding_in_the_last_band_of_mc62(
    tmp_path: Path,
    start: Callable[..., subprocess.Popen[str]],
    report: Callable[[Path], Mapping[str, Any]],
    goldens: Path,
) -> None:
    checkout = tmp_path / "checkout"
    for package in ("golden", "emulator", "kernels", "pipeline"):
        shutil.copytree(ROOT / package, checkout / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "matrix.yaml", checkout)
    kernel = checkout / "kernels" / "fused_conv2d.py"
    source = kernel.read_text().replace("import Band, Plan", "import Band, Plan, Window")
    assert source.count(RIGHT) == 1
    kernel.write_text(source.replace(RIGHT, WRONG))
    (checkout / "out").mkdir()
    (checkout / "out" / "goldens").symlink_to(goldens)

    words = ("--geometry", "mc62", "--platform", "emu-a2a3", "--profile", "small")
    kernels = ("--kernel", "fused", "--kernel", "two-pass")
    process = start("run", *words, *kernels, "--junit", "junit.xml", folder=checkout, source=checkout)
    out, err = process.communicate(timeout=200)
    assert process.returncode == 1, err
    assert "only in band 7 (last) rows 126..143" in out

    cases = report(checkout / "junit.xml")
    assert cases["device/emu-a2a3/mc62/two-pass/small"].kind == "passed"
    fused = cases["device/emu-a2a3/mc62/fused/small"]
    assert fused.kind == "failure"
    assert "only in band 7 (last) rows 126..143" in fused.message
    assert fused.message in fused.body
    assert fused.body.count("unexplained: ") == 1  # it is none of the faults that are known by name
