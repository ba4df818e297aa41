from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.engines import npu_smi
from pipeline.engines.npu_smi import Card, NpuSmiError, Survey, parse, survey_host

SAMPLES = Path(__file__).parents[2] / "data" / "npu-smi"


def sample(name: str) -> str:
    return (SAMPLES / f"{name}.txt").read_text()


def test_a_card_of_one_chip_has_its_npus_number() -> None:
    survey = parse(sample("910b"))
    assert survey.version == "24.1.rc2"
    assert [card.number for card in survey.cards] == [0, 1, 4, 6]
    assert survey.cards[1] == Card(1, "910B3", "OK")


def test_a_card_is_known_by_its_number() -> None:
    survey = parse(sample("910b"))
    assert (survey.model(4), survey.model(5)) == ("910B3", "unknown")


def test_a_chip_of_a_card_of_two_has_its_physical_id() -> None:
    assert [card.number for card in parse(sample("910c")).cards] == [0, 1, 2, 3]


def test_an_older_card_has_its_device_number() -> None:
    assert parse(sample("310p")).cards == (Card(0, "310P3", "OK"),)


def test_a_950_has_its_number_in_a_cell_of_its_own() -> None:
    survey = parse(sample("950"))
    assert survey.version == "25.7.rc1"
    assert survey.cards == (
        Card(0, "Ascend950PR", "OK"),
        Card(1, "Ascend950PR", "Alarm"),
    )


@pytest.mark.parametrize(
    ("name", "soc", "numbers"),
    [
        ("910b", "a2a3", [0, 1, 6]),
        ("910c", "a2a3", [0, 1, 2, 3]),
        ("950", "a5", [0]),
        ("950", "a2a3", []),
        ("310p", "a2a3", []),
        ("none", "a2a3", []),
    ],
)
def test_a_soc_has_the_working_cards_made_for_it(name: str, soc: str, numbers: list[int]) -> None:
    assert [card.number for card in parse(sample(name)).of(soc)] == numbers


@pytest.mark.parametrize("name", ["910b", "910c", "950"])
def test_processes_on_the_cards_are_not_taken_for_cards(name: str) -> None:
    before, _, _ = sample(name).partition("Process id")
    assert parse(before) == parse(sample(name))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no table of cards"),
        ("dcmi module initialize failed. ret is -8005\n", "no table of cards"),
        (sample("910c").replace("| 0     0     ", "| 0     NA    "), "no physical id in '0     Ascend910"),
        (sample("950").replace("| 0      | Ascend", "| -      | Ascend"), "no physical id in '-"),
    ],
)
def test_what_is_no_table_of_cards_is_said(text: str, problem: str) -> None:
    with pytest.raises(NpuSmiError, match=problem):
        parse(text)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Survey]:
    """`host(script)`: a survey of a host whose `npu-smi` is this shell script."""

    def survey(script: str) -> Survey:
        executable = tmp_path / "npu-smi"
        executable.write_text(f"#!/bin/sh\n{script}\n")
        executable.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
        npu_smi._survey.cache_clear()
        return survey_host()

    return survey


def test_a_host_is_asked(host: Callable[[str], Survey]) -> None:
    assert host(f'[ "$1" = info ] && cat {SAMPLES / "910b.txt"}') == parse(sample("910b"))


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("echo 'dcmi module initialize failed. ret is -8005' >&2; exit 1", "exit code 1: dcmi module"),
        ("exit 7", "exit code 7: it printed nothing"),
        ("echo hello", "npu-smi info: no table of cards in its output"),
    ],
)
def test_a_driver_that_fails_is_said(host: Callable[[str], Survey], script: str, problem: str) -> None:
    survey = host(script)
    assert problem in survey.problem
    assert survey.cards == ()


def test_a_host_without_a_driver_has_no_cards(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert survey_host() == Survey(problem="npu-smi is not on PATH")
