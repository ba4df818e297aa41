"""The messages between controller, keeper and worker, as JSON, and how files are written atomically."""

from __future__ import annotations

import json
import os
import re
import secrets
import socket
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from pipeline.ground.jobs import Job, State
from pipeline.ground.results import Result
from pipeline.ground.settings import Settings

_RESULT_LIMIT = 32 * 1024**2
_RESULTS = msgspec.json.Decoder(Result)

Message = TypeVar("Message")


class Order(msgspec.Struct, frozen=True, tag=True):
    """Controller to keeper: run this job once, in a process of its own.

    `target` is the name `module:function` of the work, called as `target(job, context)`. The result is
    written to the file `result`. `marker` is the value of the job's mark in the environment. `threads` is the
    number of threads for the numeric libraries. `queue` is set if the work goes through `task-submit`: the
    seconds it may wait for a card, in addition to the job's timeout. `settings` are those of the run.
    """

    job: Job
    target: str
    folder: str
    result: str
    cache: str
    settings: Settings
    device: int | None
    marker: str
    threads: int
    grace: float
    queue: float | None = None

    @property
    def limit(self) -> float:
        """Seconds after which the job's process is ended."""
        return self.job.timeout + (self.queue or 0.0)


class Cancel(msgspec.Struct, frozen=True, tag=True):
    """Controller to keeper: end the running job, giving it `grace` seconds between TERM and KILL."""

    grace: float


class Hello(msgspec.Struct, frozen=True, tag=True):
    """Keeper to controller, first: its process id."""

    pid: int


class Fault(msgspec.Struct, frozen=True, tag=True):
    """Keeper to controller, last: the traceback of an error in the keeper itself."""

    text: str


class Report(msgspec.Struct, frozen=True, tag=True):
    """Keeper to controller: how the process of an order ended. Only the processes in `alive` are still alive.

    `status` is its exit code, or minus the signal that ended it. `ended` is `timed-out` or `interrupted` if
    the keeper ended it for that, else None. `stacks` is what faulthandler wrote (at a timeout: every thread).
    `swept` and `alive` describe processes that the job left behind: those that were killed, and those that
    could not be killed. `peak_memory` is that of `Result`.
    """

    status: int
    ended: State | None
    seconds: float
    output: str
    stacks: str
    swept: tuple[str, ...]
    alive: tuple[str, ...]
    peak_memory: int = 0


def plain_text(raw: bytes) -> str:
    r"""Decode bytes of unknown origin; bytes that are not UTF-8 become `\xNN`."""
    return raw.decode("utf-8", "backslashreplace")


def encode(message: object) -> bytes:
    r"""One line of JSON. Lone surrogates, which JSON in UTF-8 cannot hold, become `\udcNN` as text."""
    try:
        return msgspec.json.encode(message)
    except UnicodeEncodeError:
        text = json.dumps(msgspec.to_builtins(message), ensure_ascii=False, separators=(",", ":"))
        return re.sub("[\ud800-\udfff]", lambda lone: rf"\\u{ord(lone[0]):x}", text).encode()


def encoded_in_parts(message: msgspec.Struct, field: str) -> Iterator[bytes]:
    """`encode` in parts: the items of a list in it, of which there may be thousands, each by itself."""
    empty = msgspec.structs.replace(message, **{field: ()})
    # No text can hold this name, since quotes are escaped in texts.
    before, name, behind = encode(empty).partition(f'"{field}":['.encode())
    yield before + name
    for number, item in enumerate(getattr(message, field)):
        yield b"," + encode(item) if number else encode(item)
    yield behind


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file atomically: readers never see a part of it."""
    write_in_parts(path, (data,))


def write_in_parts(path: Path, parts: Iterable[bytes]) -> None:
    """Write a file of these parts; see `write_atomically`."""
    written = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with written.open("xb") as file:
            file.writelines(parts)
        written.replace(path)
    except BaseException:
        written.unlink(missing_ok=True)
        raise


class Channel(Generic[Message]):
    """One end of a socket on which messages travel as lines of JSON.

    `arrived` holds the messages that were read but not taken; for them the descriptor is not readable.
    """

    def __init__(self, connection: socket.socket, messages: msgspec.json.Decoder[Message]) -> None:
        self._socket = connection
        self._messages = messages
        self._rest = b""
        self.arrived: deque[Message] = deque()

    def fileno(self) -> int:
        """Descriptor that is readable when `read` has something."""
        return self._socket.fileno()

    def send(self, message: object) -> None:
        """Send a message. If the other end has closed, the next `read` says so."""
        self.send_line(encode(message))

    def send_line(self, line: bytes) -> None:
        """Send a line; see `send`."""
        with suppress(ConnectionError):
            self._socket.sendall(line + b"\n")

    def read(self) -> bool:
        """Wait for data, and add the messages that it completes. False: the other end has closed."""
        data = b""
        with suppress(ConnectionError):
            data = self._socket.recv(65536)
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.arrived.extend(map(self._messages.decode, lines))
        return bool(data)

    def next(self) -> Message | None:
        """Wait for the next message. None: the other end has closed."""
        while not self.arrived:
            if not self.read():
                return None
        return self.arrived.popleft()

    def shut(self) -> None:
        """Say that nothing more will be sent; the other end can still send."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close this end."""
        self._socket.close()


def read_result(path: Path, job: Job) -> Result:
    """Read the result a worker wrote for `job`; it has this very job, so that a run holds each job once.

    Raises:
        FileNotFoundError: there is no result.
        ValueError: it is damaged, too big, or the result of another job.
    """
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        if size > _RESULT_LIMIT:
            raise ValueError(f"{size:,} bytes; at most {_RESULT_LIMIT:,}")
        result = _RESULTS.decode(file.read())
    if result.job != job:
        raise ValueError(f"it is the result of {result.job.id}")
    return replace(result, job=job)
