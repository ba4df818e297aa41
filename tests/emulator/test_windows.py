"""Which other window of img2col is proposed."""

from __future__ import annotations

import numpy as np
import pytest

from golden.terms import Sums
from tests.emulator.dense import SHAPES, SQUARE, TO_Z, Index, Read, proved


@pytest.mark.parametrize("wrong", [(2, 0, 0, 0), (0, 1, 0, 0)])
def test_a_band_is_said_to_have_no_more_padding_than_its_windows_read(
    read: Read, wrong: tuple[int, ...]
) -> None:
    """A window of 2 x 1 over 4 rows of 16 pixels, with a row of padding above; one below changes nothing."""

    def windows(rows: Index, depths: Index) -> Index:
        row = (rows // 16)[:, None] + depths // 32 - 1
        return np.where(row < 0, -1, (row * 16 + rows[:, None] % 16) * 32 + depths % 32)

    body = """
    m = pl.load(x, [0, 0], [64, 32], @Mat)
    f = pl.load(w, [0, 0], [64, 64], @Mat)
    r = pl.move(f, @Right)
    for part in pl.range(2):
        a = pl.tile.img2col(m, part * 32, 0, [32, 64], image_shape=(4, 16), kernel_size=(2, 1), stride=(1, 1),
                            padding=PADDING)
        acc = pl.tile.matmul(a, r)
        z = pl.store(acc, [part * 32, 0], z)
    """
    tensors = {**TO_Z, "x": "pl.Tensor[[64, 32], pl.INT8]"}
    block = Sums((64, 64, 64), ("x", windows), ("w", SQUARE), ("z", SQUARE))
    shapes = {**SHAPES, "x": (64, 32)}
    (finding,) = proved(read(body, f"PADDING = {wrong}", **tensors), block, shapes=shapes).findings
    assert finding.hint is not None
    assert (finding.hint.text, finding.hint.right) == ("PADDING", (1, 0, 0, 0))
