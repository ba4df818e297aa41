from __future__ import annotations

from collections.abc import Callable
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.ground.jobs import Job, Lane, Platform, WorkloadName
from pipeline.matrix.expand import expand
from pipeline.matrix.schema import Matrix
from pipeline.matrix.select import (
    EmptySelectionError,
    FilterError,
    Filters,
    division,
    parse_shard,
    select,
    take_shard,
)

ALL = tuple(Lane)


@pytest.fixture
def plan(load_text: Callable[..., Matrix], sound: str) -> tuple[Job, ...]:
    return expand(load_text(sound), date(2026, 11, 30))


def ids(jobs: tuple[Job, ...]) -> list[str]:
    return [job.id for job in jobs]


def test_no_filter_keeps_the_lanes_asked_for(plan: tuple[Job, ...]) -> None:
    assert select(plan, ALL, Filters()) == plan
    assert ids(select(plan, [Lane.COMPILE], Filters())) == ["compile/emu/tiny/fused"]


def test_filters_narrow_each_other(plan: tuple[Job, ...]) -> None:
    assert ids(
        select(plan, ALL, Filters(kernels=("fused",), profiles=("small@7", "small"), ids=("*small",)))
    ) == ["device/emu/tiny/fused/small"]
    assert ids(
        select(plan, ALL, Filters(geometries=("tiny",), platforms=("emu",), ids=("compare/*@7", "compile/*")))
    ) == [
        "compile/emu/tiny/fused",
        "compare/emu/tiny/small@7",
    ]


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        (
            Filters(geometries=("tinny",)),
            "geometry `tinny` is not in the plan; the closest known name is `tiny`; "
            "--matrix FILE adds others",
        ),
        (
            Filters(platforms=("emu", "enu")),
            "platform `enu` is not in the plan; the closest known name is `emu`; --matrix FILE adds others",
        ),
        (Filters(kernels=("fusd",)), "kernel `fusd` is not in the plan; the closest known name is `fused`"),
        (Filters(profiles=("smal",)), "profile `smal` is not in the plan; the closest known name is `small`"),
        (
            Filters(ids=("device/emu/tiny/fused/smal",)),
            "job `device/emu/tiny/fused/smal` is not in the plan; the closest known name is "
            "`device/emu/tiny/fused/small`",
        ),
    ],
)
def test_an_unknown_name_is_an_error_with_the_closest(
    plan: tuple[Job, ...], filters: Filters, said: str
) -> None:
    with pytest.raises(FilterError) as caught:
        select(plan, ALL, filters)
    assert str(caught.value) == said


MIXED = """\
geometries:
  single: {workload: conv, height: 16, width: 16, cin: 32, cout: 32, conv: {kernel: 3, stride: 1, padding: 1}}
  product: {workload: gemm, m: 32, k: 64, n: 32}
platforms:
  second: {backend: emulator, soc: a5}
lanes:
  compile:
    include:
      - {platforms: [emu], geometries: [single], kernels: [conv]}
      - {platforms: [second], geometries: [product], kernels: [gemm]}
"""


@pytest.fixture
def mixed(load_text: Callable[..., Matrix], sound: str) -> tuple[Job, ...]:
    return expand(load_text(sound, MIXED), date(2026, 11, 30))


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        (
            Filters(geometries=("tiny",), kernels=("conv",)),
            "`conv` is a kernel of workload conv, and geometry tiny is one of conv-pair; choose a kernel of "
            "conv-pair (fused, two-pass) or a geometry of conv (single)",
        ),
        (
            Filters(geometries=("product",), kernels=("two-pass", "conv")),
            "`conv` is a kernel of workload conv, and geometry product is one of gemm; choose a kernel of "
            "gemm (gemm) or a geometry of conv (single)",
        ),
    ],
)
def test_a_kernel_on_a_geometry_of_another_workload_is_refused(
    filters: Filters, said: str, mixed: tuple[Job, ...]
) -> None:
    with pytest.raises(FilterError) as caught:
        select(mixed, [Lane.COMPILE, Lane.DEVICE], filters)
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        (
            Filters(geometries=("product",), profiles=("ties",)),
            "gemm has no profile `ties`; it has extremes",
        ),
        (
            Filters(geometries=("single", "product"), profiles=("ties", "small")),
            "conv has no profile `ties`, `small`; it has none; "
            "gemm has no profile `ties`, `small`; it has extremes",
        ),
    ],
)
def test_a_profile_of_another_workload_than_the_geometries_is_refused(
    filters: Filters, said: str, load_text: Callable[..., Matrix], sound: str
) -> None:
    device = """\
  device:
    include:
      - {platforms: [emu], geometries: [tiny], kernels: [fused], profiles: [ties]}
      - {platforms: [emu], geometries: [product], kernels: [gemm], profiles: [extremes]}
"""
    jobs = expand(load_text(sound, MIXED + device), date(2026, 11, 30))
    with pytest.raises(FilterError) as caught:
        select(jobs, ALL, filters)
    assert str(caught.value) == said


def test_profiles_of_several_workloads_may_be_chosen_together(mixed: tuple[Job, ...]) -> None:
    chosen = Filters(geometries=("tiny", "single"), profiles=("small",))
    assert {job.geometry_name for job in select(mixed, ALL, chosen)} == {"tiny"}


def test_kernels_of_several_workloads_may_be_chosen_together(mixed: tuple[Job, ...]) -> None:
    chosen = Filters(geometries=("tiny", "single"), kernels=("conv", "fused"))
    assert ids(select(mixed, [Lane.COMPILE], chosen)) == ["compile/emu/tiny/fused", "compile/emu/single/conv"]
    one_of_two = Filters(geometries=("tiny",), kernels=("conv", "fused"))
    assert ids(select(mixed, [Lane.COMPILE], one_of_two)) == ["compile/emu/tiny/fused"]
    elsewhere = Filters(platforms=("second",), kernels=("conv",))
    with pytest.raises(EmptySelectionError, match="no job is left with kernel `conv`"):
        select(mixed, [Lane.COMPILE], elsewhere)


@pytest.mark.parametrize(
    ("lanes", "filters", "said"),
    [
        ([Lane.COMPILE], Filters(profiles=("small",)), "no job is left with profile `small`"),
        (ALL, Filters(ids=("device/*", "*a5*")), "no job is left with job `*a5*`"),
        ([Lane.COMPILE], Filters(ids=("device/emu/tiny/fused/small",)), "no job is left with job"),
        (ALL, Filters(kernels=("all",), ids=("*fused*",)), "no job is left with job `*fused*`"),
    ],
)
def test_an_empty_selection_is_an_error_of_its_own(
    plan: tuple[Job, ...], lanes: list[Lane], filters: Filters, said: str
) -> None:
    with pytest.raises(EmptySelectionError) as caught:
        select(plan, lanes, filters)
    assert said in str(caught.value)


def test_a_lane_without_jobs_is_an_empty_selection(plan: tuple[Job, ...]) -> None:
    with pytest.raises(EmptySelectionError, match="no job is left with lane `compile`"):
        select(plan[1:], [Lane.COMPILE], Filters())


def test_a_shard_is_read() -> None:
    assert parse_shard("2/4") == (2, 4)


@pytest.mark.parametrize(
    "written", ["", "2", "0/4", "5/4", "1/0", "-1/2", "1/257", "a/b", "1/2/3", "1 /2", "١/٢"]
)
def test_other_shards_are_refused(written: str) -> None:
    with pytest.raises(FilterError, match="index/count"):
        parse_shard(written)


def job(number: int) -> Job:
    return Job(
        f"device/p/g/k/{number}",
        Lane.DEVICE,
        Platform("p", "emulator", "a2a3"),
        WorkloadName("conv-pair"),
        "g",
        {},
        "k",
        "small",
        1.0,
    )


@given(st.data(), st.integers(1, 12), st.integers(1, 60))
def test_shards_share_out_the_plan_in_balance(data: st.DataObject, count: int, jobs: int) -> None:
    count = min(count, jobs)
    plan = [job(number) for number in range(jobs)]
    seconds = {one.id: data.draw(st.floats(0, 100)) for one in plan if data.draw(st.integers(0, 3))}
    shards = [take_shard(plan, (index, count), seconds) for index in range(1, count + 1)]
    assert sorted(one.id for shard in shards for one in shard) == sorted(one.id for one in plan)
    for shard in shards:
        assert shard
        assert list(shard) == [one for one in plan if one in shard]
    if len(seconds) == jobs:
        loads = [sum(seconds[one.id] for one in shard) for shard in shards]
        assert max(loads) - min(loads) <= max(seconds.values()) + 1e-3 * jobs


def test_the_longest_jobs_part_company() -> None:
    plan = [job(number) for number in range(4)]
    seconds = {plan[0].id: 100.0, plan[1].id: 5.0, plan[2].id: 90.0, plan[3].id: 4.0}
    assert ids(take_shard(plan, (1, 2), seconds)) == [plan[0].id]
    assert ids(take_shard(plan, (2, 2), seconds)) == [plan[1].id, plan[2].id, plan[3].id]


def test_a_job_without_record_counts_as_the_median() -> None:
    plan = [job(number) for number in range(4)]
    seconds = {plan[0].id: 100.0, plan[1].id: 90.0, plan[2].id: 5.0}
    assert ids(take_shard(plan, (1, 2), seconds)) == [plan[0].id, plan[2].id]
    assert ids(take_shard(plan, (2, 2), seconds)) == [plan[1].id, plan[3].id]


def test_a_division_tells_other_jobs_and_other_records_apart() -> None:
    jobs = [job(1), job(2)]
    divided = division(jobs, {job(1).id: 3.0})
    assert divided == division(jobs[::-1], {job(1).id: 3.0, "gone": 9.0})
    assert divided != division(jobs, {job(1).id: 3.1})
    assert divided != division(jobs[:1], {job(1).id: 3.0})


def test_more_shards_than_jobs_are_refused() -> None:
    with pytest.raises(FilterError, match="3 shards are more than the 2 jobs"):
        take_shard([job(0), job(1)], (1, 3), {})
