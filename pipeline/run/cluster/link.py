"""The liaison as the executor has it: a process, the channel to it, and what it prints."""

from __future__ import annotations

import re
import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib.util import find_spec
from typing import IO, TypeAlias

import msgspec

from golden.errors import UserError
from pipeline.run.cluster import head
from pipeline.run.cluster.messages import FromLiaison
from pipeline.run.messages import Channel
from pipeline.run.processes import start_interpreter

Start: TypeAlias = "Callable[[IO[bytes]], tuple[subprocess.Popen[bytes], Channel[FromLiaison]]]"
"""Starts a liaison that prints into a file."""

_CODE = "from pipeline.run.cluster.liaison import main; main(int(sys.argv[1]))"
_CHATTER = re.compile(r"\[[-\d :,.]+ [IW] \d+ \d+\]")
"""How lines begin that Ray prints although nothing is wrong."""
_STACK = "*** StackTrace Information ***"
"""What Ray prints before the stack of a process that it aborts."""


class ClusterError(UserError):
    """The cluster cannot be used; the message is one line: what, where, remedy."""


def head_at(address: str, environment: Mapping[str, str]) -> str:
    """HOST:PORT of the head at an address, which answers if it can be asked.

    `head.AUTO` is the cluster that was started on this host last.

    Raises:
        ClusterError: Ray is not installed, without which no head is of use; or there is no head.
    """
    if find_spec("ray") is None:
        raise ClusterError(
            "--executor ray: Ray is not installed here; make the environment as docs/cluster.md says,"
            " or leave --executor ray out"
        )
    found, where = address, f"--executor ray: {address}"
    if address == head.AUTO:
        file = head.started_here(environment)
        try:
            found = file.read_text("ascii").strip()
        except (OSError, UnicodeError):
            why = f"no cluster was started on this host: there is no {file}"
            raise ClusterError(f"{where}: {why}; give --address HOST:PORT, {head.START}") from None
        where = f"{where}, which is {found} by {file}" if head.split(found) else f"{where}: in {file}"
    if why := head.refusal(found, environment):
        raise ClusterError(f"{where}: {why}")
    return found


def start_liaison(errors: IO[bytes]) -> tuple[subprocess.Popen[bytes], Channel[FromLiaison]]:
    """Start the liaison; it prints into `errors`."""
    process, ours = start_interpreter(_CODE, (), errors)
    return process, Channel[FromLiaison](ours, msgspec.json.Decoder(FromLiaison))


class Link:
    """A liaison that was started. It ends when nothing more is sent to it.

    `ended`: it was seen to have ended while its messages were waited for.
    """

    def __init__(self, start: Start) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
        self._process, self.channel = start(self._errors)
        self.ended = False

    def send(self, message: object) -> None:
        """Send a message; see `Channel.send`."""
        self.channel.send(message)

    def messages(self, seconds: float) -> Iterator[FromLiaison]:
        """What the liaison says within some seconds, until it ends."""
        end = time.monotonic() + seconds
        while self.channel.arrived:
            yield self.channel.arrived.popleft()
        while (left := end - time.monotonic()) > 0:
            if not select.select([self.channel], [], [], left)[0]:
                return
            self.ended = not self.channel.read()
            if self.ended:
                return
            while self.channel.arrived:
                yield self.channel.arrived.popleft()

    def last_error(self) -> str:
        """The last line that tells what is wrong, in brackets; empty if there is none."""
        self._errors.seek(0)
        said, _, _ = self._errors.read().decode("utf-8", "backslashreplace").partition(_STACK)
        lines = said.splitlines()
        telling = [line.strip() for line in lines if line.strip() and not _CHATTER.match(line)]
        return f" ({telling[-1]})" if telling else ""

    def close(self, patience: float) -> None:
        """End the liaison, which has so many seconds to do so itself."""
        self.channel.shut()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(patience)
        self._process.kill()  # does nothing if it has ended
        self._process.wait()
        self.channel.close()
        self._errors.close()
