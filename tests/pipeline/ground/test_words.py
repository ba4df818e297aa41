from __future__ import annotations

from pipeline.ground.words import counted


def test_one_thing_is_told_from_none_and_from_several() -> None:
    assert [counted(count, "job") for count in (0, 1, 2)] == ["0 jobs", "1 job", "2 jobs"]
    assert counted(1, "mismatch", "mismatches") == "1 mismatch"
    assert counted(20, "mismatch", "mismatches") == "20 mismatches"
