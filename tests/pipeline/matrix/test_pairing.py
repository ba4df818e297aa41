from __future__ import annotations

from collections.abc import Callable
from datetime import date

import pytest

from pipeline.ground.jobs import Job, Lane
from pipeline.matrix.expand import expand
from pipeline.matrix.pairing import pair_up, parse_engines
from pipeline.matrix.schema import Matrix
from pipeline.matrix.select import EmptySelectionError, FilterError, Filters, select

LoadText = Callable[..., Matrix]

MORE = """\
platforms:
  other: {backend: emulator, soc: a5}
  card: {backend: pypto, kind: card, soc: a2a3, devices: [0]}
  card2: {backend: pypto, kind: card, soc: a5, devices: [0]}
  sim: {backend: pypto, kind: simulator, soc: a5, variant: offset-unsigned}
lanes:
  device:
    include:
      - {platforms: [other, card], geometries: [tiny], kernels: [two-pass], profiles: [small, ties]}
      - {platforms: [card2, sim], geometries: [tiny], kernels: [fused], profiles: [edges]}
timeouts:
  - {jobs: device/other/*, timeout: 1m}
expected_failures:
  - {jobs: device/other/*/ties, reason: known, link: 'https://issues.example/1'}
"""


@pytest.fixture
def matrix(load_text: LoadText, sound: str) -> Matrix:
    return load_text(sound, MORE)


def paired(matrix: Matrix, engines: str) -> tuple[Job, ...]:
    one, two = parse_engines(engines, matrix.platforms)
    jobs = select(
        expand(matrix, date(2026, 3, 1)), [Lane.DEVICE], Filters(platforms=tuple(engines.split(",")))
    )
    return pair_up(jobs, one, two)


def test_what_both_run_is_compared_once(matrix: Matrix) -> None:
    (job,) = paired(matrix, "emu,other")
    assert job.id == "compare/emu+other/tiny/small"
    assert (job.lane, job.kernel, job.profile) == (Lane.COMPARE, "all", "small")
    assert job.timeout == 300 + 60
    assert [platform.name for platform in job.platforms] == ["emu", "other"]


@pytest.mark.parametrize("engines", ["other,sim", "sim,other"])
def test_the_emulator_follows_the_other_platforms_variant(
    load_text: LoadText, sound: str, engines: str
) -> None:
    of_both = MORE.replace("platforms: [card2, sim]", "platforms: [card2, sim, other]")
    (job,) = paired(load_text(sound, of_both), engines)
    assert {platform.variant for platform in job.platforms} == {"offset-unsigned"}


def test_the_job_holds_the_card_whichever_is_named_first(matrix: Matrix) -> None:
    for engines in ("other,card", "card,other"):
        small, ties = paired(matrix, engines)
        assert small.id == f"compare/{engines.replace(',', '+')}/tiny/small"
        assert small.platform.name == "card"
        assert ",".join(platform.name for platform in small.platforms) == engines
        assert small.expected_failure is None
        assert ties.expected_failure is not None


@pytest.mark.parametrize(
    ("engines", "said"),
    [
        ("emu", "write two platforms"),
        ("emu,emu", "write two platforms"),
        ("emu,other,card", "write two platforms"),
        ("emu,abacus", "no platform 'abacus'; known are emu, other"),
        ("card,sim", "(vreq8, offset-unsigned)"),
        ("card,card2", "both run on cards"),
    ],
)
def test_what_cannot_be_compared_is_refused(matrix: Matrix, engines: str, said: str) -> None:
    with pytest.raises(FilterError) as refused:
        parse_engines(engines, matrix.platforms)
    assert said in str(refused.value)
    assert str(refused.value).isprintable()


def test_nothing_in_common_is_an_empty_selection(matrix: Matrix) -> None:
    with pytest.raises(EmptySelectionError, match="both emu and card2"):
        paired(matrix, "emu,card2")
