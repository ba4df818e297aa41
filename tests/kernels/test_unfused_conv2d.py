from __future__ import annotations

import linecache
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

import emulator.language
from emulator.engine import Report
from emulator.errors import SourceError
from emulator.soc import Space
from golden.geometry import MC62, Conv, Geometry
from kernels import unfused_conv2d
from kernels.plan import Limits, Plan
from kernels.planner import make_plan
from workloads.conv_pair import WORKLOAD
from workloads.tiling import CONTRACT

Compiled = Callable[[str, Plan], Report]


def test_gm_bytes_of_mc62(limits: Limits, compiled: Compiled) -> None:
    plan = WORKLOAD.plan(MC62, limits, CONTRACT)
    first, second = compiled("pass1", plan).counts, compiled("pass2", plan).counts
    assert first.read["x"] == 2_121_728
    assert first.written == {"mid": 516_096}
    assert second.read["mid"] == 573_440
    assert second.written == {"y": 516_096}
    assert first.macs + second.macs == 594_542_592


def test_pass1_loads_each_plane_of_a_band_as_one_rectangle(limits: Limits, compiled: Compiled) -> None:
    report = compiled("pass1", WORKLOAD.plan(MC62, limits, CONTRACT))
    assert report.counts.operations["load"] == 3 + 8 * 2  # filter, bias, scale; bands of two planes
    maps = [tile for tile in report.memory["pass1"].residents if tile.type.size == 37 * 112 * 32]
    assert {tile.type.space for tile in maps} == {Space.Mat}
    steps = report.counts.moved[("L1", "L0A")] // (112 * 32)
    assert report.counts.operations["tile.img2col"] == steps == 72 * 18  # K step 32


def test_more_planes_than_pass1_keeps_as_tiles_are_gathered(
    limits: Limits, compiled: Callable[[str, Plan], Report]
) -> None:
    for planes in (4, 5):
        wide = make_plan(Geometry(16, 16, planes * 32, 32, 32, Conv(1, 1, 0), Conv(1, 1, 0)), limits)
        operations = compiled("pass1", wide).counts.operations
        assert (operations["tile.gather_row"] == planes) == (planes > 4)


def test_an_accumulator_passed_under_its_first_name_is_refused(tmp_path: Path, limits: Limits) -> None:
    """It went on as acc1 through a helper: what acc0 seems to hold, the first plane alone, is gone."""
    source = Path(unfused_conv2d.__file__).read_text(encoding="utf-8")
    right, wrong = "acc2 = add2(acc1, ", "acc2 = add2(acc0, "
    assert right in source
    copy = tmp_path / "passes.py"
    copy.write_text(source.replace(right, wrong), encoding="utf-8")
    spec = spec_from_file_location("passes", copy)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.raises(SourceError) as caught:
        module.build_pass1(emulator.language, WORKLOAD.plan(MC62, limits, CONTRACT))
    assert wrong in linecache.getline(str(copy), caught.value.position.line)
    assert "acc0 is an old name of the tile that passes.py:" in caught.value.problem
    assert "use acc1 here" in caught.value.problem
