"""Why a sum, or what became of it, is not as defined: the first thing that is wrong, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from emulator.elements import PADDING
from emulator.sums import Accumulator, Found, Step, blocks_of, middle, split, voted
from emulator.terms import Numbering


class FlawError(Exception):
    """Why a value is wrong, in words; `source` is the id of the wrong value that was read, if that is why."""

    def __init__(self, step: Step, words: str, source: int = PADDING) -> None:
        super().__init__(f"{step}, {words}")
        self.step, self.words = step, words
        self.source = min(source, PADDING)


def table_flaw(
    numbering: Numbering, step: Step, sums: Sequence[Found], value: int, entry: int, column: int
) -> FlawError:
    """Why a good sum is requantised wrongly.

    Args:
        numbering: the ids.
        step: the operator that requantises it.
        sums: the sums of its accumulator.
        value: its id.
        entry: the id of the entry that it is requantised with.
        column: its column of the accumulator.
    """
    name = numbering.name
    for found in sums:
        if column in found.at and found.block.table is not None:
            wanted = int(found.block.table[found.columns[found.at == column][0]])
            return FlawError(step, f"{name(value)} takes {name(entry)}, must take {name(wanted)}")
    return FlawError(step, f"{name(value)} is requantised, but is defined as it is")


def sum_flaw(numbering: Numbering, accumulator: Accumulator, row: int, column: int) -> FlawError:
    """Why the sum at a place of an accumulator is none that is defined."""
    name, left, right = numbering.name, accumulator.left[row], accumulator.right[:, column]
    steps = [product.step for product in accumulator.products for _ in range(product.left.shape[1])]
    codes = numbering.codes(right)
    blocks = blocks_of(numbering, codes[:, None])
    if not blocks:
        return FlawError(
            steps[0], f"the right operand {name(int(right[0]))} is a term of no sum", int(right[0])
        )
    block = blocks[0][0]
    depths, columns, own = split(block, codes)
    meant = int(middle(columns, own, 0)[0])
    position = voted(block, left, depths, own)
    if position < 0:
        place = int((left < PADDING if (left < PADDING).any() else left > PADDING).argmax())
        has, other = int(left[place]), int(right[place])
        if has < PADDING:
            return FlawError(steps[place], f"{name(other)} is multiplied by {name(has)}", has)
        return FlawError(steps[place], f"{name(has)} x {name(other)} is a term of no sum")
    the_sum = f"the sum of {name(int(block.result(np.array([position]), np.array([meant]))[0, 0]))}"
    of_sum = f"in {the_sum}, "
    wanted = block.left(np.array([position]), np.arange(block.depth))[0]
    seen: Counter[int] = Counter()
    for step, has, other, depth, of, mine in zip(
        steps, *map(np.ndarray.tolist, (left, right, depths, columns, own)), strict=True
    ):
        if other == PADDING or (has == PADDING and not (mine and wanted[depth])):
            continue
        if not mine or of != meant:
            return FlawError(
                step, f"{of_sum}the right operand {name(other)} is none of column {meant}", other
            )
        if has != wanted[depth]:
            needs = name(int(wanted[depth]))
            return FlawError(
                step, f"{of_sum}{name(other)} is multiplied by {name(has)}, it must be {needs}", has
            )
        seen[depth] += 1
        if seen[depth] > 1:
            return FlawError(step, f"{of_sum}{name(has)} x {name(other)} is added a second time")
    missing = [depth for depth in np.flatnonzero(wanted).tolist() if not seen[depth]]
    if missing:
        first = name(int(wanted[missing[0]]))
        return FlawError(steps[-1], f"{of_sum}{len(missing)} terms are missing, the first is that of {first}")
    begins = "no bias" if accumulator.bias is None else name(int(accumulator.bias[column]))
    must = "none" if block.bias is None else name(int(block.bias[meant]))
    return FlawError(steps[0], f"{the_sum} begins with {begins}, it must be {must}")
