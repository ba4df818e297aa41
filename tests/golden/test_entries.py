from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden import entries
from golden.entries import CorruptEntryError


@given(st.text(max_size=9), st.binary(min_size=1, max_size=50), st.data())
def test_an_entry_is_the_one_that_was_sealed_or_none(key: str, payload: bytes, data: st.DataObject) -> None:
    content = entries.sealed(key, payload)
    assert bytes(entries.payload_of(key, content)) == payload
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    flipped = bytearray(content)
    flipped[bit // 8] ^= 1 << bit % 8
    wrong = [(key, bytes(flipped)), (key, content[:-1]), (key, b""), (f"{key}a", content)]
    for name, other in wrong:
        with pytest.raises(CorruptEntryError):
            entries.payload_of(name, other)


def test_each_kind_of_entry_has_a_limit_of_its_own(tmp_path: Path) -> None:
    now = datetime.now(timezone.utc)
    for name in ("a.one", "b.two", "c.other"):
        entries.write(tmp_path / name, b"12345")
    entries.prune(tmp_path, {".one": 5, ".two": 4}, max_age=timedelta(days=1), now=now)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.one", "c.other"]
    entries.prune(tmp_path, {".one": 5}, max_age=timedelta(days=1), now=now + timedelta(days=2))
    assert [path.name for path in tmp_path.iterdir()] == ["c.other"]
