"""Bounded capture of a job's output: its first and last bytes, and its size."""

from __future__ import annotations

from pipeline.run.messages import plain_text

KEPT = 32 * 1024
"""Bytes kept of the head, and the same number of the tail."""


class Capture:
    """Captures any amount of output in constant memory."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._head = bytearray()
        self._tail = bytearray()
        self.size = 0

    def feed(self, data: bytes) -> None:
        """Add the next piece of output."""
        self.size += len(data)
        room = self._kept - len(self._head)
        self._head += data[:room]
        self._tail += data[room:] if room > 0 else data
        del self._tail[: -self._kept]

    def text(self) -> str:
        """Head and tail as text; if bytes between them were left out, a line there says how many."""
        missing = self.size - len(self._head) - len(self._tail)
        gap = f"\n[... {missing:,} of {self.size:,} bytes left out ...]\n".encode() if missing else b""
        return plain_text(bytes(self._head) + gap + bytes(self._tail))
