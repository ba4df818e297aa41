from __future__ import annotations

import dataclasses
import shlex
from datetime import date
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.ground.settings import DECLARED, Declared, Settings, SettingsError, TakenUp, take_up

VALUES = {
    "matrix": ("to night.yaml", "other.yaml"),
    "date": date(2026, 3, 10),
    "inputs": "/t/mine.npz",
    "inject": "unwritten",
    "stage": "tile",
    "repeat": 3,
    "retries": 0,
    "references": "/t/references.json",
    "baseline": "/t/night.xml",
    "allow_new_skips": True,
    "output": "/t/out",
}
GIVEN = Settings(**VALUES)  # type: ignore[arg-type]
TEXT = st.text(st.characters(blacklist_categories=["Cs"]))

every_settings = st.builds(
    Settings,
    matrix=st.lists(TEXT.filter(bool)).map(tuple),
    date=st.none() | st.dates(),
    inputs=st.none() | TEXT.filter(bool),
    inject=TEXT,
    stage=st.sampled_from(["all", "tile"]),
    repeat=st.integers(1, 100),
    retries=st.none() | st.integers(0, 100),
    references=st.none() | TEXT.filter(bool),
    baseline=st.none() | TEXT.filter(bool),
    allow_new_skips=st.booleans(),
    output=st.none() | TEXT.filter(bool),
)


def test_the_values_of_these_tests_are_of_every_setting_and_differ_from_its_default() -> None:
    assert list(VALUES) == [each.name for each in DECLARED]
    assert all(VALUES[each.name] != each.default for each in DECLARED)


@given(every_settings)
def test_settings_survive_the_journal(settings: Settings) -> None:
    assert msgspec.json.decode(msgspec.json.encode(settings), type=Settings) == settings


def test_words_name_every_setting_that_is_not_the_default() -> None:
    words = (
        "--matrix 'to night.yaml' --matrix other.yaml --date 2026-03-10 --inputs /t/mine.npz "
        "--inject unwritten --stage tile --repeat 3 --retries 0 "
        "--references /t/references.json --baseline /t/night.xml --allow-new-skips --output /t/out"
    )
    assert GIVEN.words() == shlex.split(words)
    assert Settings().words() == []


def test_a_value_that_begins_with_a_dash_stays_a_value() -> None:
    assert Settings(matrix=("-x.yaml",)).words() == ["--matrix=-x.yaml"]


def test_facts_tell_what_changes_jobs_and_not_where_they_are_kept() -> None:
    assert GIVEN.facts() == {
        "matrix": "'to night.yaml' other.yaml",
        "date": "2026-03-10",
        "inputs": "/t/mine.npz",
        "inject": "unwritten",
        "stage": "tile",
        "repeat": "3",
        "retries": "0",
        "references": "/t/references.json",
        "baseline": "/t/night.xml",
        "allow_new_skips": "True",
    }
    assert Settings().facts() == {}


def test_facts_of_a_resumed_run_tell_a_default_that_took_the_place_of_another_value() -> None:
    assert Settings(repeat=1).facts(Settings(repeat=3)) == {"repeat": "1"}


@pytest.mark.parametrize("each", DECLARED, ids=lambda each: each.name)
def test_what_holds_where_a_run_is_taken_up(each: Declared) -> None:
    begun = dataclasses.replace(Settings(), **{each.name: VALUES[each.name]})
    kept = take_up("r1", begun, {})
    if each.taken_up is TakenUp.OWN:
        assert kept == Settings()
        return
    assert kept == begun
    assert take_up("r1", begun, {each.name: VALUES[each.name]}) == begun
    anew = {each.name: VALUES[each.name]}
    if each.taken_up is TakenUp.KEPT:
        assert take_up("r1", Settings(), anew) == begun
        return
    with pytest.raises(SettingsError) as refused:
        take_up("r1", Settings(), anew)
    line = str(refused.value)
    assert line.startswith(shlex.join(each.told(VALUES[each.name])) + ": run r1 was begun ")
    assert line.endswith(f"; leave {each.option} out or begin a new run")


def test_a_refusal_names_both_values() -> None:
    with pytest.raises(SettingsError) as refused:
        take_up("r1", Settings(inject="a"), {"inject": "b"})
    assert str(refused.value) == (
        "--inject b: run r1 was begun with --inject a; leave --inject out or begin a new run"
    )


def test_the_table_of_the_documentation_is_what_is_declared() -> None:
    told = {
        TakenUp.SAME: "stays; a different value is refused",
        TakenUp.KEPT: "stays, unless it is given anew",
        TakenUp.OWN: "must be given again: it is where the earlier run is looked for",
    }
    text = (Path(__file__).parents[3] / "docs" / "runs.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| `--")]
    assert rows == [
        f"| `{each.option}` | {f'`{each.name}` ' if each.shown else ''}| {told[each.taken_up]} |"
        for each in DECLARED
    ]
