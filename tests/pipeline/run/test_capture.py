from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipeline.run.keeper import Capture


@given(pieces=st.lists(st.binary(max_size=30)), kept=st.integers(1, 20))
def test_output_is_whole_or_head_gap_and_tail(pieces: list[bytes], kept: int) -> None:
    capture = Capture(kept)
    for piece in pieces:
        capture.feed(piece)
    whole = b"".join(pieces)
    text = capture.text()
    if len(whole) <= 2 * kept:
        assert text == whole.decode("utf-8", "backslashreplace")
        return
    gap = f"\n[... {len(whole) - 2 * kept} of {len(whole)} bytes left out ...]\n".encode()
    assert text == (whole[:kept] + gap + whole[-kept:]).decode("utf-8", "backslashreplace")


def test_size_of_a_big_gap_is_readable() -> None:
    capture = Capture(4)
    for _ in range(50):
        capture.feed(b"x" * 1_000_000)
    assert capture.text() == "xxxx\n[... 49,999,992 of 50,000,000 bytes left out ...]\nxxxx"
