"""The process on a node that runs the processes of jobs there, as the local executor does on one host.

It is a fresh interpreter with one thread, started by the actor on the node. It ends, with all that it
started, when the actor's end of the socket closes, for whatever reason.
"""

from __future__ import annotations

import os
import selectors
import socket
import time
from collections.abc import Callable
from datetime import datetime, timezone
from importlib import import_module
from pathlib import Path

import msgspec

from golden.errors import UserError
from pipeline.engines.base import Availability
from pipeline.run.cluster.messages import (
    Aside,
    Beat,
    Busy,
    Cancel,
    Done,
    Inspect,
    Open,
    Run,
    Survey,
    ToSteward,
    Unfit,
)
from pipeline.run.cluster.needs import goldens_in
from pipeline.run.devices import lock_folder
from pipeline.run.executor import Ended, Process, Site, Terms, Told
from pipeline.run.goldens import prune_goldens
from pipeline.run.local import LocalExecutor
from pipeline.run.messages import Channel, encode

BEAT = 5.0
"""Seconds after which a steward that has nothing to say says so."""


def serve(descriptor: int, folder: str) -> None:
    """Do what is asked over the socket `descriptor`, with the files of processes in `folder`."""
    control = Channel[ToSteward](socket.socket(fileno=descriptor), msgspec.json.Decoder(ToSteward))
    inspect = control.next()
    if not isinstance(inspect, Inspect):
        return
    cache = Path(folder).parents[1] / "goldens"
    try:
        lock_folder(os.environ)
        survey = _called(inspect)
    except UserError as error:
        control.send(Unfit(str(error)))
        control.next()
        return
    prune_goldens(cache, datetime.now(timezone.utc))
    survey = msgspec.structs.replace(survey, goldens=goldens_in(cache))
    control.send(survey)
    begun = control.next()
    if not isinstance(begun, Open):
        return
    try:
        steward = _Steward(control, begun, survey, Path(folder), cache)
    except UserError as error:
        control.send(Unfit(str(error)))
        control.next()
        return
    steward.work()


def _called(inspect: Inspect) -> Survey:
    module, _, name = inspect.survey.partition(":")
    survey: Callable[[Inspect], Survey] = getattr(import_module(module), name)
    return survey(inspect)


class _Steward:
    """The work of a run on this node."""

    def __init__(
        self, control: Channel[ToSteward], begun: Open, survey: Survey, folder: Path, cache: Path
    ) -> None:
        self._control = control
        terms = Terms(
            plan=(),
            cache=cache,
            locks=lock_folder(os.environ),
            jobs=begun.workers,
            pools=survey.pools,
            settings=begun.settings,
            queue=None,
            grace=begun.grace,
            preload=begun.preload,
            target=begun.target,
            environment=dict(os.environ),
            available=lambda _job: Availability(),
        )
        self._executor = LocalExecutor(terms, begun.workers)
        # Processes that an earlier steward of this node and run left are ended first.
        self._site = Site(begun.mark, folder, resumed=True)
        self._site.results.mkdir()
        self._running: dict[int, Process] = {}
        self._told: set[str] = set()

    def work(self) -> None:
        """Run processes until the other end closes; then nothing of them is left."""
        self._selector = selectors.DefaultSelector()
        try:
            self._executor.open(self._site, self._selector, Told(self._ended))
            self._selector.register(self._control, selectors.EVENT_READ, self._receive)
            self._open = True
            while self._open:
                wait = min(BEAT, max(0.0, self._executor.wake_at - time.monotonic()))
                ready = self._selector.select(wait)
                for key, _ in ready:
                    key.data()
                self._executor.wake()
                if not ready:
                    self._control.send(Beat())
        finally:
            self._executor.close()
            self._selector.close()

    def _receive(self) -> None:
        self._open = self._control.read()
        while self._control.arrived:
            message = self._control.arrived.popleft()
            if isinstance(message, Run):
                self._begin(message)
            elif isinstance(message, Cancel):
                self._executor.cancel()

    def _begin(self, run: Run) -> None:
        device = None
        if run.device:
            device = self._executor.take(run.job, [run.device])
            self._tell_aside()
            if device is None:
                self._control.send(Busy(run.number, self._executor.holder(run.device)))
                return
        process = Process(run.number, run.job, self._site.folder / run.folder, device)
        self._running[run.number] = process
        self._executor.start(process)

    def _ended(self, number: int, ended: Ended) -> None:
        process = self._running.pop(number)
        self._tell_aside()
        done = encode(Done(number, ended.report, ended.fault, ended.gave_up))
        files = (os.fsencode(process.folder), os.fsencode(self._site.result(number)))
        # The actor brings the files home: JSON has no tabulators, and the names of these folders neither.
        self._control.send_line(b"\t".join((done, str(number).encode(), *files)))

    def _tell_aside(self) -> None:
        for device, reason in self._executor.set_aside.items():
            if device not in self._told:
                self._told.add(device)
                self._control.send(Aside(device, reason))
