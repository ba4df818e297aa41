from __future__ import annotations

import shutil
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import permutations
from pathlib import Path
from typing import Any

import msgspec
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.ground.jobs import State
from pipeline.ground.results import Attempt, Diff, Metric, Source, StageResult
from pipeline.history import questions, tables
from pipeline.history.answers import Run
from pipeline.history.past import HistoryError
from pipeline.history.store import History, open_history

from .conftest import NIGHT, OTHER, SHA, contents, ended, night, refusal

ROOT = Path(__file__).parents[3]
MIGRATIONS = ROOT / "pipeline" / "history" / "migrations"

METRICS = st.lists(
    st.builds(
        Metric,
        st.sampled_from(["cycles", "device_us", "gm_read.x"]),
        st.floats(0, 1e9),
        st.sampled_from(["us", "B"]),
        st.sampled_from(Source),
        model=st.sampled_from(["", "910B"]),
    ),
    max_size=3,
).map(tuple)
DIFFS = st.builds(
    Diff,
    st.sampled_from(["y", "mid"]),
    st.just((1, 1)),
    st.integers(1, 2**40),
    st.integers(0, 2**40),
    st.integers(0, 2**32),
    st.sampled_from([SHA, OTHER]),
    st.just(SHA),
    against=st.sampled_from(["golden", "fused"]),
)
TEXTS = st.text(max_size=20) | st.just("nul \x00 and \udcff")
STAGES = st.builds(
    StageResult,
    st.sampled_from(["fused", "pass1"]),
    st.sampled_from([*State][3:]),
    seconds=st.floats(0, 1e6),
    diffs=st.lists(DIFFS, max_size=2).map(tuple),
    metrics=METRICS,
)
ENDS = st.builds(
    ended,
    st.sampled_from("abcdef"),
    st.sampled_from([*State][3:]).filter(lambda state: state is not State.KNOWN_FAILURE),  # it has facts
    message=TEXTS,
    seconds=st.floats(0, 1e6),
    device=st.none() | st.integers(0, 1),
    stages=st.lists(STAGES, max_size=2).map(tuple),
    tries=st.lists(
        st.builds(Attempt, st.sampled_from(["", "npu-0"]), st.sampled_from(State), TEXTS), max_size=2
    ).map(tuple),
)
NIGHTS = st.dictionaries(st.integers(0, 2), st.lists(ENDS, max_size=3, unique_by=lambda one: one.job.id))


def test_what_is_brought_in_twice_and_in_any_order_is_there_once(tmp_path: Path) -> None:
    with open_history(tmp_path / "once.sqlite") as once, open_history(tmp_path / "again.sqlite") as twice:

        @settings(max_examples=10)
        @given(nights=NIGHTS, data=st.data())
        def check(nights: dict[int, Any], data: st.DataObject) -> None:
            once.prune(keep=0)
            twice.prune(keep=0)
            told = [night(number, *results) for number, results in nights.items()]
            for results in told:
                assert once.record(results)
            for results in data.draw(st.permutations(told + told)):
                assert twice.record(results)
            assert contents(once) == contents(twice)

        check()


def test_a_run_that_was_resumed_is_as_it_ended_last(place: str | Path) -> None:
    with open_history(place) as history:
        history.record(night(0, ended("a", State.INTERRUPTED), ended("b")))
        history.record(night(0, ended("a"), ended("b")))
        (one,) = questions.nights(history, named(history))
    assert one.states == {"passed": 2}


def named(history: History) -> Run:
    return questions.run_named(history)


@pytest.mark.parametrize("merged_first", [False, True])
def test_a_merged_run_takes_the_place_of_its_parts(merged_first: bool, place: str | Path) -> None:
    parts = [night(0, ended("a")), night(1, ended("b", State.MISMATCH))]
    both = night(2, ended("a"), ended("b", State.MISMATCH))
    merged = msgspec.structs.replace(both, parts=tuple(part.run for part in parts))
    with open_history(place) as history:
        order = [merged, *parts] if merged_first else [*parts, merged]
        assert [history.record(results) for results in order] == [True, not merged_first, not merged_first]
        assert [each.run.id for each in questions.nights(history, named(history))] == [merged.run]
        assert history.run_ids() == tuple(sorted([merged.run, *merged.parts]))


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_night_that_was_merged_twice_is_there_once(order: tuple[int, ...], tmp_path: Path) -> None:
    shards = [night(number).run for number in range(3)]
    told = [
        msgspec.structs.replace(night(number, ended("a")), parts=tuple(parts))
        for number, parts in ((3, shards[:2]), (4, shards), (5, [night(3).run, *shards]))
    ]
    told[0] = msgspec.structs.replace(told[0], parts=(*told[0].parts, told[0].run))  # it names itself
    with open_history(tmp_path / "h.sqlite") as history:
        for number in order[: 1 + order.index(2)]:
            history.record(told[number])
        assert [each.run.id for each in questions.nights(history, named(history))] == [told[2].run]
        assert history.record(told[2])
        assert not history.record(told[0])
        assert not history.record(told[1])


def test_two_runs_write_at_once(place: str | Path) -> None:
    told = [ended(f"{number}") for number in range(20)]

    def write(first: int) -> None:
        for number in range(first, 20, 2):
            with open_history(place, patience=60) as history:
                history.record(night(number, *told, host=f"h{number}"))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, (0, 1)))
    with open_history(place) as history:
        states = [each.states for each in questions.nights(history, named(history))]
        assert states == [{"passed": 20}] * 20
        assert {row[5] for row in contents(history)[0]} == {f"h{number}" for number in range(20)}


def test_a_new_file_that_another_run_is_making_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(HistoryError, match="locked"), open_history(path, patience=0.1):
            pass
        with ThreadPoolExecutor(1) as pool:
            ending = threading.Event()
            pool.submit(lambda: (time.sleep(0.3), ending.set(), other.execute("COMMIT")))
            with open_history(path, patience=60) as history:
                assert ending.is_set()
                assert history.run_ids() == ()


def test_a_reader_does_not_wait_for_a_writer(place: str | Path) -> None:
    with open_history(place, patience=0.1) as history, open_history(place, patience=0.1) as other:
        history.record(night(0, ended("a")))
        with history.writing():
            assert named(other).id == "20260301-040000-0000000000"


def test_a_database_that_lost_its_form_says_what_helps(place: str | Path) -> None:
    with open_history(place) as history, history.writing() as connection:
        connection.exec_driver_sql("DELETE FROM alembic_version")
    assert refusal(place).endswith(
        "does not say which form it has: it is damaged: move it away, and bring runs in again with "
        "`history import`"
    )


@pytest.mark.parametrize("table", ["places (name)", "runs (id)", "alembic_version (version_num)"])
def test_a_database_of_another_program_stays_as_it_is(table: str, tmp_path: Path) -> None:
    path = tmp_path / "places.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"CREATE TABLE {table}")
        connection.execute(f"INSERT INTO {table.split()[0]} VALUES ('0001')")
        connection.commit()
    before = path.read_bytes()
    assert refusal(path) == f"history {path}: is a database of another program; name another"
    if not table.startswith("alembic"):
        assert path.read_bytes() == before


def newer(folder: Path) -> Path:
    """The migrations of a newer pipeline."""
    shutil.copytree(MIGRATIONS, folder)
    (folder / "versions" / "r9999_next.py").write_text(
        "import sqlalchemy as sa\nfrom alembic import op\n"
        f"revision, down_revision = '9999', {tables.REVISION!r}\n"
        "def upgrade():\n    op.add_column('runs', sa.Column('weather', sa.Text))\n"
    )
    return folder


def test_an_older_database_is_brought_up_to_date_and_a_newer_one_is_refused(
    place: str | Path, tmp_path: Path
) -> None:
    told: list[str] = []
    with open_history(place, told.append) as history:
        history.record(night(0, ended("a")))
        assert told == []
        history.migrate(told.append, "9999", newer(tmp_path / "newer"))
        (line,) = told
        assert line.endswith(f": brought from form {tables.REVISION} to 9999")
        history.migrate(told.append, "9999", tmp_path / "newer")
        assert told == [line]
        with history.reading() as connection:
            assert connection.exec_driver_sql("SELECT run, weather FROM runs").all() == [
                ("20260301-040000-0000000000", None)
            ]
    said = refusal(place)
    assert f": a newer pipeline wrote it (form 9999, this one knows up to {tables.REVISION}): update" in said


def test_two_runs_bring_a_database_up_to_date_at_once(place: str | Path) -> None:
    def make(_: int) -> None:
        with open_history(place, patience=60):
            pass

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(make, range(4)))


def test_the_migrations_make_the_tables(place: str | Path) -> None:
    with open_history(place) as history, history.reading() as connection:
        assert compare_metadata(MigrationContext.configure(connection), tables.metadata) == []
    assert ScriptDirectory(str(MIGRATIONS)).get_heads() == [tables.REVISION]


def test_an_installed_pipeline_has_the_migrations() -> None:
    """Packages below `pipeline` are installed with their Python files, and with nothing else."""
    files = [path for path in MIGRATIONS.rglob("*.*") if "__pycache__" not in path.parts]
    assert {path.suffix for path in files} == {".py"}
    assert all((path.parent / "__init__.py").exists() for path in files)


def test_runs_are_forgotten_by_age_and_by_number(place: str | Path) -> None:
    with open_history(place) as history:
        for number in range(6):
            history.record(night(number, ended("a", stages=(StageResult("fused", State.PASSED),))))
        assert history.prune(before=NIGHT.replace(day=3)) == 2
        assert history.prune(keep=3) == 1
        assert history.prune() == 0
        assert [each.run.began.day for each in questions.nights(history, named(history))] == [4, 5, 6]
        _, _, results, _, stages, *_ = contents(history)
        assert (len(results), len(stages)) == (3, 3)


def test_a_file_that_was_pruned_is_smaller(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    told = [ended(f"{number}", State.CRASHED, message="x" * 300) for number in range(50)]
    with open_history(path) as history:
        for number in range(20):
            history.record(night(number, *told))
    before = path.stat().st_size
    with open_history(path) as history:
        history.prune(keep=1)
    assert path.stat().st_size < before / 2


def test_what_has_no_id_of_a_run_is_refused(tmp_path: Path) -> None:
    nameless = msgspec.structs.replace(night(0, ended("a")), run="r1")
    with open_history(tmp_path / "h.sqlite") as history, pytest.raises(HistoryError, match="'r1' is no id"):
        history.record(nameless)
