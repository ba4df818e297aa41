from __future__ import annotations

from collections.abc import Callable

from emulator.listing import listing
from emulator.program import Program

Read = Callable[..., Program]


def test_a_line_a_statement_with_every_constant_resolved(read: Read) -> None:
    program = read(
        """
        for i in pl.range(1, rows // 16):
            if i == 1:
                t = half(x, i)
            else:
                t = pl.load(x, [-i + 3, 0], [16, 64], @Mat)
            y = pl.store(t, [i * 16, 0], y)
        a = pl.load(x, [0, 0], [64, 64], @Mat)
        f = pl.tile.create([64, 32], pl.INT8, @Mat)
        f = pl.tile.gather_row(f, x, dst_offset=[0, 0], src_offset=[0, 32], shapes=[64, 32])
        """,
        """
        rows = 64

        @pl.inline
        def half(half_x, half_i):
            part = pl.load(half_x, [half_i * 2, 0], [16, rows], @Mat)
            return part
        """,
        x="pl.Tensor[[64, 64], pl.INT8]",
        y="pl.Out[pl.Tensor[[64, 64], pl.INT8]]",
    )
    file = program.position.file.rsplit("/", 1)[1]
    line = program.functions["kernel"].body[0].position.line

    def at(number: int) -> str:
        return f"  # {file}:{number}"

    shown = listing(program)
    assert shown == "\n".join(
        [
            f"program Kernel{at(program.position.line)}",
            "  incore kernel(x: 64x64 int8, y: out 64x64 int8)"
            + at(program.functions["kernel"].position.line),
            f"    for i in range(1, 4){at(line)}",
            f"      if (i == 1){at(line + 1)}",
            "        part = load(tensor=x, offsets=[(i * 2), 0], shape=[16, 64], target_memory=L1)"
            f" -> L1 16x64 int8{at(program.position.line - 4)}",
            f"        t = part{at(line + 2)}",
            "      else",
            "        t = load(tensor=x, offsets=[((0 - i) + 3), 0], shape=[16, 64], target_memory=L1)"
            f" -> L1 16x64 int8{at(line + 4)}",
            f"      y = store(tile=t, offsets=[(i * 16), 0], tensor=y){at(line + 5)}",
            "    a = load(tensor=x, offsets=[0, 0], shape=[64, 64], target_memory=L1)"
            f" -> L1 64x64 int8{at(line + 6)}",
            "    f = tile.create(shape=[64, 32], dtype=int8, target_memory=L1)"
            f" -> L1 64x32 int8{at(line + 7)}",
            "    f = tile.gather_row(tile=f, tensor=x, dst_offset=[0, 0], src_offset=[0, 32], "
            "shapes=[64, 32])" + at(line + 8),
            f"    return y{at(line + 10)}",
            "  orchestration main(x: 64x64 int8, y: out 64x64 int8)" + at(program.main.position.line),
            f"    y = kernel(x, y){at(program.main.position.line + 1)}",
            f"    return y{at(program.main.position.line + 2)}",
            "",
        ]
    )
