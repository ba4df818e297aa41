from __future__ import annotations

from collections.abc import Callable
from datetime import date

from pipeline.ground.jobs import ExpectedFailure, Lane, WorkloadName
from pipeline.matrix.expand import expand
from pipeline.matrix.schema import Matrix

LoadText = Callable[..., Matrix]
TODAY = date(2026, 11, 30)

EXPECTED = """\
expected_failures:
  - {jobs: device/*, reason: always, link: 'https://x.example/1'}
  - {jobs: device/*/fused/*, reason: until the last day, link: 'https://x.example/2', until: 2026-11-30}
"""


def ids(matrix: Matrix) -> list[str]:
    return [job.id for job in expand(matrix, TODAY)]


def test_jobs_have_stable_ids_in_the_order_of_the_file(load_text: LoadText, sound: str) -> None:
    assert ids(load_text(sound)) == [
        "compile/emu/tiny/fused",
        "device/emu/tiny/fused/small",
        "device/emu/tiny/fused/small@7",
        "device/emu/tiny/two-pass/small",
        "device/emu/tiny/two-pass/small@7",
        "compare/emu/tiny/small",
        "compare/emu/tiny/small@7",
    ]


def test_a_job_carries_the_facts_of_its_names(load_text: LoadText, sound: str) -> None:
    matrix = load_text(sound)
    compiled, run, *_, compared = expand(matrix, TODAY)
    assert (compiled.lane, compiled.profile, compiled.timeout) == (Lane.COMPILE, None, 90)
    assert (run.lane, run.kernel, run.profile, run.timeout) == (Lane.DEVICE, "fused", "small", 300)
    assert (compared.lane, compared.kernel, compared.profile, compared.timeout) == (
        Lane.COMPARE,
        "all",
        "small@7",
        600,
    )
    for job in (compiled, run, compared):
        assert job.platform is matrix.platforms["emu"]
        assert job.workload == WorkloadName("conv-pair")
        assert job.geometry is matrix.geometries["tiny"].shapes
        assert (job.geometry_name, job.plan_options) == ("tiny", {})
    banded = load_text(sound.replace("height: 24", "height: 24\n    band_rows: 4"))
    job = expand(banded, TODAY)[0]
    assert job.plan_options == {"band_rows": 4}
    assert "band_rows" not in job.geometry


def test_a_compile_job_may_have_a_profile_to_verify_on_and_keeps_its_id(
    load_text: LoadText, sound: str, verifying: Callable[[str], str]
) -> None:
    matrix = load_text(verifying("small@nightly"))
    verified, *others = expand(matrix, TODAY)
    assert (verified.id, verified.profile) == ("compile/emu/tiny/fused", "small@nightly")
    assert ids(matrix) == ids(load_text(sound))
    assert [job.profile for job in others] == [job.profile for job in expand(load_text(sound), TODAY)[1:]]


def test_exclusions_apply_after_the_blocks_and_once_more_to_the_compare_lane(
    load_text: LoadText, sound: str
) -> None:
    device_only = load_text(sound, "exclude:\n  - {jobs: device/*@7, reason: r}\n")
    assert not [job_id for job_id in ids(device_only) if job_id.endswith("@7")]
    compare_only = load_text(sound, "exclude:\n  - {jobs: compare/*@7, reason: r}\n")
    assert "compare/emu/tiny/small@7" not in ids(compare_only)
    assert "device/emu/tiny/fused/small@7" in ids(compare_only)
    one_kernel = load_text(sound, "exclude:\n  - {jobs: '*/two-pass/*@7', reason: r}\n")
    assert "compare/emu/tiny/small@7" in ids(one_kernel)


def test_the_last_time_limit_that_matches_counts(load_text: LoadText, sound: str) -> None:
    rules = "timeouts:\n  - {jobs: '*fused*', timeout: 10m}\n  - {jobs: '*/fused/*@7', timeout: 1h}\n"
    limits = {job.id: job.timeout for job in expand(load_text(sound, rules), TODAY)}
    assert limits["compile/emu/tiny/fused"] == 600
    assert limits["device/emu/tiny/fused/small"] == 600
    assert limits["device/emu/tiny/fused/small@7"] == 3600
    assert limits["device/emu/tiny/two-pass/small"] == 300


def test_an_expected_failure_holds_through_its_last_day(load_text: LoadText, sound: str) -> None:
    matrix = load_text(sound, EXPECTED)

    def of(job_id: str, today: date) -> ExpectedFailure | None:
        return next(job.expected_failure for job in expand(matrix, today) if job.id == job_id)

    always = ExpectedFailure("always", "https://x.example/1")
    ending = ExpectedFailure("until the last day", "https://x.example/2", TODAY)
    assert of("device/emu/tiny/fused/small", TODAY) == ending
    assert of("device/emu/tiny/fused/small", date(2026, 12, 1)) == always
    assert of("device/emu/tiny/two-pass/small", TODAY) == always
    assert of("compile/emu/tiny/fused", TODAY) is None
