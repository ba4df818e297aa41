"""One wrong line in a kernel, in a copy of this checkout: the job fails and the report says where."""

from __future__ import annotations

import re
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


BLAMED = r"tile\.img2col of y at blocks\.py:\d+ < fused_conv2d\.py:\d+ < fused_conv2d\.py:\d+"
"""The padding of the last band is wrong in the operator that reads it."""

SMALL_MISTAKES = {
    "gemm.py": ("for k in pl.range(1, steps):", "for k in pl.range(1, steps - 1):"),
    "conv2d.py": ("last_x, last_y = bands[-1].x.row,", "last_x, last_y = bands[-1].x.row - 1,"),
}
"""The last K step of each tile is left out; the last band reads x one row higher."""


VERIFIED = """\
platforms:
  emu-verified: {backend: emulator, soc: a2a3}
lanes:
  compile:
    include:
      - platforms: [emu-verified]
        geometries: [two-bands]
        kernels: [fused, two-pass]
        verify: small@nightly
"""

Start = Callable[..., subprocess.Popen[str]]
Report = Callable[[Path], Mapping[str, Any]]

pytestmark = pytest.mark.usefixtures("torch_installed")


@pytest.fixture
def checkout(tmp_path: Path, goldens: Path) -> Path:
    """A copy of this checkout with a wrong line in each of three kernels."""
    copy = tmp_path / "checkout"
    for package in ("golden", "emulator", "kernels", "workloads", "pipeline"):
        # With the bytecode, which is good for every file that is not changed.
        shutil.copytree(ROOT / package, copy / package)
    shutil.copy(ROOT / "matrix.yaml", copy)
    kernel = copy / "kernels" / "fused_conv2d.py"
    source = kernel.read_text().replace("import Band, Plan", "import Band, Plan, Window")
    assert source.count(RIGHT) == 1
    kernel.write_text(source.replace(RIGHT, WRONG))
    for name, (right, wrong) in SMALL_MISTAKES.items():
        kernel = copy / "kernels" / name
        source = kernel.read_text()
        assert source.count(right) == 1
        kernel.write_text(source.replace(right, wrong))
    (copy / "out").mkdir()
    (copy / "out" / "goldens").symlink_to(goldens)
    return copy


@pytest.fixture
def called(start: Start, checkout: Path) -> Callable[..., str]:
    """Run the copy's pipeline, which must end with exit code 1; gives what it printed."""

    def call(*words: object) -> str:
        process = start(*words, folder=checkout, source=checkout)
        out, err = process.communicate(timeout=200)
        assert process.returncode == 1, err
        return out

    return call


@pytest.mark.thorough
def test_a_wrong_padding_in_the_last_band_of_mc62(
    called: Callable[..., str], checkout: Path, report: Report
) -> None:
    words = ("--geometry", "mc62", "--platform", "emu-a2a3", "--profile", "small")
    out = called("run", *words, "--kernel", "fused", "--kernel", "two-pass", "--junit", "junit.xml")
    assert "only in band 7 (last) rows 126..143" in out

    cases = report(checkout / "junit.xml")
    assert cases["device/emu-a2a3/mc62/two-pass/small"].kind == "passed"
    fused = cases["device/emu-a2a3/mc62/fused/small"]
    assert fused.kind == "failure"
    assert "only in band 7 (last) rows 126..143" in fused.message
    assert fused.body.startswith(f"{fused.message}\n")
    # It is none of the faults that are known by name: the program says it.
    assert re.search(BLAMED, fused.message)
    assert fused.body.splitlines()[1].startswith("the program is wrong: img2col, ")
    assert re.search(f"(?m)^blamed={BLAMED}$", fused.out)


@pytest.mark.thorough
def test_the_compile_lane_finds_it_where_it_verifies(
    called: Callable[..., str], checkout: Path, report: Report
) -> None:
    (checkout / "verified.yaml").write_text(VERIFIED)
    words = ("--matrix", "verified.yaml", "--platform", "emu-verified", "--date", "2026-03-10")
    out = called("compile", *words, "--junit", "junit.xml")
    job = "compile/emu-verified/two-bands"
    again = "compile --platform emu-verified --geometry two-bands --kernel fused"
    assert f"{again} --matrix verified.yaml --date 2026-03-10\n" in out

    cases = report(checkout / "junit.xml")
    assert cases[f"{job}/two-pass"].kind == "passed"
    fused = cases[f"{job}/fused"]
    assert fused.kind == "failure"
    assert fused.message.startswith("first wrong stage: fused: 5120 of 10240 elements are wrong; ")
    blamed, refuted, verified = fused.body.splitlines()[1:4]
    assert blamed.startswith("the program is wrong: img2col, ")
    assert refuted.startswith("fused: refuted: 5120 of 10240 elements")  # 10 of 20 rows, before any data
    assert verified.startswith("verify-fused: mismatch: y: ")
    assert "only in band 1 (last) rows 10..19" in verified
    assert "profile=small@20260310\n" in fused.out
    assert re.search(f"(?m)^wrong_step=fused: {BLAMED}$", fused.out)
    assert "verify-fused/actual-y.npy]]" in fused.out

    replayed = called("replay", "last", f"{job}/fused")
    assert "\nfused: refuted\n" in replayed
    assert "\nverify-fused: mismatch\ny: " in replayed
    assert "1 job, at most 1 at a time" in called(
        "compile", "--matrix", "verified.yaml", "--failed", "last", "--jobs", 1
    )


@pytest.mark.thorough
def test_a_wrong_convolution_and_a_wrong_matrix_product_until_they_are_right(
    called: Callable[..., str], start: Start, checkout: Path, report: Report
) -> None:
    words = ("--platform", "emu-a2a3", "--geometry", "conv-5x5", "--geometry", "gemm-tall")
    chosen = ("--profile", "small", "--profile", "full-range@7", "--junit", "junit.xml")
    called("run", *words, *chosen)

    cases = report(checkout / "junit.xml")
    conv, gemm = (f"device/emu-a2a3/{job}" for job in ("conv-5x5/conv", "gemm-tall/gemm"))
    assert sorted(cases) == sorted(f"{job}/{name}" for job in (conv, gemm) for name in chosen[1:4:2])
    assert {case.kind for case in cases.values()} == {"failure"}
    assert "only in band 9 (last) rows 36..39" in cases[f"{conv}/full-range@7"].message
    product = cases[f"{gemm}/full-range@7"]
    assert product.message.startswith("c: ")
    assert f" of {1024 * 64} elements differ" in product.message
    assert "gemm/actual-c.npy]]" in product.out

    for job in (f"{conv}/full-range@7", f"{gemm}/full-range@7"):
        assert cases[job].message in called("replay", "last", job)

    for name, (right, wrong) in SMALL_MISTAKES.items():
        kernel = checkout / "kernels" / name
        kernel.write_text(kernel.read_text().replace(wrong, right))
    process = start("run", "--failed", "last", "--junit", "junit.xml", folder=checkout, source=checkout)
    assert process.communicate(timeout=200)[1] == ""
    assert process.returncode == 0
    again = report(checkout / "junit.xml")
    assert {job: case.kind for job, case in again.items()} == dict.fromkeys(cases, "passed")
