"""Geometries of several workloads in one matrix, and workloads of a user's own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from golden.geometry import Conv, ConvGeometry, GemmGeometry
from pipeline.ground.jobs import Job, Lane, WorkloadName
from pipeline.ground.subject import subject_of
from pipeline.matrix.expand import expand
from pipeline.matrix.schema import Matrix
from workloads.base import WorkloadError

LoadText = Callable[..., Matrix]
Refusal = Callable[..., str]

SINGLE = (
    "{workload: conv, height: 16, width: 16, cin: 32, cout: 32, band_rows: 4, "
    "conv: {kernel: 3, stride: 1, padding: 1}}"
)
MIXED = f"""\
geometries:
  single: {SINGLE}
  product: {{workload: gemm, m: 32, k: 64, n: 32}}
lanes:
  compile:
    include:
      - {{platforms: [emu], geometries: [single], kernels: [conv]}}
  device:
    include:
      - {{platforms: [emu], geometries: [product], kernels: [gemm], profiles: [extremes]}}
"""
OWN = """\
workloads:
  mine: {file: mine.py}
geometries:
  own: {workload: mine, m: 32, k: 64, n: 32}
lanes:
  device:
    include:
      - {platforms: [emu], geometries: [own], kernels: [gemm], profiles: [small]}
"""
MINE = """\
from dataclasses import replace
from workloads.gemm import WORKLOAD as GEMM
WORKLOAD = replace(GEMM, definition=replace(GEMM.definition, name="mine"))
"""


@pytest.fixture
def mine(load_text: LoadText, tmp_path: Path) -> Callable[[str], Path]:
    """Writes the file of the workload `mine` beside the matrix."""

    def write(text: str) -> Path:
        path = tmp_path / "mine.py"
        path.write_text(text)
        return path

    return write


def by_id(matrix: Matrix) -> dict[str, Job]:
    return {job.id: job for job in expand(matrix, date(2026, 11, 30))}


def test_each_geometry_is_one_of_its_workload(load_text: LoadText, sound: str) -> None:
    jobs = by_id(load_text(sound, MIXED))
    single, product = jobs["compile/emu/single/conv"], jobs["device/emu/product/gemm/extremes"]
    assert (single.workload, single.plan_options) == (WorkloadName("conv"), {"band_rows": 4})
    assert subject_of(single).geometry == ConvGeometry(16, 16, 32, 32, Conv(3, 1, 1))
    assert subject_of(single).plan.band_rows == 4
    assert (product.workload, product.plan_options) == (WorkloadName("gemm"), {})
    assert subject_of(product).geometry == GemmGeometry(32, 64, 32)
    assert jobs["compare/emu/product/extremes"].workload == WorkloadName("gemm")
    assert jobs["device/emu/tiny/fused/small"].workload == WorkloadName("conv-pair")


def test_the_workload_that_is_meant_without_a_tag_may_be_written(load_text: LoadText, sound: str) -> None:
    assert by_id(load_text(sound.replace("  tiny:\n", "  tiny:\n    workload: conv-pair\n"))) == by_id(
        load_text(sound)
    )


@pytest.mark.parametrize(
    ("piece", "instead", "said"),
    [
        (
            "workload: gemm",
            "workload: gem",
            "extra1.yaml:3: geometries.product.workload: `gem` is no known workload; "
            "the closest known name is `gemm`",
        ),
        (
            "workload: gemm",
            "workload: [gemm]",
            "extra1.yaml:3: geometries.product.workload: is not a name; "
            "write one of `conv-pair`, `conv`, `gemm`",
        ),
        *(
            (
                "workload: gemm",
                f"workload: {value}",
                f"extra1.yaml:3: geometries.product.workload: `{value}` is not text, "
                "and a workload is named by text; write one of `conv-pair`, `conv`, `gemm`",
            )
            for value in ("true", "7")
        ),
        (
            "band_rows: 4",
            "band_rows: 100000",
            "extra1.yaml:2: geometries.single.band_rows: `100000` cannot be tiled on a2a3: "
            "band_rows is 100000: the output has 16 rows; ",
        ),
        (
            "m: 32,",
            "m: 32, height: 24,",
            "extra1.yaml:3: geometries.product.height: is not a key of this mapping; "
            "write one of `m`, `k`, `n`, `workload`",
        ),
        (
            "m: 32,",
            "m: 32, band_rows: 4,",
            "extra1.yaml:3: geometries.product.band_rows: is not a key of this mapping; "
            "write one of `m`, `k`, `n`, `workload`",
        ),
        ("m: 32, ", "", "extra1.yaml:3: geometries.product: has no `m`; write "),
        (
            "cout: 32",
            "cout: 32, cmid: 32",
            "extra1.yaml:2: geometries.single.cmid: is not a key of this mapping; write one of `height`, ",
        ),
        (
            "band_rows: 4",
            "band_rows: 0",
            "extra1.yaml:2: geometries.single.band_rows: `0`: expected `int` >= 1; write output rows",
        ),
        (
            "width: 16, cin: 32, cout: 32, band_rows: 4",
            "width: 6000, cin: 32, cout: 32, band_rows: 16",
            "extra1.yaml:2: geometries.single.band_rows: `16` cannot be tiled on a2a3: ",
        ),
        (
            "band_rows: 4",
            "band_rows: 4, k_step: 48",
            "extra1.yaml:2: geometries.single.k_step: `48` cannot be tiled on a2a3: "
            "k_step is 48: must be a multiple of 32 that divides K, 288; ",
        ),
        (
            "band_rows: 4",
            "band_rows: 4, tile_positions: 16384",
            "extra1.yaml:2: geometries.single.band_rows: `4` with tile_positions 16384 cannot be tiled on "
            "a2a3: bands of 4 rows need 2097152 B of L0C, which has 131072: ",
        ),
        ("k: 64", "k: 65", "extra1.yaml:3: geometries.product.k: k is 65: must be "),
        (
            "kernel: 3, stride: 1",
            "kernel: 3, stride: 0",
            "extra1.yaml:2: geometries.single.conv.stride: conv.stride is 0: must be 1..255; write another",
        ),
        (
            "kernel: 3, stride: 1",
            "kernel: 30, stride: 1",
            "extra1.yaml:2: geometries.single.conv: input height is 16: must be at least the kernel (30)",
        ),
        (
            "kernels: [conv]",
            "kernels: [conv, fused]",
            "extra1.yaml:7: lanes.compile.include[1].kernels[1]: `fused` is a kernel of workload conv-pair, "
            "and geometry single is one of conv; write it in a block whose geometries are of conv-pair",
        ),
        (
            "geometries: [product]",
            "geometries: [product, tiny]",
            "extra1.yaml:10: lanes.device.include[1].kernels[0]: `gemm` is a kernel of workload gemm, and "
            "geometry tiny is one of conv-pair; write it in a block whose geometries are of gemm",
        ),
        (
            "kernels: [gemm]",
            "kernels: [gemmm]",
            "extra1.yaml:10: lanes.device.include[1].kernels[0]: `gemmm` is no known kernel; "
            "the closest known name is `gemm`",
        ),
        (
            "profiles: [extremes]",
            "profiles: [extremes, ties]",
            "extra1.yaml:10: lanes.device.include[1].profiles[1]: unknown profile 'ties': "
            "known are small, full-range, extremes, impulse, for geometry product of workload gemm",
        ),
        (
            "kernels: [conv]",
            "kernels: [conv], verify: extremes",
            "extra1.yaml:7: lanes.compile.include[1].verify: unknown profile 'extremes': known are ",
        ),
    ],
)
def test_what_another_workload_has_is_refused(
    piece: str, instead: str, said: str, sound: str, refusal: Refusal
) -> None:
    assert piece in MIXED
    assert refusal(sound, MIXED.replace(piece, instead, 1)).startswith(said)


def test_a_users_workload_is_found_beside_the_file_that_names_it(
    load_text: LoadText, sound: str, tmp_path: Path, mine: Callable[[str], Path]
) -> None:
    file = mine(MINE)
    job = by_id(load_text(sound, OWN))["device/emu/own/gemm/small"]
    assert job.workload == WorkloadName("mine", str(file))
    assert subject_of(job).geometry == GemmGeometry(32, 64, 32)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "his.py").write_text(MINE)
    other = OWN.replace("mine.py", str(tmp_path / "elsewhere" / "his.py"))
    job = by_id(load_text(sound, other))["device/emu/own/gemm/small"]
    assert job.workload.file == str(tmp_path / "elsewhere" / "his.py")


def test_a_path_is_relative_to_the_overlay_not_to_the_working_folder(
    load_text: LoadText, sound: str, tmp_path: Path
) -> None:
    from pipeline.matrix.load import load

    load_text(sound)
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "mine.py").write_text(MINE)
    (folder / "own.yaml").write_text(OWN)
    matrix = load([Path("matrix.yaml"), Path("elsewhere") / "own.yaml"])
    assert matrix.geometries["own"].workload.file == str(folder / "mine.py")
    assert matrix.geometries["own"].declaration is not None


@pytest.mark.parametrize(
    ("piece", "instead", "said"),
    [
        ("workload: mine", "workload: min", "`min` is no known workload; the closest known name is `mine`"),
        (
            "  mine: {file: mine.py}",
            "  mine: {file: mine.py}\n  conv: {file: mine.py}",
            "extra1.yaml:3: workloads.conv: is the name of a workload that is shipped; give yours another",
        ),
        (
            "  mine: {file: mine.py}",
            "  mine: {file: mine.py}\n  idle: {file: mine.py}",
            "extra1.yaml:3: workloads.idle: no lane uses it; name it in a lane or remove it",
        ),
        ("{file: mine.py}", "{}", "extra1.yaml:2: workloads.mine: has no `file`; write the Python file"),
        ("{file: mine.py}", "mine.py", "extra1.yaml:2: workloads.mine: "),
        ("{file: mine.py}", "{file: ''}", "extra1.yaml:2: workloads.mine.file: "),
        ("{file: mine.py}", "{file: [mine.py]}", "extra1.yaml:2: workloads.mine.file: "),
        (
            "{file: mine.py}",
            "{path: mine.py}",
            "extra1.yaml:2: workloads.mine.path: is not a key of this mapping",
        ),
        ("m: 32", "height: 32", "extra1.yaml:4: geometries.own.height: is not a key of this mapping; "),
        ("m: 32", "m: 33", "extra1.yaml:4: geometries.own.m: m is 33: must be "),
        ("[gemm]", "[gem]", "kernels[0]: `gem` is no known kernel; the closest known name is `gemm`"),
        ("[gemm]", "['a/b']", "kernels[0]: `a/b`: expected `str` matching regex"),
        ("[small]", "[smal]", "profiles[0]: unknown profile 'smal': did you mean 'small'? "),
    ],
)
def test_mistakes_about_a_users_workload_are_refused(
    piece: str, instead: str, said: str, sound: str, refusal: Refusal, mine: Callable[[str], Path]
) -> None:
    mine(MINE)
    assert piece in OWN
    message = refusal(sound, OWN.replace(piece, instead, 1))
    assert message.startswith("extra1.yaml:")
    assert said in message


BROKEN = [
    None,
    "WORKLOAD = (\n",
    "import nonsuch\n",
    "raise ZeroDivisionError\n",
    "WORKLOAD = 7\n",
    MINE.replace('"mine"', '"other"'),
    MINE.replace('name="mine"', 'name="mine", geometry=int'),
]


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_workload_is_left_to_its_jobs(
    text: str | None, load_text: LoadText, sound: str, mine: Callable[[str], Path]
) -> None:
    """Nothing of its geometry can be checked; the plan is what it would be."""
    if text is not None:
        mine(text)
    written = OWN.replace("m: 32", "anything: {goes: [1, x]}").replace("[gemm]", "[some-kernel]")
    matrix = load_text(sound, written)
    assert matrix.geometries["own"].declaration is None
    jobs = by_id(matrix)
    assert set(jobs) - set(by_id(load_text(sound))) == {
        "device/emu/own/some-kernel/small",
        "compare/emu/own/small",
    }
    job = jobs["device/emu/own/some-kernel/small"]
    assert (job.lane, job.workload.name) == (Lane.DEVICE, "mine")
    assert job.geometry == {"anything": {"goes": [1, "x"]}, "k": 64, "n": 32}
    file = mine(MINE)  # it is mended while the run waits
    with pytest.raises(WorkloadError) as caught:
        subject_of(job)
    assert str(caught.value) == f"{file}: declares no kernel 'some-kernel': declared are gemm"
    with pytest.raises(WorkloadError, match="a geometry of workload mine: "):
        subject_of(jobs["compare/emu/own/small"])


@pytest.mark.parametrize(
    ("profile", "said"),
    [
        ("small@seven", "profile 'small@seven': the seed must be a plain number"),
        ("a/b", "`a/b`: expected `str` matching regex"),
    ],
)
def test_of_a_broken_workload_the_form_of_a_profile_is_checked(
    profile: str, said: str, sound: str, refusal: Refusal
) -> None:
    assert said in refusal(sound, OWN.replace("[small]", f"['{profile}']"))


@pytest.mark.parametrize("error", ["ValueError", "ZeroDivisionError", "SystemExit", "BaseException"])
def test_a_geometry_type_that_fails_is_left_to_the_jobs(
    error: str, load_text: LoadText, sound: str, mine: Callable[[str], Path]
) -> None:
    file = mine(
        f"""\
from dataclasses import dataclass, replace
from workloads.gemm import WORKLOAD as GEMM
@dataclass(frozen=True)
class Shapes:
    m: int
    k: int
    n: int
    def __post_init__(self) -> None:
        if self.m == 64:
            raise {error}("not this m")
WORKLOAD = replace(
    GEMM,
    definition=replace(GEMM.definition, name="mine", geometry=Shapes),
    plan_options={{"option": "a number"}},
)
"""
    )
    jobs = by_id(load_text(sound, OWN.replace("m: 32", "m: 64, option: 3")))
    assert "device/emu/tiny/fused/small" in jobs
    for own in ("device/emu/own/gemm/small", "compare/emu/own/small"):
        with pytest.raises(WorkloadError) as caught:
            subject_of(jobs[own])
        assert str(caught.value) == f"{file}:10: a geometry of workload mine: {error}: not this m"


def test_a_plan_that_fails_is_left_to_the_jobs_of_its_geometry(
    sound: str, load_text: Callable[..., Matrix], mine: Callable[[str], Path]
) -> None:
    file = mine(
        """\
from dataclasses import replace
from workloads.gemm import WORKLOAD as GEMM
def plan(geometry, limits, options):
    return options["nothing"]
WORKLOAD = replace(
    GEMM, definition=replace(GEMM.definition, name="mine"), plan=plan, plan_options={"rows": "rows of a tile"}
)
"""
    )
    jobs = by_id(load_text(sound, OWN.replace("m: 32", "m: 32, rows: 4")))
    assert "device/emu/tiny/fused/small" in jobs
    with pytest.raises(WorkloadError) as caught:
        subject_of(jobs["device/emu/own/gemm/small"]).plan  # noqa: B018 (raises)
    assert str(caught.value) == f"{file}:4: plan of workload mine: KeyError: 'nothing'"


GROUPED = MIXED.replace("cin: 32, cout: 32", "cin: 24, cout: 36, groups: 12").replace(
    "padding: 1}", "padding: 2, dilation: 2}"
)


def test_groups_and_dilation_may_be_written(load_text: LoadText, sound: str) -> None:
    """Where they are left out there is one group and no dilation."""
    plain, packed = (
        next(
            subject_of(job).geometry
            for job in expand(load_text(sound, text), date(2026, 12, 1))
            if job.workload.name == "conv"
        )
        for text in (MIXED, GROUPED)
    )
    assert plain == ConvGeometry(16, 16, 32, 32, Conv(3, 1, 1))
    assert packed == ConvGeometry(16, 16, 24, 36, Conv(3, 1, 2, 2), 12)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("groups: 12", "groups: 5", "geometries.single.groups: groups is 5: must be a divisor of cin (24)"),
        ("groups: 12", "groups: two", "geometries.single.groups: `two`: "),
        ("dilation: 2", "dilation: 0", "geometries.single.conv.dilation: conv.dilation is 0: must be 1..255"),
        ("dilation: 2", "dilation: [1]", "geometries.single.conv.dilation"),
        ("cin: 24", "cin: 0", "geometries.single.cin: cin is 0: must be 1..65504 (whole blocks"),
    ],
)
def test_groups_and_dilation_that_make_no_sense_are_refused(
    old: str, new: str, said: str, refusal: Refusal, sound: str
) -> None:
    assert old in GROUPED
    assert said in refusal(sound, GROUPED.replace(old, new))


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (
            "block_columns: 48",
            "a multiple of 32 that divides the output channels, 64 (packed: cin 24 -> 32, cout",
        ),
        (
            "k_step: 96",
            "a multiple of 32 that divides K, 800 (packed: cin 24 -> 32, cout 36 -> 64; 12 groups as",
        ),
    ],
)
def test_what_is_written_for_a_packed_geometry_is_refused_with_its_own_numbers(
    option: str, said: str, refusal: Refusal, sound: str
) -> None:
    assert said in refusal(sound, GROUPED.replace("groups: 12", f"groups: 12, {option}"))
