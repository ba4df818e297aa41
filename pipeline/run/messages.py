"""What controller, keeper and worker tell each other, as JSON, and files written whole or not at all."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec

from pipeline.ground.jobs import Job, Result
from pipeline.ground.settings import Settings

_RESULT_LIMIT = 32 * 1024**2


class Role(Enum):
    """Controller to nursery: what the process is to be that it forks next."""

    KEEPER = b"k"
    GOLDENS = b"g"


class Ended(str, Enum):
    """Who ended a job's process: it did itself, its time ran out, or the controller cancelled it."""

    ITSELF = "itself"
    TIMED_OUT = "timed-out"
    CANCELLED = "cancelled"


class Order(msgspec.Struct, frozen=True, tag=True):
    """Controller to keeper: run this job once, in a process of its own.

    `target` is the dotted name `module:function` of the work, called as `target(job, context)`. The result
    goes to the file `result`. `marker` is the value of the job's mark in the environment. `threads` is how
    many the numeric libraries may use. `queue` is set where the work goes through `task-submit`: how many
    seconds it may wait for a card, beside the job's timeout. `settings` are those of the run.
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
    """Keeper to controller, last: a fault of its own, a traceback."""

    text: str


class Report(msgspec.Struct, frozen=True, tag=True):
    """Keeper to controller: how the process of an order ended, and that nothing of it is alive but `alive`.

    `status` is its exit code, or minus the signal that ended it. `ended` says who asked for the end. `stacks`
    is what faulthandler wrote (at a timeout: every thread). `swept` and `alive` describe processes that the
    job left behind: those that were killed, and those that could not be.
    """

    status: int
    ended: Ended
    seconds: float
    output: str
    stacks: str
    swept: tuple[str, ...]
    alive: tuple[str, ...]


def plain_text(raw: bytes) -> str:
    r"""Decode bytes of unknown origin; what is not UTF-8 stands as `\xNN`."""
    return raw.decode("utf-8", "backslashreplace")


def encode(message: object) -> bytes:
    r"""One line of JSON. Lone surrogates, which JSON in UTF-8 cannot hold, become `\udcNN` as text."""
    try:
        return msgspec.json.encode(message)
    except UnicodeEncodeError:
        return msgspec.json.encode(_without_surrogates(msgspec.to_builtins(message)))


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_surrogates(item) for item in value]
    return value


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file that others see whole or not at all."""
    written = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with written.open("xb") as file:
            file.write(data)
        written.replace(path)
    except BaseException:
        written.unlink(missing_ok=True)
        raise


class Lines:
    """Splits a byte stream into lines, whatever the pieces it arrives in."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the lines that `data` completes, without their ends."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        yield from whole


def read_result(path: Path, job: Job) -> Result:
    """Read the result a worker wrote for `job`.

    Raises:
        FileNotFoundError: there is none.
        ValueError: it is damaged, too big, or another job's.
    """
    size = path.stat().st_size
    if size > _RESULT_LIMIT:
        raise ValueError(f"{size:,} bytes; at most {_RESULT_LIMIT:,}")
    result = msgspec.json.decode(path.read_bytes(), type=Result)
    if result.job != job:
        raise ValueError(f"it is the result of {result.job.id}")
    return result
