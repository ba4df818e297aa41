from __future__ import annotations

from collections.abc import Callable
from datetime import date

import pytest

from pipeline.matrix.explain import explain
from pipeline.matrix.schema import Matrix
from pipeline.matrix.select import FilterError

LoadText = Callable[..., Matrix]
TODAY = date(2026, 11, 30)


def lines(matrix: Matrix, job_id: str) -> list[str]:
    return explain(matrix, job_id, TODAY)


def test_every_line_that_made_a_job_is_named(load_text: LoadText, sound: str) -> None:
    assert lines(load_text(sound), "device/emu/tiny/two-pass/small@7") == [
        "matrix.yaml:25: lanes.device.include[0]: its block",
        "matrix.yaml:25: lanes.device.include[0].platforms[0]: emu",
        "matrix.yaml:26: lanes.device.include[0].geometries[0]: tiny",
        "matrix.yaml:27: lanes.device.include[0].kernels[1]: two-pass",
        "matrix.yaml:28: lanes.device.include[0].profiles[1]: small@7",
        "matrix.yaml:11: platforms.emu: where it runs",
        "matrix.yaml:2: geometries.tiny: its shapes",
        "matrix.yaml:23: lanes.device.timeout: its time limit, 300 s",
    ]


def test_the_profile_that_a_compile_job_is_verified_on_is_named(
    load_text: LoadText, sound: str, verifying: Callable[[str], str]
) -> None:
    job = "compile/emu/tiny/fused"
    assert "matrix.yaml:22: lanes.compile.include[0].verify: verified on small@7" in lines(
        load_text(verifying("small@7")), job
    )
    assert not [line for line in lines(load_text(sound), job) if "verif" in line]


def test_rules_of_overlays_are_named_in_their_files(load_text: LoadText, sound: str) -> None:
    rules = """\
timeouts:
  - {jobs: device/*, timeout: 10m}
expected_failures:
  - {jobs: device/*, reason: ended, link: 'https://x.example/1', until: 2026-11-29}
  - {jobs: device/*, reason: first, link: 'https://x.example/2'}
  - {jobs: '*', reason: second, link: 'https://x.example/3'}
exclude:
  - {jobs: '*@7', reason: slow}
"""
    matrix = load_text(sound, rules)
    assert lines(matrix, "device/emu/tiny/fused/small")[-4:] == [
        "extra1.yaml:2: timeouts[0]: its time limit, 600 s",
        "extra1.yaml:4: expected_failures[0]: no longer excuses it: ended on 2026-11-29",
        "extra1.yaml:5: expected_failures[1]: does not count: a later rule does",
        "extra1.yaml:6: expected_failures[2]: its failure is expected: second",
    ]
    assert "extra1.yaml:8: exclude[0]: takes it out of the plan: slow" in lines(
        matrix, "device/emu/tiny/fused/small@7"
    )


def test_a_compare_job_comes_from_the_device_lane(load_text: LoadText, sound: str) -> None:
    found = lines(load_text(sound), "compare/emu/tiny/small@7")
    assert found[0] == "matrix.yaml:25: lanes.device.include[0]: the first block with device jobs it compares"
    assert found[-1] == "matrix.yaml:15: lanes.compare.timeout: its time limit, 600 s (default)"


def test_a_job_that_no_line_makes_is_named_with_the_closest(load_text: LoadText, sound: str) -> None:
    with pytest.raises(FilterError, match="the closest known name is `device/emu/tiny/fused/small`"):
        explain(load_text(sound), "device/emu/tiny/fused/smll", TODAY)
