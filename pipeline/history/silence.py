"""Connections to a PostgreSQL server that are given up when the server falls silent."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import Any

import psycopg


def impatient(seconds: float) -> Callable[..., psycopg.Connection[Any]]:
    """What connects as `psycopg.connect`; its connections are closed after so many seconds without an answer.

    The limits of the server do not help where it, or what lies between, does not answer at all.
    """

    class Impatient(psycopg.Connection[Any]):
        def wait(self, gen: Generator[Any, Any, Any], *given: Any, **named: Any) -> Any:
            return super().wait(self._in_time(gen), *given, **named)

        def _in_time(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
            try:
                wanted, heard = next(gen), time.monotonic()
                while True:
                    ready = yield wanted
                    now = time.monotonic()
                    if ready:
                        heard = now
                    elif now - heard > seconds:
                        self.close()
                        raise psycopg.OperationalError(f"the server has not answered for {seconds:g} s")
                    wanted = gen.send(ready)
            except StopIteration as end:
                return end.value

    return Impatient.connect
