"""Turns signals into something that a selector can wait for, instead of exceptions at any line."""

from __future__ import annotations

import os
import signal
from contextlib import suppress


class SignalWatch:
    """While entered, the given signals only make this object readable. For the main thread only."""

    def __init__(self, *numbers: signal.Signals) -> None:
        self._numbers = numbers

    def __enter__(self) -> SignalWatch:
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        os.set_blocking(self._writing, False)
        self._descriptor = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        self._handlers = {
            number: signal.signal(number, lambda _number, _frame: None) for number in self._numbers
        }
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._descriptor)
        os.close(self._reading)
        os.close(self._writing)

    def fileno(self) -> int:
        """Descriptor that is readable when a signal has arrived."""
        return self._reading

    def take(self) -> list[signal.Signals]:
        """The signals that arrived since the last call."""
        arrived: list[signal.Signals] = []
        with suppress(BlockingIOError):
            while data := os.read(self._reading, 4096):
                arrived += [signal.Signals(number) for number in data]
        return [number for number in arrived if number in self._numbers]
