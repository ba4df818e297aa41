from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.ground.jobs import Job, State
from pipeline.ground.results import Diff, Mismatch, Region, Result, StageResult
from pipeline.ground.settings import Settings
from pipeline.run.journal import Begun
from pipeline.run.messages import Channel, encode, encoded_in_parts, read_result, write_atomically


def test_result_survives_the_file(make_job: Callable[..., Job], tmp_path: Path) -> None:
    diff = Diff(
        "y",
        (4, 2),
        8,
        1,
        255,
        "a",
        "b",
        1,
        "",
        (Region("band 0", 8, 1, 255),),
        (),
        (Mismatch((1, 0), 127, -128),),
    )
    job = make_job()
    result = Result(
        job, State.MISMATCH, "m", "d", 1.5, "t", 3, 2, (StageResult("fused", State.MISMATCH, diffs=(diff,)),)
    )
    write_atomically(tmp_path / "r.json", encode(result))
    read = read_result(tmp_path / "r.json", job)
    assert read == result
    assert read.job is job  # or a run of thousands of jobs would hold each of them twice
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_long_message_is_the_same_in_parts(make_job: Callable[..., Job], count: int) -> None:
    jobs = tuple(make_job() for _ in range(count))
    begun = Begun('"plan":[', "now", jobs, {"plan": '"plan":[]'}, Settings())
    assert b"".join(encoded_in_parts(begun, "plan")) == encode(begun)


def test_result_of_another_job_is_refused(make_job: Callable[..., Job], tmp_path: Path) -> None:
    (tmp_path / "r.json").write_bytes(encode(Result(make_job(), State.PASSED)))
    with pytest.raises(ValueError, match="it is the result of device/emu/1"):
        read_result(tmp_path / "r.json", make_job())


def test_huge_result_is_refused_unread(make_job: Callable[..., Job], tmp_path: Path) -> None:
    with (tmp_path / "r.json").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ValueError, match="at most"):
        read_result(tmp_path / "r.json", make_job())


@given(st.text(st.characters()))
def test_any_text_can_be_sent(text: str) -> None:
    """Hypothesis leaves lone surrogates out of `text()` unless asked for all characters."""
    for value in (text, "\udcff" + text):
        sent = msgspec.json.decode(encode({value: [value]}))
        shown = value.encode("utf-8", "backslashreplace").decode()
        assert sent == {shown: [shown]}


@given(sent=st.lists(st.text(max_size=9)), size=st.integers(1, 5))
def test_messages_come_out_whatever_pieces_they_arrive_in(sent: list[str], size: int) -> None:
    stream = b"".join(msgspec.json.encode(message) + b"\n" for message in sent) + b"torn"
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = Channel(ours, msgspec.json.Decoder(str))
        for at in range(0, len(stream), size):
            theirs.sendall(stream[at : at + size])
            assert channel.read()
        assert list(channel.arrived) == sent


def test_a_channel_tells_that_its_other_end_has_closed() -> None:
    ours, theirs = socket.socketpair()
    channel = Channel(ours, msgspec.json.Decoder(str))
    with ours:
        theirs.sendall(b'"last"\n"torn')
        theirs.close()
        channel.send("to nobody")
        assert (channel.next(), channel.next()) == ("last", None)
