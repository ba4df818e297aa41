from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from golden import layout
from golden.draw import Draw
from golden.geometry import Conv

pytest.importorskip("torch", reason="torch is not installed")

from golden.reference import convolve


def in_int64(rows: np.ndarray, height: int, width: int, matrix: np.ndarray, conv: Conv) -> np.ndarray:
    planes = layout.nchw_to_nc1hwc0(rows.T.reshape(1, -1, height, width))
    windows = layout.img2col(planes, height, width, conv)
    return windows.astype(np.int64) @ matrix.astype(np.int64)


def alternating(shape: tuple[int, ...]) -> np.ndarray:
    """-128 and 127 in turn: large sums that nearly cancel, so what fp32 drops on the way stays visible."""
    return np.where(np.arange(np.prod(shape)) % 2, 127, -128).astype(np.int8).reshape(shape)


@pytest.mark.parametrize(
    ("channels", "kernel"), [(96, 3), (128, 3), (256, 3), (1152, 1), (64, 5), (32, 32), (32, 33), (32, 61)]
)
@pytest.mark.parametrize("values", ["lowest", "alternating", "lowest against alternating", "large"])
def test_sums_are_exact_beyond_what_fp32_holds(channels: int, kernel: int, values: str) -> None:
    size = kernel + 1
    shape, taps_shape = (size * size, channels), (kernel * kernel * channels, 32)
    rows = np.full(shape, -128, np.int8) if values.startswith("lowest") else alternating(shape)
    taps = alternating(taps_shape) if values.endswith("alternating") else np.full(taps_shape, -128, np.int8)
    if values == "large":  # sums of either parity: above 2**24 fp32 has no odd ones
        rows, taps = np.full(shape, 127, np.int8), Draw(0).integers(125, 127, taps_shape).astype(np.int8)
    conv = Conv(kernel, 1, min(1, kernel - 1))
    sums = convolve(rows, size, size, taps, conv)
    assert sums.dtype == np.int32
    assert np.array_equal(sums, in_int64(rows, size, size, taps, conv))


@pytest.mark.parametrize(
    ("height", "width", "channels", "conv"),
    [
        (9, 8, 1, Conv(4, (1, 5), 0)),
        (30, 25, 3, Conv(24, (1, 2), 0)),  # so many taps that fp32 holds the sums of one channel at a time
        (4, 4, 1, Conv((7, 5), (1, 3), (6, 5, 1, 4))),
    ],
)
def test_sums_of_one_channel_are_exact_whatever_lies_beside_it(
    height: int, width: int, channels: int, conv: Conv
) -> None:
    """A library that reads past the image finds other numbers there each time."""
    draw = Draw(3)
    rows = draw.integers(-128, 127, (height * width, channels)).astype(np.int8)
    taps = draw.integers(-128, 127, (conv.taps * channels, 2)).astype(np.int8)
    image = np.pad(rows.reshape(height, width, channels), (conv.sides[:2], conv.sides[2:], (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(
        image.astype(np.int64), (conv.kernel_rows, conv.kernel_columns), (0, 1)
    )[:: conv.stride_rows, :: conv.stride_columns]
    own = taps.reshape(conv.kernel_rows, conv.kernel_columns, channels, 2)
    wanted = np.einsum("hwcij,ijcn->hwn", windows, own.astype(np.int64)).reshape(-1, 2)
    for size in range(20):
        beside = np.full(1000 + 37 * size, 1e6, np.float32)
        del beside
        assert np.array_equal(convolve(rows, height, width, taps, conv), wanted)


def test_memory_that_torch_does_not_get_is_missed_as_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.nn.functional, "conv2d", lambda *_, **__: torch.empty(10**15))
    with pytest.raises(
        MemoryError, match=r"^torch can't allocate memory: you tried to allocate 4000000000000000"
    ):
        convolve(np.ones((4, 1), np.int8), 2, 2, np.ones((1, 1), np.int8), Conv(1, 1, 0))


def test_torch_is_not_imported_before_a_convolution_is_computed() -> None:
    ours = "golden.cache, golden.inputs, golden.conv_pair, golden.conv, golden.gemm"
    code = f"import sys, {ours}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
