from __future__ import annotations

from pipeline.ground.words import close_or_all, closest, counted, listed, unbroken


def test_one_thing_is_told_from_none_and_from_several() -> None:
    assert [counted(count, "job") for count in (0, 1, 2)] == ["0 jobs", "1 job", "2 jobs"]
    assert counted(1, "mismatch", "mismatches") == "1 mismatch"
    assert counted(20, "mismatch", "mismatches") == "20 mismatches"


def test_only_a_name_that_is_close_is_guessed() -> None:
    shipped = [f"stride-2-{number}" for number in range(20)]
    assert closest("stride2-7", shipped) == "the closest known name is `stride-2-7`"
    assert closest("mine", shipped) == "no known name is close to it"
    assert closest("mine", shipped[:2]) == "write one of `stride-2-0`, `stride-2-1`"
    assert closest("--plat", ["--plan", "--platform"]) == "the closest known name is `--platform`"
    assert closest("--geo", ["--ego", "--geometry"]) == "the closest known name is `--geometry`"
    assert closest("mine", []) == "none is known"
    assert close_or_all("mine", shipped).endswith("`stride-2-18`, `stride-2-19`")


def test_nothing_that_a_line_quotes_moves_the_cursor_or_turns_the_text() -> None:
    assert unbroken("a\nb\x1b[2Jc\u202ed\udcff\u2028e") == r"a b\x1b[2Jc\u202ed\udcff e"
    assert unbroken("Ångström 漢字 … `x`") == "Ångström 漢字 … `x`"


def test_numbers_are_listed_in_short() -> None:
    assert listed([]) == ""
    assert listed([5, 37]) == "5, 37"
    assert listed([0, 1]) == "0, 1"
    assert listed(range(32)) == "0..31"
    assert listed(range(0, 64, 2)) == "0, 2, ..., 62"
    assert listed([0, 2, 4]) == "0, 2, 4"
    assert listed([3, *range(8, 12), 40]) == "3, 8..11, 40"
    assert listed([0, 1, 3, 8, 9, 11, 20, 21, 22]) == "0, 1, 3, 8, 9, 11 and 3 more"
