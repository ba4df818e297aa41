from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from golden.geometry import Conv
from kernels.windows import window


@st.composite
def asked(draw: st.DrawFn) -> tuple[Conv, int, int, int, int]:
    """A convolution, output rows of it, the image's rows and a buffer that can hold what they read."""
    kernel, columns = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    sides = [draw(st.integers(0, of - 1)) for of in (kernel, kernel, columns, columns)]
    conv = Conv((kernel, columns), (draw(st.integers(1, 3)), 1), tuple(sides))
    size = draw(st.integers(max(1, kernel - sides[0] - sides[1]), 40))
    row = draw(st.integers(0, conv.out_height(size) - 1))
    rows = draw(st.integers(1, conv.out_height(size) - row))
    needed = min((rows - 1) * conv.stride_rows + kernel, size)
    return conv, row, rows, size, draw(st.integers(needed, size))


@given(asked())
def test_a_window_reads_the_rows_of_the_whole_image(case: tuple[Conv, int, int, int, int]) -> None:
    conv, row, rows, size, held = case
    found = window(conv, row, rows, size, held)
    top, bottom, left, right = found.padding
    assert found.rows == held
    assert 0 <= found.row <= size - held
    assert min(top, bottom) >= 0
    assert (left, right) == conv.sides[2:]
    assert (held + top + bottom - conv.kernel_rows) // conv.stride_rows + 1 >= found.skip + rows
    for number in range(rows):
        for tap in range(conv.kernel_rows):
            wanted = (row + number) * conv.stride_rows - conv.sides[0] + tap
            buffered = (found.skip + number) * conv.stride_rows - top + tap
            inside = 0 <= buffered < held
            assert inside == (0 <= wanted < size)
            if inside:
                assert found.row + buffered == wanted
