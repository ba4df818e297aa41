from __future__ import annotations

import shutil
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import replace
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

from golden.errors import UserError
from pipeline.ground.jobs import State
from pipeline.ground.results import Attempt, Diff, Metric, Source, StageResult
from pipeline.history import questions, store, tables
from pipeline.history.answers import Run
from pipeline.history.past import ContentError, HistoryError
from pipeline.history.store import open_history
from pipeline.report.results import RunResults

from .conftest import NIGHT, contents, ended, job_named, night

ROOT = Path(__file__).parents[3]
MIGRATIONS = ROOT / "pipeline" / "history" / "migrations"
SHA, OTHER = "ab" * 32, "cd" * 32

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


def test_all_of_a_run_is_there(place: str | Path) -> None:
    metrics = (
        Metric("cycles", 86901, "cycles", Source.COST_MODEL),
        Metric("device_us", 12.5, "us", Source.DEVICE_CLOCK, model="910B"),
    )
    diffs = (Diff("y", (2, 32), 64, 3, 10, OTHER, SHA), Diff("mid", (2, 32), 64, 0, 0, SHA, SHA))
    one = ended(
        "a",
        "mismatch fused unwritten",
        message="bad \x00 \udcff text",
        seconds=2.5,
        device=1,
        peak_memory=5_000_000_000,
        stages=(StageResult("fused", State.MISMATCH, seconds=2.0, diffs=diffs, metrics=metrics),),
        tries=(Attempt("npu-0", State.INFRASTRUCTURE, "507018"), Attempt("npu-1", State.MISMATCH, "", 2.5)),
    )
    with open_history(place) as history:
        history.record(night(0, one))
        runs, versions, results, attempts, stages, all_diffs, counts, timings = contents(history)
    ((run, *_),) = runs
    assert run == "20260301-040000-0000000000"
    assert [version[1:] for version in versions] == [("python", "3.11.7")]
    ((_, job, state, seconds, device, fingerprint, backends, message, entry, peak_memory),) = results
    assert job == ("device/a2a3/g/k/a", "device", "a2a3", "g", "k", "a")
    assert (state, seconds, device, entry) == ("mismatch", 2.5, ("h1", "npu-1"), None)
    assert (fingerprint, backends) == (("mismatch fused unwritten",), ("pypto",))
    assert (message, peak_memory) == ("bad text", 5_000_000_000)
    assert [(one[1], one[2], one[3], one[5]) for one in attempts] == [
        (1, ("h1", "npu-0"), "infrastructure", "507018"),
        (2, ("h1", "npu-1"), "mismatch", None),
    ]
    assert [stage[1:] for stage in stages] == [(("fused",), "mismatch", 2.0)]
    assert [diff[2:] for diff in all_diffs] == [
        (("y",), ("golden",), 64, 3, 10, SHA, OTHER),
        (("mid",), ("golden",), 64, 0, 0, SHA, None),
    ]
    assert [count[1:] for count in counts] == [(("cycles",), 86901)]
    assert [timing[1:] for timing in timings] == [(("device_us",), 12.5, ("910B",))]


def test_a_run_that_was_resumed_is_as_it_ended_last(place: str | Path) -> None:
    with open_history(place) as history:
        history.record(night(0, ended("a", State.INTERRUPTED), ended("b")))
        history.record(night(0, ended("a"), ended("b")))
        (one,) = questions.nights(history, named(history))
    assert one.states == {"passed": 2}


def named(history: store.History) -> Run:
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


def test_a_reader_does_not_wait_for_a_writer(place: str | Path) -> None:
    with open_history(place, patience=0.1) as history, open_history(place, patience=0.1) as other:
        history.record(night(0, ended("a")))
        with history.writing():
            assert named(other).id == "20260301-040000-0000000000"


def refusal(place: str | Path, **waiting: float) -> str:
    """The line with which a history is refused."""
    with pytest.raises(HistoryError) as refused, open_history(place, **waiting) as history:
        history.record(night(0, ended("a")))
    assert "\n" not in str(refused.value)
    assert UserError.exit_code == 4
    return str(refused.value)


def test_a_locked_database_is_told_in_one_line(place: str | Path) -> None:
    with open_history(place) as history, history.writing():
        said = refusal(place, patience=0.1)
    assert "locked" in said or "lock timeout" in said
    assert said.endswith("try again when the command that writes it has ended")


def test_what_is_no_database_is_told_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    path.write_text("last night's notes, which are long enough to be taken for a page of a database\n" * 20)
    remedy = "; set PIPELINE_HISTORY to one that can be used, or to off"
    assert refusal(path) == f"history {path}: file is not a database{remedy}"
    (tmp_path / "folder").mkdir()
    folder = tmp_path / "folder"
    assert refusal(folder) == f"history {folder}: unable to open database file{remedy}"


def test_a_database_that_lost_its_form_says_what_helps(place: str | Path) -> None:
    with open_history(place) as history, history.writing() as connection:
        connection.exec_driver_sql("DELETE FROM alembic_version")
    assert refusal(place).endswith(
        "does not say which form it has: it is damaged: move it away, and bring runs in again with "
        "`history import`"
    )


def test_on_a_full_disk_a_history_can_be_asked_and_not_written(
    tmp_path: Path, full_disk: Callable[[], AbstractContextManager[None]]
) -> None:
    path = tmp_path / "a #?%41.sqlite"
    with open_history(path) as history:
        history.record(night(0, ended("a")))
    with full_disk():
        with open_history(path) as history:
            known = history.run_ids()
        said = refusal(path)
    assert known == (night(0).run,)
    assert said.endswith("or its disk is full: make room there, or name another")


@pytest.mark.parametrize("secret", ["a", "secret", "failed"])
def test_what_a_database_says_does_not_show_a_password(secret: str) -> None:
    urls = [f"postgresql://ann:{secret}@h/nights", f"postgresql://ann@h/nights?password={secret}"]
    for url in map(store._parsed, urls):
        with pytest.raises(HistoryError) as refused, store._named(url):
            raise OSError("connection failed: ann, secret: at last")
        said = str(refused.value).removeprefix(store._shown(url))
        assert said == (
            ": OSError; what it says is not shown, because the password may be in it; "
            "set PIPELINE_HISTORY to one that can be used, or to off"
        )


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:secret@127.0.0.1:1/nights",
        "postgresql://ann@127.0.0.1:1/nights?password=secret",
        "postgresql://ann:secret@127.0.0.1:1/nights?nonsense=1",
        "postgresql://ann:secret@[::1/nights",
        "mysql://ann:secret@host/nights",
        "sqlite://",  # of a history in memory nothing is left
        "secret",
        "sqlite+aiosqlite:////tmp/secret",
        "sqlite+pysqlcipher://:secret@/tmp/h",
        "sqlite://ann:secret@host/tmp/h",
        "sqlite:///:memory:",
        "sqlite:///file:secret",
        "sqlite:////tmp/secret?timeout=abc",
        "sqlite:////tmp/secret\x00",
        "postgresql+asyncpg://ann:secret@host/nights",
    ],
)
def test_no_message_has_a_password(url: str) -> None:
    said = refusal(url, patience=1)
    assert "secret" not in said
    assert said.startswith(("history postgresql://ann", "PIPELINE_HISTORY: is no URL of a history; write "))


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


def test_a_database_that_lost_a_table_or_has_no_room_says_what_helps(tmp_path: Path) -> None:
    path = tmp_path / "h.sqlite"

    def fill(history: store.History) -> None:
        with history.writing() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count = 1")
            connection.exec_driver_sql("INSERT INTO names VALUES (1, ?)", ("x" * 100_000,))

    with open_history(path) as history, pytest.raises(HistoryError, match="full: make room"):
        fill(history)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE devices")
    assert refusal(path).endswith("bring runs in again with `history import`")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:my@secret@host/nights",
        "postgresql://ann:my@secret/secret@host/nights",
        "postgresql://ann:my@host/secret?secret@host/nights",
        "postgresql://an/n:secret@host/nights",
        "postgresql://ann:my#secret@secret@host/nights",
    ],
)
def test_a_url_that_may_show_a_part_of_its_password_is_refused_unseen(url: str) -> None:
    said = refusal(url, patience=1)
    assert "secret" not in said
    assert "write @ as %40" in said or "is no URL of a history" in said


def test_the_parameters_of_a_url_are_heeded(server: str) -> None:
    url = f"postgresql://history@/postgres?host={server}&connect_timeout=3"
    given = f"{url}&sslmode=require&application_name=nights&options=-c%20work_mem%3D512kB"
    engine = store._engine(store._parsed(given), 7.0, 7.0)
    with engine.connect() as connection:
        told = [
            connection.exec_driver_sql(f"SHOW {name}").scalar_one()
            for name in ("application_name", "work_mem", "lock_timeout")
        ]
    engine.dispose()
    assert told == ["nights", "512kB", "7s"]
    assert 'invalid sslmode value: "never"; set PIPELINE_HISTORY to' in refusal(f"{url}&sslmode=never")
    assert refusal(f"{url}&autocommit=1").endswith('invalid connection option "autocommit"; leave it out')
    assert refusal(f"{url.replace('=3', '=soon')}").count("bad value for connect_timeout: 'soon'; set ")


@pytest.fixture
def proxy(server: str) -> Iterator[tuple[int, threading.Event]]:
    """The port of a proxy for the server; once the event is set, it takes everything and forwards nothing."""
    silent, open_ends = threading.Event(), list[socket.socket]()

    def forward(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if not silent.is_set():
                    target.sendall(data)
            target.shutdown(socket.SHUT_RDWR)

    def accept(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                near, far = listener.accept()[0], socket.socket(socket.AF_UNIX)
                far.connect(f"{server}/.s.PGSQL.5432")
                open_ends.extend((near, far))
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=forward, args=ends, daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, args=[listener], daemon=True).start()

        def close() -> None:
            for end in open_ends:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

        rescue = threading.Timer(30, close)  # a test whose client waits for ever fails
        rescue.start()
        yield listener.getsockname()[1], silent
        rescue.cancel()
        close()


def test_a_server_that_falls_silent_is_given_up(server: str, proxy: tuple[int, threading.Event]) -> None:
    port, silent = proxy
    url = f"postgresql://history@127.0.0.1:{port}/postgres"
    with open_history(url, silence=0.2) as history:
        assert history.run_ids() == ()
        silent.set()
        with pytest.raises(HistoryError, match=r"nothing for 0\.2 s") as refused:
            history.run_ids()
    assert str(refused.value).startswith(f"history {url}: the server ")


def test_a_wrong_password_is_told_without_it(server: str) -> None:
    assert "nowhere" in refusal(f"postgresql://history:secret@/nowhere?host={server}")
    assert "secret" not in refusal(f"postgresql://history:secret@/nowhere?host={server}")


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


def saying(**changes: Any) -> RunResults:
    """A night with a diff that says something else."""
    diff = replace(Diff("y", (1, 1), 1, 1, 1, SHA, OTHER), **changes)
    return night(0, ended("a", stages=(StageResult("fused", State.MISMATCH, diffs=(diff,)),)))


@pytest.mark.parametrize(
    "bad",
    [
        saying(mismatches=10**30),
        saying(actual_sha="zz"),
        saying(golden_sha="a"),
        msgspec.structs.replace(night(0), exit_code=10**20),
        msgspec.structs.replace(night(0), jobs=(replace(ended("a"), state=State.PLANNED),)),
        night(0, replace(ended("a"), job=job_named("\udcff"))),
    ],
)
def test_what_no_history_can_hold_is_refused_and_others_come_in(bad: RunResults, place: str | Path) -> None:
    with open_history(place) as history:
        with pytest.raises(ContentError, match=f"^run {bad.run}: its results cannot be brought in: "):
            history.record(bad)
        assert history.record(night(1, ended("a")))
        assert history.run_ids() == (night(1).run,)


def test_what_has_no_id_of_a_run_is_refused(tmp_path: Path) -> None:
    nameless = msgspec.structs.replace(night(0, ended("a")), run="r1")
    with open_history(tmp_path / "h.sqlite") as history, pytest.raises(HistoryError, match="'r1' is no id"):
        history.record(nameless)
