from __future__ import annotations

import re
from pathlib import Path

import pytest

from pipeline.faults.matrix import Case, Row, Totals, main, table
from pipeline.ground.jobs import State

ROOT = Path(__file__).resolve().parents[3]


def case(fault: str, *ranks: tuple[str, ...], profile: str = "small", state: State = State.MISMATCH) -> Case:
    return Case(fault, profile, state, "" if state is State.PASSED else "what happened", ranks)


def row(fault: str, *cases: Case, reason: str = "") -> Row:
    return Row("g", fault, reason, cases)


CLEAN = row("", case("", state=State.PASSED))
RIGHT = row("band-up", case("band-up", ("band-up",)))


@pytest.mark.usefixtures("torch_installed")
def test_the_matrix_of_one_geometry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    names = ("unwritten", "half-away-1", "wrong-stride-2", "band-up")
    faults = [word for name in names for word in ("--fault", name)]
    selection = ["--geometry", "pair-24x16", "--profile", "small", "--profile", "impulse-odd-odd"]
    written: list[str] = []
    assert main([*selection, *faults, "--output", str(tmp_path)], written.append) == 0
    text = "".join(written)
    assert "  unwritten                    detected 2/2 (all); first-ranked right 2/2\n" in text
    assert "  half-away-1                  detected 1/2 (small); first-ranked right 1/1\n" in text
    assert "  wrong-stride-2               detected 2/2 (all); refused with compile-error: blocks.py:" in text
    assert "  band-up                      cannot show: no band can move and stay in the image\n" in text
    assert "4 faults x geometries: 1 cannot show, 3 of the other 3 detected by at least one profile\n" in text
    assert "3 mismatches diagnosed: first-ranked right 3/3 = 100.0 % (alone 3/3 = 100.0 %)" in text
    assert "2 cases refused by the emulator\n2 clean runs: 0 with a finding\n" in text
    assert not (tmp_path / "faults").exists()


@pytest.mark.usefixtures("torch_installed")
def test_a_fault_that_no_profile_shows_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    words = ["--geometry", "pair-24x16", "--profile", "impulse-odd-odd", "--fault", "bias-missing-1"]
    written: list[str] = []
    assert main([*words, "--fault", "unwritten", "--output", str(tmp_path)], written.append) == 1
    assert "bias-missing-1               NOT DETECTED by any of 1 profiles\n" in "".join(written)
    assert "  not detected: bias-missing-1 in pair-24x16\n" in "".join(written)


@pytest.mark.usefixtures("torch_installed")
def test_the_seed_of_the_night_is_settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "matrix.yaml").write_text(
        """\
geometries:
  tiny:
    {height: 24, width: 16, cin: 32, cmid: 32, cout: 32,
     conv1: {kernel: 3, stride: 2, padding: 1}, conv2: {kernel: 3, stride: 1, padding: 1}}
platforms:
  emu-a2a3: {backend: emulator, soc: a2a3}
lanes:
  device:
    include:
      - platforms: [emu-a2a3]
        geometries: [tiny]
        kernels: [fused, two-pass]
        profiles: [full-range@nightly, small]
"""
    )
    monkeypatch.chdir(tmp_path)
    written: list[str] = []
    words = ["--fault", "no-saturation-2", "--fault", "map-corrupted", "--kernel", "two-pass"]
    assert main(words, written.append) == 0
    assert re.search(r"no-saturation-2 +detected 1/2 \(full-range@20\d{6}\)", "".join(written))
    assert (
        "cannot show: this program gathers no feature map beside the other tiles that stay in L1\n"
        in "".join(written)
    )


MATRIX_OF_THREE = """\
geometries:
  tiny:
    {height: 24, width: 16, cin: 32, cmid: 32, cout: 32,
     conv1: {kernel: 3, stride: 2, padding: 1}, conv2: {kernel: 3, stride: 1, padding: 1}}
  single: {workload: conv, height: 16, width: 16, cin: 32, cout: 32, conv: {kernel: 3, stride: 1, padding: 1}}
  product: {workload: gemm, m: 32, k: 64, n: 32}
platforms:
  emu-a2a3: {backend: emulator, soc: a2a3}
lanes:
  device:
    include:
      - {platforms: [emu-a2a3], geometries: [tiny], kernels: [two-pass, fused], profiles: [full-range@7]}
      - {platforms: [emu-a2a3], geometries: [single], kernels: [conv], profiles: [full-range@7]}
      - {platforms: [emu-a2a3], geometries: [product], kernels: [gemm], profiles: [full-range@7]}
"""


@pytest.mark.usefixtures("torch_installed")
def test_without_a_kernel_each_workload_takes_its_first_that_is_described(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "matrix.yaml").write_text(MATRIX_OF_THREE)
    monkeypatch.chdir(tmp_path)
    written: list[str] = []
    assert main(["--fault", "bias-missing-1", "--fault", "map-corrupted"], written.append) == 0
    text = "".join(written)
    assert re.findall(r"^\w+$", text, re.MULTILINE) == ["tiny", "single"]
    # In two-pass the second fault would have no place.
    assert text.count("map-corrupted                detected 1/1 (all); first-ranked right 1/1\n") == 2
    assert "4 faults x geometries: 0 cannot show, 4 of the other 4 detected" in text
    assert "2 clean runs: 0 with a finding\n" in text


def test_a_workload_without_a_fault_model_is_refused_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "matrix.yaml").write_text(MATRIX_OF_THREE)
    monkeypatch.chdir(tmp_path)
    assert main(["--geometry", "product"], print) == 4
    assert capsys.readouterr().err == (
        "no job is left: choose a geometry of a workload that has a fault model, on an emulator platform\n"
    )


def test_a_mistake_is_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(["--fault", "unwriten", "--output", str(tmp_path)], print) == 4
    assert capsys.readouterr().err == (
        "unknown fault 'unwriten': the closest known name is `unwritten`; "
        "python -m pipeline list --faults has them all\n"
    )


def test_a_fault_may_share_its_rank_with_others_that_predict_the_same() -> None:
    shared = case("band-up", ("band-down", "band-up"), profile="ties")
    alone = case("band-up", ("band-up",), ("band-down",))
    assert (shared.rank, alone.rank) == (1, 1)
    assert table(row("band-up", shared, alone)) == (
        "band-up                      detected 2/2 (all); first-ranked right 2/2; ties: band-down = band-up"
    )
    assert "first-ranked right 2/2 = 100.0 % (alone 1/2 = 50.0 %)" in "".join(
        Totals([row("band-up", shared, alone)]).lines
    )


def test_a_case_ranked_lower_or_unexplained_is_told() -> None:
    second = case("band-up", ("halo-stale",), ("band-up",), profile="ties")
    wrong = case("band-up", ("halo-stale",), profile="edges")
    nothing = case("band-up")
    assert (second.rank, wrong.rank, nothing.rank) == (2, 0, 0)
    assert table(row("band-up", second, wrong, nothing)).endswith(
        "first-ranked right 0/3; ties: halo-stale (rank 2); edges: halo-stale (rank none); small: unexplained"
    )


@pytest.mark.parametrize(
    ("totals", "good"),
    [
        (Totals([RIGHT, CLEAN]), True),
        (Totals([RIGHT, row("unwritten", reason="it cannot"), CLEAN]), True),
        (Totals([RIGHT, row("unwritten", case("unwritten", state=State.COMPILE_ERROR)), CLEAN]), True),
        (Totals([RIGHT, row("unwritten", case("unwritten", state=State.PASSED)), CLEAN]), False),
        (Totals([RIGHT, row("", case("", ("band-up",)))]), False),
        (Totals([*[RIGHT] * 19, row("unwritten", case("unwritten", ("x",), ("unwritten",)))]), True),
        (Totals([*[RIGHT] * 18, row("unwritten", case("unwritten", ("x",), ("unwritten",)))]), False),
        (Totals([*[RIGHT] * 99, row("unwritten", case("unwritten", ("x",)))]), False),
    ],
)
def test_the_goals(totals: Totals, good: bool) -> None:
    assert totals.good is good
