from __future__ import annotations

from dataclasses import asdict
from typing import Any

import msgspec
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


def test_a_rectangular_convolution_has_rows_columns_and_sides() -> None:
    conv = Conv((3, 5), (2, 1), (1, 0, 2, 4))
    assert (conv.kernel_rows, conv.kernel_columns, conv.taps) == (3, 5, 15)
    assert (conv.stride_rows, conv.stride_columns, conv.sides) == (2, 1, (1, 0, 2, 4))
    assert (conv.out_height(24), conv.out_width(16)) == (12, 18)
    assert ConvGeometry(24, 16, 64, 32, conv).depth == 15 * 64


def test_parts_that_are_alike_are_one_number() -> None:
    conv = Conv((3, 3), (2, 2), (1, 1, 1, 1))
    assert asdict(conv) == {"kernel": 3, "stride": 2, "padding": 1, "dilation": 1}
    assert (conv, hash(conv)) == (Conv(3, 2, 1), hash(Conv(3, 2, 1)))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"kernel": (3,)}, r"^kernel is \[3\]: must be a whole number or 2: rows, columns$"),
        ({"stride": (1, 2, 3)}, r"^stride is \[1, 2, 3\]: must be a whole number or 2: rows, columns$"),
        (
            {"padding": (1, 1)},
            r"^padding is \[1, 1\]: must be a whole number or 4: top, bottom, left, right$",
        ),
    ],
)
def test_another_number_of_parts_is_refused(parts: dict[str, Any], message: str) -> None:
    with pytest.raises(GeometryError, match=message):
        Conv(**parts)


def test_an_image_may_be_smaller_than_the_kernel_if_padding_makes_up_for_it() -> None:
    assert Geometry(1, 1, 32, 32, 32, SAME, SAME).out_height == 1
    assert ConvGeometry(1, 2, 32, 32, Conv((5, 4), 1, (4, 4, 2, 0))).out_height == 5


def test_an_image_may_be_smaller_than_a_dilated_window_if_each_has_a_pixel() -> None:
    """With a dilation beyond the image the middle tap alone meets it, as in a network on small images."""
    assert ConvGeometry(28, 20, 32, 32, Conv(3, 1, 36, 36)).out_height == 28
    assert Geometry(9, 9, 32, 32, 32, SAME, Conv(3, 2, 12, 12)).out_width == 5
    rule = "must be such that each window has a pixel: the one from -1 to 3 has none"
    with pytest.raises(GeometryError, match=f"^conv input height is 2: {rule}$"):
        ConvGeometry(2, 9, 32, 32, Conv(2, 1, (1, 3, 0, 0), 4))


def test_tensors_that_an_int32_cannot_count_are_refused() -> None:
    offsets = r"must be fewer than 2\*\*31 elements \(offsets in GM are int32\)$"
    with pytest.raises(
        GeometryError, match=rf"^x is 67173375 pixels x 32 channels, as the host packs it: {offsets}"
    ):
        ConvGeometry(65535, 1025, 3, 32, SAME)
    with pytest.raises(
        GeometryError, match=rf"^filter is 589536 of K x 65504 channels, as .* packs it: {offsets}"
    ):
        ConvGeometry(9, 9, 65504, 65504, SAME, 65504)
    with pytest.raises(GeometryError, match=rf"^mid is 33619455 pixels x 64 channels: {offsets}"):
        Geometry(65535, 513, 32, 64, 32, SAME, SAME)
    with pytest.raises(GeometryError, match=rf"^c is 65536 rows x 32768 columns: {offsets}"):
        GemmGeometry(65536, 32, 32768)
    assert GemmGeometry(65536, 32, 32736).m == 65536


@pytest.mark.parametrize(
    ("height", "width", "channels", "conv1", "conv2", "message"),
    [
        (24, 16, (-1, 64, 64), SAME, SAME, "cin is -1: must be 1..65504"),
        (24, 16, (64, 0, 64), SAME, SAME, "cmid is 0"),
        (24, 16, (64, 64, -32), SAME, SAME, "cout is -32"),
        (24, 16, (64, 64, 64), Conv(3, 0, 1), SAME, r"conv1\.stride is 0"),
        (24, 16, (64, 64, 64), SAME, Conv(3, 256, 1), r"conv2\.stride is 256"),
        (24, 16, (64, 64, 64), Conv(3, 1, 3), SAME, r"conv1\.padding is 3: must be .* below the kernel"),
        (24, 16, (64, 64, 64), SAME, Conv(3, 1, -1), r"conv2\.padding is -1"),
        (24, 16, (64, 64, 64), Conv(0, 1, 0), SAME, r"conv1\.kernel is 0"),
        (
            2,
            16,
            (64, 64, 64),
            Conv(3, 1, 0),
            SAME,
            r"conv1 input height is 2: must be at least the kernel \(3\)$",
        ),
        (
            2,
            16,
            (64, 64, 64),
            Conv((5, 3), 1, (1, 1, 0, 0)),
            SAME,
            r"conv1 input height is 2: .* the kernel \(5\) less the padding of both sides \(2\)$",
        ),
        (24, 4, (64, 64, 64), Conv(3, 2, 0), Conv(3, 1, (1, 1, 1, 0)), "conv2 input width is 1"),
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
        (24, 16, (-1, 64), SAME, r"^cin is -1: must be 1\.\.65504 \(whole blocks of 32 in 16 bits\)$"),
        (24, 16, (64, 65505), SAME, r"^cout is 65505: must be 1\.\.65504 "),
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
        (24, 2, (64, 64), Conv(3, 1, 0), r"^conv input width is 2: must be at least the kernel \(3\)$"),
        (24, 16, (64, 64), Conv((3, 256), 1, 0), r"^conv\.kernel \(columns\) is 256: must be 1\.\.255$"),
        (24, 16, (64, 64), Conv(3, (0, 1), 1), r"^conv\.stride \(rows\) is 0: must be 1\.\.255$"),
        (
            24,
            16,
            (64, 64),
            Conv(3, 1, (1, 1, 1, -1)),
            r"^conv\.padding \(right\) is -1: must be at least 0 and below the kernel \(3\)$",
        ),
        (
            24,
            16,
            (64, 64),
            Conv((1, 7), 1, (0, 1, 3, 3)),
            r"^conv\.padding \(bottom\) is 1: must be at least 0 and below the kernel's rows \(1\)$",
        ),
        (
            24,
            16,
            (64, 64),
            Conv((9, 7), 1, 7),
            r"^conv\.padding \(left\) is 7: must be at least 0 and below the kernel's columns \(7\)$",
        ),
        (24, 16, (64, 64), Conv(3, 1, 1, 0), r"^conv\.dilation is 0: must be 1\.\.255$"),
        (24, 16, (64, 64), Conv((1, 3), 1, 0, (9, 128)), r"^conv\.dilation is .*: must be small enough for"),
        (24, 16, (64, 64), Conv(3, 1, 5, 2), r"^conv\.padding is 5: must be .* below the window \(5\)$"),
        (24, 4, (64, 64), Conv(3, 1, 0, 2), r"^conv input width is 4: must be at least the window \(5\)$"),
        (24, 2, (64, 64), Conv(3, 1, 1, 2), r"^conv input width is 2: .* of both sides \(2\)$"),
        (24, 16, (14592, 64), SAME, r"^conv worst sum is 2151677952: must be .* below 2\*\*31 \(int32\)$"),
    ],
)
def test_a_convolution_refuses_with_field_value_and_rule(
    height: int, width: int, channels: tuple[int, int], conv: Conv, message: str
) -> None:
    with pytest.raises(GeometryError, match=message):
        ConvGeometry(height, width, *channels, conv)


@pytest.mark.parametrize("groups", [0, -1, 5, 8])
def test_groups_divide_the_channels_of_both_images(groups: int) -> None:
    with pytest.raises(GeometryError, match=rf"^groups is {groups}: must be a divisor of cin \(24\) and of"):
        ConvGeometry(24, 16, 24, 36, SAME, groups)


def test_a_sum_has_the_channels_of_one_group() -> None:
    depthwise = ConvGeometry(24, 16, 14592, 14592, SAME, 14592)
    assert depthwise.depth == 9
    assert depthwise.macs == 24 * 16 * 9 * 14592
    with pytest.raises(GeometryError, match="conv worst sum"):
        ConvGeometry(24, 16, 14592, 14592, SAME)


def test_a_dilated_convolution_has_the_shapes_of_its_windows() -> None:
    conv = Conv(3, 2, (4, 4, 0, 1), (4, 2))
    assert (conv.window_rows, conv.window_columns, conv.taps) == (9, 5, 9)
    assert (conv.out_height(24), conv.out_width(16)) == (12, 7)  # (32 - 9) / 2 + 1, (17 - 5) / 2 + 1
    assert ConvGeometry(24, 16, 40, 24, conv).macs == 12 * 7 * 9 * 40 * 24


def test_the_device_computes_whole_blocks_dense_and_without_dilation() -> None:
    device = ConvGeometry(24, 16, 33, 66, Conv(3, 1, 2, 2), 33).device
    assert (device.cin, device.cout, device.groups, device.conv) == (64, 96, 1, Conv(5, 1, 2))
    assert device.device is device
    pair = Geometry(24, 16, 1, 32, 100, Conv(3, 1, 2, 2), SAME).device
    assert (pair.cin, pair.cmid, pair.cout) == (32, 32, 128)
    assert (pair.conv1, pair.conv2) == (Conv(5, 1, 2), SAME)


def test_the_device_of_a_geometry_that_needs_no_packing_is_itself() -> None:
    conv = ConvGeometry(24, 16, 64, 96, Conv(3, 2, 1))
    assert conv.device is conv
    assert MC62.device is MC62
    # As a matrix is read: a shape that it leaves out is then an attribute of the class alone.
    read = msgspec.convert(
        {name: value for name, value in vars(conv).items() if name != "groups"}, ConvGeometry
    )
    assert read == conv
    assert read.device is read


def test_a_device_whose_zeros_pass_the_worst_sum_is_none_the_less_one() -> None:
    dilated = ConvGeometry(64, 64, 512, 512, Conv(3, 1, 12, 12))
    assert 25 * 25 * dilated.device.cin * 128 * 128 > 2**31


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
