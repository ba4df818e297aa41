"""What other windows of img2col would read what is demanded of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations, product
from math import prod
from typing import Any

import numpy as np

from emulator.backward import NOTHING, Suspicion
from emulator.backward.lookup import FAR, displacement
from emulator.elements import PADDING
from emulator.image import window_in
from emulator.repair.change import Change, replaced, same_constant
from emulator.soc import FRACTAL_DEPTH
from emulator.sources import leaves
from emulator.trace import Copy

AROUND = 3
"""How far from what it is a bound, a padding or a stride is tried."""


def windows(group: Sequence[Suspicion]) -> Iterator[Change]:
    """Other paddings, strides and image shapes of img2col under which the first rounds would be right."""
    suspicion = group[0]
    if suspicion.event.step.call.operator != "tile.img2col":
        return
    for operand in ("padding", "stride", "kernel_size", "image_shape"):
        for leaf in leaves(suspicion.event.step.call.written.get(operand, ())):
            for parts in _others(operand, leaf.value):
                value = parts.get(0, leaf.value) if isinstance(leaf.value, int) else leaf.value
                change = Change(operand, leaf, value, {} if isinstance(leaf.value, int) else parts)
                if all(_mends(each, change) for each in group[:8]):
                    yield replace(change, value=change.value_for(leaf))


def _others(operand: str, value: Any) -> Iterator[Mapping[int, int]]:
    """Other values, by the number of the list that changes; 0 for a number alone."""
    if isinstance(value, int):
        yield from ({0: other} for other in range(max(0, value - AROUND), value + AROUND) if other != value)
    elif operand == "image_shape":
        yield dict(enumerate(reversed(value)))
    elif operand == "padding":
        across, down = (
            [{first: one, first + 1: other} for one, other in product(*map(_near, value[first : first + 2]))]
            for first in (2, 0)
        )
        # Those that leave the output its width come first: only their windows are elsewhere. A band has no
        # more rows of padding than its windows read.
        yield from sorted(across, key=lambda pair: sum(pair.values()) != sum(value[2:]))
        yield from sorted(down, key=lambda pair: sum(pair.values()))
        yield from map(dict, map(enumerate, product(range(AROUND + 1), repeat=4)))
        yield from map(dict, map(enumerate, permutations(value)))
    else:
        around = [_near(number)[1:] for number in value]
        yield from (dict.fromkeys(range(len(value)), other) for other in around[0])
        yield from ({at: other} for at, others in enumerate(around) for other in others)
        yield from map(dict, map(enumerate, product(*around)))


def _near(number: int) -> list[int]:
    """Small numbers, and those around a larger one; 0 comes first."""
    small = range(AROUND + 1)
    return (
        [*small, *range(max(AROUND + 1, number - AROUND), number + AROUND + 1)]
        if number > AROUND
        else [*small]
    )


def _mends(suspicion: Suspicion, change: Change) -> bool:
    """Whether a change lets an img2col bring what is demanded of it, or does not concern it."""
    event = suspicion.event
    assert isinstance(event, Copy)
    assert suspicion.demand is not None
    call = event.step.call
    written = call.written.get(change.operand, ())
    own = [leaf for leaf in leaves(written) if same_constant(leaf, change.leaf)]
    if not own or not change.meets(own[0]):
        return bool(own)
    other = replaced(call, change.operand, own[0], change.value_for(own[0]))
    try:
        index = replace(event, step=replace(event.step, call=other)).index
        beyond = event.numbers["pos_m"] + len(index) > prod(window_in(other.operands).out)
    except ArithmeticError:
        return False
    if beyond or index.max() >= event.held.size:
        return False
    ids = np.where(index < 0, PADDING, event.held.reshape(-1)[index])
    return bool(((suspicion.demand == NOTHING) | (ids == suspicion.demand)).all())


def positions(event: Copy, suspicion: Suspicion) -> list[int | None]:
    """The values of `pos_m` that would read what is demanded, if that lies rows away, and if columns.

    `NOTHING` stands for any value, and None for none.
    """
    operands: Mapping[str, Any] = event.step.call.operands
    width, padding = operands["image_shape"][1], operands["padding"]
    out = (width + padding[2] + padding[3] - operands["kernel_size"][1]) // operands["stride"][1] + 1
    shift = _shift(event, suspicion)
    if shift is None or shift[1] not in (0, NOTHING):
        return [None, None]
    if shift[1]:
        return [NOTHING, NOTHING]
    down, right = shift[0] / (width * operands["stride"][0]) * out, shift[0] / operands["stride"][1]
    return [int(event.numbers["pos_m"] + move) if move == int(move) else None for move in (down, right)]


def steps(event: Copy, suspicion: Suspicion) -> list[int | None]:
    """The value of `pos_k`, another tap or plane, that would read what is demanded, as in `positions`."""
    operands: Mapping[str, Any] = event.step.call.operands
    (height, width), columns = operands["kernel_size"], operands["image_shape"][1]
    shift = _shift(event, suspicion)
    if shift is None:
        return [None]
    if shift[1] == NOTHING:
        return [NOTHING]
    down = round(shift[0] / columns)
    tap = down * width + shift[0] - down * columns
    plane = shift[1] // FRACTAL_DEPTH
    return [int(event.numbers["pos_k"] + FRACTAL_DEPTH * (plane * height * width + tap))]


def _shift(event: Copy, suspicion: Suspicion) -> tuple[int, int] | None:
    """Pixels and columns by which all that is demanded lies further in the image; None if they differ.

    `NOTHING` if no element is demanded.
    """
    assert suspicion.demand is not None
    use = (suspicion.demand != NOTHING) & (suspicion.demand > PADDING) & (event.index >= 0)
    if not use.any():
        return NOTHING, NOTHING
    moved = displacement(event.held, event.index[use], suspicion.demand[use])
    return None if moved == FAR else moved
