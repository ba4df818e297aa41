from __future__ import annotations

import pytest

from golden.geometry import MC62, Conv, ConvGeometry, GemmGeometry, Geometry, GeometryError

SAME = Conv(3, 1, 1)


def test_mc62_has_the_shapes_and_work_of_the_specification() -> None:
    assert (MC62.mid_height, MC62.mid_width) == (144, 56)
    assert (MC62.out_height, MC62.out_width) == (144, 56)
    assert (MC62.depth1, MC62.depth2) == (576, 576)
    assert MC62.macs == 594_542_592


@pytest.mark.parametrize(
    ("size", "conv", "wanted"),
    [(24, Conv(3, 2, 1), 12), (5, Conv(3, 1, 0), 3), (5, Conv(1, 3, 0), 2), (4, Conv(4, 7, 0), 1)],
)
def test_output_size(size: int, conv: Conv, wanted: int) -> None:
    assert conv.out_height(size) == conv.out_width(size) == wanted


@pytest.mark.parametrize(
    ("height", "width", "channels", "conv1", "conv2", "message"),
    [
        (24, 16, (48, 64, 64), SAME, SAME, "cin is 48: must be a positive multiple of 32"),
        (24, 16, (64, 0, 64), SAME, SAME, "cmid is 0"),
        (24, 16, (64, 64, -32), SAME, SAME, "cout is -32"),
        (24, 16, (64, 64, 64), Conv(3, 0, 1), SAME, r"conv1\.stride is 0"),
        (24, 16, (64, 64, 64), SAME, Conv(3, 256, 1), r"conv2\.stride is 256"),
        (24, 16, (64, 64, 64), Conv(3, 1, 3), SAME, r"conv1\.padding is 3: must be .* below the kernel"),
        (24, 16, (64, 64, 64), SAME, Conv(3, 1, -1), r"conv2\.padding is -1"),
        (24, 16, (64, 64, 64), Conv(0, 1, 0), SAME, r"conv1\.kernel is 0"),
        (2, 16, (64, 64, 64), SAME, SAME, "conv1 input height is 2: must be at least the kernel"),
        (24, 4, (64, 64, 64), Conv(3, 2, 0), SAME, "conv2 input width is 1"),
        (24, 10**9, (64, 64, 64), SAME, SAME, "width is 1000000000: must be 1..65535"),
        (0, 16, (64, 64, 64), SAME, SAME, "height is 0"),
        (24, 16, (14592, 64, 64), SAME, SAME, r"conv1 worst sum is 2151677952: .* below 2\*\*31"),
    ],
)
def test_refuses_with_field_value_and_rule(
    height: int, width: int, channels: tuple[int, int, int], conv1: Conv, conv2: Conv, message: str
) -> None:
    with pytest.raises(GeometryError, match=message):
        Geometry(height, width, *channels, conv1, conv2)


def test_the_largest_sum_that_fits_int32_is_accepted() -> None:
    assert Geometry(24, 16, 14560, 64, 64, SAME, SAME).depth1 * 128 * 128 < 2**31


def test_a_convolution_has_the_shapes_of_its_definition() -> None:
    geometry = ConvGeometry(24, 16, 64, 96, Conv(3, 2, 1))
    assert (geometry.out_height, geometry.out_width) == (12, 8)
    assert geometry.depth == 3 * 3 * 64
    assert geometry.macs == 12 * 8 * 3 * 3 * 64 * 96


@pytest.mark.parametrize(
    ("height", "width", "channels", "conv", "message"),
    [
        (24, 16, (48, 64), SAME, r"^cin is 48: must be a positive multiple of 32$"),
        (24, 16, (64, 0), SAME, r"^cout is 0: must be a positive multiple of 32$"),
        (65536, 16, (64, 64), SAME, r"^height is 65536: must be 1\.\.65535 \(16 bits\)$"),
        (24, 0, (64, 64), SAME, r"^width is 0: must be 1\.\.65535 \(16 bits\)$"),
        (24, 16, (64, 64), Conv(256, 1, 0), r"^conv\.kernel is 256: must be 1\.\.255$"),
        (24, 16, (64, 64), Conv(3, 0, 1), r"^conv\.stride is 0: must be 1\.\.255$"),
        (
            24,
            16,
            (64, 64),
            Conv(3, 1, 3),
            r"^conv\.padding is 3: must be at least 0 and below the kernel \(3\)",
        ),
        (24, 2, (64, 64), SAME, r"^conv input width is 2: must be at least the kernel \(3\)$"),
        (24, 16, (14592, 64), SAME, r"^conv worst sum is 2151677952: must be .* below 2\*\*31 \(int32\)$"),
    ],
)
def test_a_convolution_refuses_with_field_value_and_rule(
    height: int, width: int, channels: tuple[int, int], conv: Conv, message: str
) -> None:
    with pytest.raises(GeometryError, match=message):
        ConvGeometry(height, width, *channels, conv)


@pytest.mark.parametrize(
    ("m", "k", "n", "message"),
    [
        (24, 32, 32, "m is 24: must be a positive multiple of 16"),
        (0, 32, 32, "m is 0: must be a positive multiple of 16"),
        (16, 48, 32, "k is 48: must be a positive multiple of 32"),
        (16, -32, 32, "k is -32: must be a positive multiple of 32"),
        (16, 32, 48, "n is 48: must be a positive multiple of 32"),
        (16, 131072, 32, "k worst sum is 2147483648: must be k*128*128 below 2**31 (int32)"),
    ],
)
def test_a_product_refuses_with_field_value_and_rule(m: int, k: int, n: int, message: str) -> None:
    with pytest.raises(GeometryError) as caught:
        GemmGeometry(m, k, n)
    assert str(caught.value) == message


def test_the_deepest_product_that_fits_int32_is_accepted() -> None:
    assert GemmGeometry(16, 131040, 32).macs == 16 * 131040 * 32
