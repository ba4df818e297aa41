from __future__ import annotations

from pipeline.ground.words import counted, listed


def test_one_thing_is_told_from_none_and_from_several() -> None:
    assert [counted(count, "job") for count in (0, 1, 2)] == ["0 jobs", "1 job", "2 jobs"]
    assert counted(1, "mismatch", "mismatches") == "1 mismatch"
    assert counted(20, "mismatch", "mismatches") == "20 mismatches"


def test_numbers_are_listed_in_short() -> None:
    assert listed([]) == ""
    assert listed([5, 37]) == "5, 37"
    assert listed([0, 1]) == "0, 1"
    assert listed(range(32)) == "0..31"
    assert listed(range(0, 64, 2)) == "0, 2, ..., 62"
    assert listed([0, 2, 4]) == "0, 2, 4"
    assert listed([3, *range(8, 12), 40]) == "3, 8..11, 40"
    assert listed([0, 1, 3, 8, 9, 11, 20, 21, 22]) == "0, 1, 3, 8, 9, 11 and 3 more"
