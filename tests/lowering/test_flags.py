from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest

from emulator.memory import place
from emulator.operands import DType, Position
from emulator.program import Call, Program, TileType
from emulator.soc import SOCS, Space
from lowering.check import Action, Set, Wait, actions, problems
from lowering.flags import Flag, Flags, needed, numbered
from lowering.instructions import Pipe
from lowering.minimise import UnprovedError, minimal, program_flags, sufficient
from lowering.trace import Area, Step, unroll
from workloads.conv_pair import WORKLOAD

A, B = Area("L1", 0, 64), Area("L1", 64, 128)
MTE1, MTE2, M, FIX = Pipe.MTE1, Pipe.MTE2, Pipe.M, Pipe.FIX
TILE = TileType((1, 64), DType.INT8, Space.Mat)


def call(line: int) -> Call:
    return Call(Position("k.py", line), f"t{line}", "load", {}, TILE)


LOAD, CUT, MULTIPLY = (call(line) for line in (1, 2, 3))


def step(call: Call, pipe: Pipe, write: Area, *reads: Area) -> Step:
    return Step(call, pipe, reads, write)


def said(run: Sequence[Action]) -> list[str]:
    return list(problems(run))


L0A = Area("L0A", 0, 64)
L0C = Area("L0C", 0, 64)
CHAIN = (step(LOAD, MTE2, A), step(CUT, MTE1, L0A, A), step(MULTIPLY, M, L0C, L0A))


def test_by_the_rule_an_instruction_waits_for_the_pipe_that_writes_what_it_reads() -> None:
    assert needed(CHAIN) == {id(LOAD): (), id(CUT): ((MTE2, MTE1),), id(MULTIPLY): ((MTE1, M),)}


def test_in_a_loop_it_also_waits_for_the_pipe_that_reads_what_it_writes() -> None:
    pairs = needed(CHAIN * 2)
    assert pairs[id(LOAD)] == ((MTE1, MTE2),)
    assert pairs[id(CUT)] == ((MTE2, MTE1), (M, MTE1))


@pytest.mark.parametrize(
    ("second", "waits"),
    [
        (step(CUT, MTE1, L0A, B), False),  # other bytes
        (step(CUT, MTE1, L0A, Area("L0B", 0, 64)), False),  # another memory
        (step(CUT, MTE1, L0A, Area("L1", 63, 65)), True),  # one byte
        (step(CUT, MTE1, A), True),  # both write
        (step(CUT, MTE2, L0A, A), False),  # the same pipe works in order
    ],
)
def test_only_a_conflict_between_pipes_needs_a_flag(second: Step, waits: bool) -> None:
    assert bool(needed((CHAIN[0], second))[id(CUT)]) is waits


def test_two_that_read_need_no_flag() -> None:
    reads = (step(CUT, MTE1, L0A, A), step(MULTIPLY, M, L0C, A))
    assert needed(reads) == {id(CUT): (), id(MULTIPLY): ()}


def test_what_was_waited_for_once_is_not_waited_for_again() -> None:
    again = (*CHAIN[:2], step(MULTIPLY, MTE1, Area("L0B", 0, 64), A))
    assert needed(again)[id(MULTIPLY)] == ()


def test_events_are_given_in_turn_to_each_pair_of_pipes() -> None:
    calls = [call(line) for line in range(10)]
    flags = numbered({id(each): ((MTE2, MTE1),) for each in calls} | {1: ((M, FIX),)})
    assert [flags[id(each)][0].event for each in calls] == [0, 1, 2, 3, 4, 5, 6, 7, 0, 1]
    assert flags[1] == (Flag(M, FIX, 0),)


# The checker: runs written by hand, so that it also sees what `actions` never makes.

TO_M = Flag(MTE1, M, 0)
CUTS, MULTIPLIES = CHAIN[1:]


def test_the_checker_wants_every_conflict_ordered() -> None:
    assert said([CUTS, Set(TO_M), Wait(TO_M), MULTIPLIES]) == []
    missing = said([CUTS, MULTIPLIES])
    assert missing == ["k.py:3 pl.load on PIPE_M may run before k.py:2 pl.load on PIPE_MTE1 has ended"]


def test_an_event_that_is_set_too_early_orders_nothing() -> None:
    assert len(said([Set(TO_M), CUTS, Wait(TO_M), MULTIPLIES])) == 1


def test_an_event_that_is_waited_for_too_late_orders_nothing() -> None:
    assert len(said([CUTS, Set(TO_M), MULTIPLIES, Wait(TO_M)])) == 1


def test_the_order_may_go_through_a_third_pipe() -> None:
    by_fix = [Set(one := Flag(MTE1, FIX, 0)), Wait(one), Set(two := Flag(FIX, M, 0)), Wait(two)]
    assert said([CUTS, *by_fix, MULTIPLIES]) == []
    assert said([CUTS, *by_fix[2:], *by_fix[:2], MULTIPLIES]) != []


def test_a_wait_for_what_nobody_sets_is_a_deadlock() -> None:
    assert said([CUTS, Wait(TO_M), MULTIPLIES]) == ["deadlock: PIPE_M waits for PIPE_MTE1 to PIPE_M, event 0"]


def test_two_pipes_that_wait_for_each_other_are_a_deadlock() -> None:
    back = Flag(M, MTE1, 0)
    (found,) = said([Wait(back), Set(TO_M), Wait(TO_M), Set(back)])
    assert found.startswith("deadlock: ")
    assert "PIPE_MTE1 waits" in found
    assert "PIPE_M waits" in found


def test_an_event_that_is_left_set_is_a_problem() -> None:
    assert said([CUTS, Set(TO_M)]) == ["PIPE_MTE1 to PIPE_M, event 0 is left set"]


def test_the_hardware_has_eight_events() -> None:
    for event, wrong in ((7, False), (8, True)):
        flag = Flag(MTE1, M, event)
        assert bool(said([CUTS, Set(flag), Wait(flag), MULTIPLIES])) is wrong


def test_an_event_is_set_again_only_after_it_was_certainly_taken_back() -> None:
    twice = [Set(TO_M), Wait(TO_M), Set(TO_M), Wait(TO_M)]
    assert said(twice) == ["PIPE_MTE1 to PIPE_M, event 0 is set again before it was certainly taken back"]
    back = Flag(M, MTE1, 0)
    assert said([*twice[:2], Set(back), Wait(back), *twice[2:]]) == []


def test_a_flag_in_a_loop_whose_source_is_idle_is_answered() -> None:
    """The first load is before the loop: the second round would set its event again."""
    run = (CHAIN[0], *CHAIN[1:], *CHAIN[1:])
    flags = sufficient(run)
    assert [(flag.source, flag.target) for flag in flags[id(CUT)]][:2] == [(MTE1, MTE2), (MTE2, MTE1)]
    assert said([*actions(run, flags)]) == []


def test_a_flag_that_others_imply_is_left_out() -> None:
    """The multiplication reads L1 too, which the cut that it waits for already waited for."""
    run = (*CHAIN[:2], step(MULTIPLY, M, L0C, L0A, A))
    flags = sufficient(run)
    assert {flag.source for flag in flags[id(MULTIPLY)]} == {MTE1, MTE2}
    fewer = minimal(run, flags)
    assert {flag.source for flag in fewer[id(MULTIPLY)]} == {MTE1}
    assert said([*actions(run, fewer)]) == []


# The shipped programs.

PROGRAMS = [program.name for program in WORKLOAD.programs]


def without(flags: Flags) -> Iterator[tuple[Flags, Flag, int]]:
    for key, own in flags.items():
        for flag in own:
            yield {**flags, key: tuple(each for each in own if each != flag)}, flag, key


@pytest.mark.parametrize("geometry", ["small", "resident", "slices", "planes"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_flag_of_a_program_is_needed_and_none_is_missing(
    name: str, geometry: str, program_of: Callable[..., Program]
) -> None:
    """Each flag that is removed, turned round or set on another pipe is caught."""
    program, capacity = program_of(name, geometry, band_rows=4), SOCS["a2a3"].capacity
    chosen = program_flags(program, SOCS["a2a3"])
    for function in program.functions.values():
        if function.orchestration:
            continue
        run, flags = unroll(function, place(function, capacity)), chosen[function.name]
        assert said([*actions(run, flags)]) == []
        assert any(flags.values())
        for fewer, flag, key in without(flags):
            assert next(problems([*actions(run, fewer)]), None), f"{flag} is not missed"
            turned = {**fewer, key: (*fewer[key], Flag(flag.target, flag.source, flag.event))}
            assert next(problems([*actions(run, turned)]), None), f"{flag} turned round is not missed"
            other = next(pipe for pipe in Pipe if pipe not in (flag.source, flag.target))
            wrong = [
                Set(replace(flag, source=other))
                if isinstance(each, Set) and each.flag == flag and each.call == key
                else each
                for each in actions(run, flags)
            ]
            assert next(problems(wrong), None), f"{flag} set by {other} is not missed"


def test_flags_that_are_not_proved_on_the_whole_run_are_refused(
    program_of: Callable[..., Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lowering.minimise.minimal", lambda steps, flags: {})
    with pytest.raises(UnprovedError, match=r"fused_conv2d\.py:\d+: event flags of fused are not proved: "):
        program_flags(program_of("fused"), SOCS["a2a3"])


def test_the_move_into_the_fixpipe_table_runs_on_the_fixpipe(program_of: Callable[..., Program]) -> None:
    program = program_of("fused")
    function = program.functions["fused"]
    run = unroll(function, place(function, SOCS["a2a3"].capacity), rounds=1)
    moves = {(each.write.memory, each.pipe) for each in run if each.call.operator == "move"}
    assert moves == {("fixpipe table", FIX), ("bias table", MTE1)}


def test_zeros_under_a_map_are_written_beside_its_loads_and_valid_rows_are_no_instruction(
    program_of: Callable[..., Program],
) -> None:
    """The headers run TFILLPAD of a tile in L1 on MTE2 (`Op::TFILLPAD_MAT`)."""
    program = program_of("fused", "blocks")
    function = program.functions["fused"]
    run = unroll(function, place(function, SOCS["a2a3"].capacity))
    padded = [each for each in run if each.call.operator == "tile.fillpad_inplace"]
    assert [(each.pipe, each.write.memory) for each in padded] == [
        (MTE2, "L1")
    ] * 4  # x and mid, in two bands
    assert not any(each.call.operator == "tile.set_validshape" for each in run)
    # In the second band mid must first have been read by the second convolution of the first.
    again = program_flags(program, SOCS["a2a3"])["fused"][id(padded[2].call)]
    assert [(flag.source, flag.target) for flag in again] == [(MTE1, MTE2)]


def test_a_run_has_every_instruction_of_every_round(program_of: Callable[..., Program]) -> None:
    """One band of 6 + 6 tiles: 9 and 18 steps of two loads to L0 and a product, and what is done once."""
    program = program_of("fused")
    function = program.functions["fused"]
    memory = place(function, SOCS["a2a3"].capacity)
    assert len(unroll(function, memory)) == 6 + 2 + 4 + 6 * (9 * 3 + 1) + 6 * (18 * 3 + 1)
    assert len(unroll(function, memory, rounds=2)) == 6 + 2 + 4 + 2 * (3 * 3 + 1) + 2 * (3 * 3 + 1)
