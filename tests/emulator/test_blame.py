"""Findings: what is one cause and what is two, what is refused, what `main` and the host do."""

from __future__ import annotations

from collections.abc import Callable

from emulator.blame import Finding, blame, chain
from emulator.operands import Position
from emulator.program import Program
from tests.emulator.dense import DENSE, ROWS, TO_Y, WHOLE, Read, proved, task_of, text_at


def found(read: Read, body: str) -> tuple[Finding, ...]:
    return proved(read(body, **TO_Y), DENSE).findings


def test_two_faults_are_two_findings(read: Read) -> None:
    body = WHOLE.replace("load(b,", "load(c,").replace("(f, 32, 0", "(f, 0, 0")
    lines = {text_at(each.position).partition("(")[0] for each in found(read, body)}
    assert lines == {"b1 = pl.load", "r = pl.tile.extract"}


def test_the_finding_that_most_elements_are_wrong_by_comes_first(read: Read) -> None:
    body = WHOLE.replace("load(b,", "load(c,").replace("(f, 32, 0", "(f, 0, 0")
    counts = [each.elements for each in found(read, body)]
    assert counts == sorted(counts, reverse=True)
    assert counts == [32 * 64, 64]


def test_a_right_program_has_none(read: Read) -> None:
    assert blame(task_of(read(WHOLE, **TO_Y), DENSE)) == ()


def test_the_tensor_is_that_whose_sums_are_wrong(read: Read) -> None:
    (finding,) = found(read, WHOLE.replace("(f, 32, 0", "(f, 0, 0"))
    assert finding.tensor == "y"


def test_a_read_outside_a_tile_is_a_finding_with_its_round(read: Read) -> None:
    body = ROWS + "for k in pl.range(3):\n    a = pl.tile.extract(m, k * 32, 0, shape=[32, 64], @Left)\n"
    (finding,) = found(read, body + TAIL)
    assert finding.rounds == {"k": 2}
    assert "outside tile m" in finding.words


TAIL = """
r = pl.move(f, @Right)
whole = pl.move(m, @Left)
acc = pl.tile.matmul_bias(whole, r, bias)
y = pl.tile.fixpipe_store(acc, scale, y, [0, 0])
"""

PARTS = (
    ROWS
    + """
n = pl.tile.create([64, 64], pl.INT8, @Mat)
for part in pl.range(2):
    n = pl.tile.gather_row(n, x, dst_offset=[part * 32, 0], src_offset=[part * 32, 0], shapes=[32, 64])
"""
    + TAIL.replace("(m, @Left", "(n, @Left")
)


def test_what_is_read_and_was_never_written_is_explained_by_the_loop_that_is_short(read: Read) -> None:
    (finding,) = found(read, PARTS.replace("pl.range(2)", "pl.range(1)"))
    assert finding.operator == "for"
    assert text_at(finding.position).startswith("for part in")
    assert "nothing writes x[32, 0] to [32, 0] of n" in finding.words
    assert finding.hint is not None
    assert (finding.hint.operand, finding.hint.value, finding.hint.right) == ("stop", 1, 2)


def test_an_output_that_is_left_partly_unwritten_is_explained(read: Read) -> None:
    body = (
        ROWS
        + """
r = pl.move(f, @Right)
for half in pl.range(1):
    a = pl.tile.extract(m, half * 32, 0, shape=[32, 64], @Left)
    acc = pl.tile.matmul_bias(a, r, bias)
    y = pl.tile.fixpipe_store(acc, scale, y, [half * 32, 0])
"""
    )
    (finding,) = found(read, body)
    assert "nothing writes y[32, 0] to [32, 0] of y, the first of 2048 elements" in finding.words
    assert text_at(finding.position).startswith("for half in")


def test_rows_that_an_accumulator_leaves_out_are_explained_by_what_says_which_are_valid(read: Read) -> None:
    body = (
        ROWS
        + """
r = pl.move(f, @Right)
for half in pl.range(2):
    a = pl.tile.extract(m, half * 32, 0, shape=[32, 64], @Left)
    acc = pl.tile.matmul_bias(a, r, bias)
    acc = pl.tile.set_validshape(acc, 31, 64)
    y = pl.tile.fixpipe_store(acc, scale, y, [half * 32, 0])
"""
    )
    (finding,) = found(read, body)
    assert finding.operator == "tile.set_validshape"
    said = "only 31 of 32 rows leave acc: nothing writes y[31, 0] to [31, 0] of y, the first of 128 elements"
    assert said in finding.words
    assert finding.hint is not None
    assert (finding.hint.operand, finding.hint.value, finding.hint.right) == ("valid_rows", 31, 32)


def test_a_branch_that_is_never_taken_is_named(read: Read) -> None:
    body = PARTS.replace("    n = pl.tile.gather_row", "    if part == 0:\n        n = pl.tile.gather_row")
    (finding,) = found(read, body)
    assert finding.operator == "if"
    assert text_at(finding.position) == "if part == 0:"


MAIN = """
from __future__ import annotations

import emulator.language as pl


def build():
    @pl.program
    class Kernel:
        @pl.function(type=pl.FunctionType.InCore)
        def kernel(self, PARAMS):
BODY
            return y

        @pl.function(type=pl.FunctionType.Orchestration)
        def main(self, PARAMS):
            y = self.kernel(x, w, c, b, s, y)
            return y

    return Kernel
"""


def test_another_argument_of_main_is_named(read_module: Callable[[str], Program]) -> None:
    params = ", ".join(f"{name}: {annotation}" for name, annotation in TO_Y.items())
    body = WHOLE.replace("\n", "\n            ")
    program = read_module(MAIN.replace("PARAMS", params).replace("BODY", body))
    (finding,) = proved(program, DENSE).findings
    assert finding.operator == "call"
    assert text_at(finding.position) == "y = self.kernel(x, w, c, b, s, y)"
    assert "main passes c for b of kernel" in finding.words


def test_what_the_host_makes_is_no_fault_of_a_line(read: Read) -> None:
    tensors = {"packed" if name == "x" else name: annotation for name, annotation in TO_Y.items()}
    program = read(WHOLE.replace("load(x,", "load(packed,"), **tensors)
    ids = task_of(read(WHOLE, **TO_Y), DENSE).given["x"]
    assert proved(program, DENSE, packed=ids).wrong == 0
    twice = ids.copy()
    twice[32:] = twice[:32]
    (finding,) = proved(program, DENSE, packed=twice).findings
    assert finding.operator == "host"
    assert finding.words == "packed, which the host makes, does not hold x[32, 0], which is needed"


def test_a_line_is_named_with_those_that_called_it() -> None:
    called = Position("kernels/fused.py", 57, Position("kernels/fused.py", 127))
    assert chain(Position("kernels/blocks.py", 88, called)) == "blocks.py:88 < fused.py:57 < fused.py:127"


def test_a_finding_is_one_line() -> None:
    finding = Finding(Position("a/k.py", 3), "tile.extract", {"band": 3, "tile": 2}, "y", "it reads", 4)
    assert str(finding) == "extract, k.py:3, band 3, tile 2: it reads"
