"""The reference convolution, exact to the bit.

torch is imported only when a convolution is computed, so that commands which compute none start quickly.
"""

from __future__ import annotations

import functools
import platform
import re
import sys
from typing import cast

import numpy as np

from golden import layout
from golden.errors import UserError
from golden.geometry import Conv
from golden.specs import Int8, Int32

_EXACT_IN_FP32 = 2**24
_LARGEST_PRODUCT = 128 * 128

_NO_MEMORY = re.compile(r"can't allocate memory: you tried to allocate \d+ bytes")
"""What torch raises a RuntimeError for if the host has no more memory."""


class TorchError(UserError):
    """torch cannot be imported; the message is one line: the reason, the Python, the remedy.

    Exit code 6 means that the host is at fault.
    """

    exit_code = 6


def convolve(rows: Int8, height: int, width: int, matrix: Int8, conv: Conv, groups: int = 1) -> Int32:
    """Convolve an image int8 [H*W, Cin] with a filter int8 [K, Cout] to int32 [Hout*Wout, Cout], exactly.

    With `groups` each group of output channels reads its group of input channels.

    The sums are formed in fp32, which is the fast path of every engine, and are still exact integers: no
    product exceeds 2**14, so if taps*channels*2**14 <= 2**24, every partial sum is an integer that
    fp32 holds, in any order of summation. If a sum has more channels, they are split into parts for which
    this is true, and the parts are added in int32. A kernel above 32x32 exceeds the bound with a single
    channel and is summed in double (2**53). So is what would have a part of one channel: in fp32, torch 2.13
    reads past the memory of an image of one channel for some kernels and strides.

    Raises:
        TorchError: torch is missing or broken.
        MemoryError: this host does not have the memory.
    """
    try:
        return _convolved(rows, height, width, matrix, conv, groups)
    except RuntimeError as error:
        if not (found := _NO_MEMORY.search(str(error))):
            raise
        raise MemoryError(f"torch {found.group()}") from error


def _convolved(rows: Int8, height: int, width: int, matrix: Int8, conv: Conv, groups: int) -> Int32:
    try:
        import torch
    except Exception as error:  # a broken installation may raise anything
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise TorchError(
            f"torch cannot be imported ({reason}): install it for {sys.executable} "
            f"(Python {platform.python_version()}) with pip install torch"
        ) from error

    channels = rows.shape[1]
    summed = channels // groups
    parts = _parts_in_fp32(summed, conv.taps, alone=groups == 1)
    kind = np.float32 if parts else np.float64
    parts = parts or 1
    # An NCHW view of NHWC memory is what torch calls channels_last; its result's memory is then NHWC as well.
    image = torch.from_numpy(rows.astype(kind)).view(1, height, width, channels).permute(0, 3, 1, 2)
    weights = torch.from_numpy(layout.matrix_to_filter(matrix, conv).astype(kind))
    dilation = conv.dilation_rows, conv.dilation_columns
    stride, (top, bottom, left, right) = (conv.stride_rows, conv.stride_columns), conv.sides
    around: tuple[int, int] | int = (top, left)
    if (top, left) != (bottom, right):  # conv2d pads opposite sides alike
        image, around = torch.nn.functional.pad(image, (left, right, top, bottom)), 0
    images = image.chunk(parts, 1)
    if groups > 1:  # the same part of each group
        split = image.view(1, groups, summed, *image.shape[2:]).chunk(parts, 2)
        images = tuple(part.flatten(1, 2) for part in split)
    with torch.inference_mode():
        sums = [
            torch.nn.functional.conv2d(
                part, taps, stride=stride, padding=around, dilation=dilation, groups=groups
            ).to(torch.int32)
            for part, taps in zip(images, weights.chunk(parts, 1), strict=True)
        ]
        total = functools.reduce(torch.add, sums).permute(0, 2, 3, 1)
    return cast(Int32, np.ascontiguousarray(total.reshape(-1, matrix.shape[1]).numpy()))


def _parts_in_fp32(channels: int, taps: int, *, alone: bool) -> int:
    """Into how many parts the channels of a sum are split, so that fp32 is exact; 0 if it is not to be used.

    Args:
        channels: of a group.
        taps: of the kernel.
        alone: whether there is one group.
    """
    exact = _EXACT_IN_FP32 // (_LARGEST_PRODUCT * taps)
    if not exact:
        return 0
    parts = -(-channels // exact)
    size = -(-channels // parts)  # as `chunk` splits: the last part has the rest
    return 0 if alone and 1 in (size, channels % size) else parts
