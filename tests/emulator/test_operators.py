from __future__ import annotations

from collections.abc import Callable

import pytest

from emulator.errors import TypeMismatchError
from emulator.operands import DType
from emulator.program import Call, Program, TileType
from emulator.soc import Space

Read = Callable[..., Program]

SETUP = """
m = pl.load(x, [0, 0], [64, 64], @Mat)
v = pl.load(x, [0, 0], [64, 64], @Vec)
b1 = pl.load(b, [0, 0], [1, 64], @Mat)
s1 = pl.load(s, [0, 0], [1, 64], @Mat)
bias = pl.move(b1, @Bias)
scale = pl.move(s1, @LeftScale)
left = pl.tile.extract(m, 0, 0, shape=[32, 64], @Left)
narrow = pl.tile.extract(m, 0, 0, shape=[32, 32], @Left)
right = pl.tile.extract(m, 0, 0, shape=[64, 64], @Right)
thin = pl.tile.extract(m, 0, 0, shape=[64, 16], @Right)
acc = pl.tile.matmul(left, right)
thin_acc = pl.tile.matmul(left, thin)
"""
WINDOW = "image_shape=(8, 8), kernel_size=(3, 3), stride=(1, 1), padding=(1, 1, 1, 1)"


def img2col(old: str = "", new: str = "", shape: str = "[16, 32]", source: str = "m") -> str:
    assert old in WINDOW
    return f"t = pl.tile.img2col({source}, 0, 0, {shape}, {WINDOW.replace(old, new)})"


TYPES = [
    ("t = pl.load(x, [0, 0], [32, 64], @Mat)", (32, 64), DType.INT8, Space.Mat),
    ("t = pl.load(s, [0, 0], [1, 3], @Mat)", (1, 3), DType.UINT64, Space.Mat),
    ("t = pl.load(b, [0, 0], [1, 64], @Vec)", (1, 64), DType.INT32, Space.Vec),
    ("t = pl.tile.create([3, 5], pl.FP32, @Vec)", (3, 5), DType.FP32, Space.Vec),
    ("t = pl.move(b1, @Bias)", (1, 64), DType.INT32, Space.Bias),
    ("t = pl.move(s1, @LeftScale)", (1, 64), DType.UINT64, Space.LeftScale),
    ("t = pl.move(m, @Left)", (64, 64), DType.INT8, Space.Left),
    ("t = pl.move(m, @Right)", (64, 64), DType.INT8, Space.Right),
    ("t = pl.tile.extract(m, 16, 32, shape=[48, 32], @Left)", (48, 32), DType.INT8, Space.Left),
    ("t = pl.tile.extract(m, 32, 16, shape=[32, 48], @Right)", (32, 48), DType.INT8, Space.Right),
    (img2col(), (16, 32), DType.INT8, Space.Left),
    ("t = pl.tile.matmul(left, right)", (32, 64), DType.INT32, Space.Acc),
    ("t = pl.tile.matmul_bias(left, right, bias)", (32, 64), DType.INT32, Space.Acc),
    ("acc = pl.tile.matmul_acc(acc, left, right)", (32, 64), DType.INT32, Space.Acc),
    ("m = pl.tile.fixpipe_requant(m, acc, scale, [16, 0])", (64, 64), DType.INT8, Space.Mat),
]


@pytest.mark.parametrize(("line", "shape", "dtype", "space"), TYPES, ids=[line for line, *_ in TYPES])
def test_every_operator_gives_its_type(
    read: Read, line: str, shape: tuple[int, int], dtype: DType, space: Space
) -> None:
    call = read(SETUP + line).functions["kernel"].body[-2]
    assert isinstance(call, Call)
    assert call.result == TileType(shape, dtype, space)


REFUSED = [
    ("t = pl.load(x, [0, 0], [40, 64], @Mat)", "rows of an L1 tile is 40: must be a positive multiple of 16"),
    (
        "t = pl.load(x, [0, 0], [32, 48], @Mat)",
        "columns of an L1 tile is 48: must be a positive multiple of 32",
    ),
    ("t = pl.load(b, [0, 0], [16, 64], @Mat)", "an L1 tile of several rows is int32: must be int8"),
    ("t = pl.load(x, [0, 0], [64, 64], @Left)", "target_memory is Left: must be Mat or Vec"),
    ("t = pl.load(x, [0, 0], [64], @Mat)", "shape [64]: a tile has two dimensions"),
    ("t = pl.load(x, [0, 0], [0, 64], @Vec)", "shape [0, 64]: must be positive"),
    ("t = pl.tile.create([16, 32], pl.INT32, @Acc)", "target_memory is Acc: must be Mat or Vec"),
    ("t = pl.move(v, @Bias)", "the source is in Vec (UB): must be in Mat"),
    ("t = pl.move(b1, @LeftScale)", "the row is int32: must be uint64"),
    ("t = pl.move(s1, @Bias)", "the row is uint64: must be int32"),
    ("t = pl.move(m, @Acc)", "target_memory is Acc: must be Left, Right, Bias or LeftScale"),
    ("t = pl.move(b1, @Left)", "the source is int32: must be int8"),
    (
        "u = pl.load(b, [0, 0], [1, 8], @Mat)\nt = pl.move(u, @Bias)",
        "bytes of the row is 32: must be a positive multiple of 64",
    ),
    (
        "u = pl.load(s, [0, 0], [1, 8], @Mat)\nt = pl.move(u, @LeftScale)",
        "bytes of the row is 64: must be a positive multiple of 128",
    ),
    ("t = pl.tile.extract(m, 0, 0, shape=[24, 32], @Left)", "M is 24: must be a positive multiple of 16"),
    ("t = pl.tile.extract(m, 0, 0, shape=[16, 16], @Left)", "K is 16: must be a positive multiple of 32"),
    ("t = pl.tile.extract(m, 0, 0, shape=[16, 32], @Right)", "K is 16: must be a positive multiple of 32"),
    ("t = pl.tile.extract(m, 0, 0, shape=[32, 8], @Right)", "N is 8: must be a positive multiple of 16"),
    ("t = pl.tile.extract(v, 0, 0, shape=[32, 32], @Right)", "the source is in Vec (UB): must be in Mat"),
    ("t = pl.tile.extract(m, 0, 0, shape=[32, 32], @Bias)", "target_memory is Bias: must be Left or Right"),
    ("t = pl.tile.extract(m, 0, 0, shape=[32], @Left)", "shape [32]: a tile has two dimensions"),
    (img2col(shape="[24, 32]"), "M is 24: must be a positive multiple of 16"),
    (img2col(shape="[16, 48]"), "K is 48: must be a positive multiple of 32"),
    (img2col(source="v"), "the source is in Vec (UB): must be in Mat"),
    (img2col("(8, 8)", "(8, 8, 1)"), "image_shape [8, 8, 1]: must be 2 numbers"),
    (img2col("(8, 8)", "(3, 8)"), "image rows x columns is 24: must be a positive multiple of 16"),
    (img2col("(8, 8)", "(4, 8)"), "the feature map has 64 rows: image_shape [4, 8] needs 32"),
    (img2col("(8, 8)", "(65536, 1)"), "image_shape [65536, 1]: sizes are 16-bit"),
    (img2col("(3, 3)", "(0, 3)"), "kernel_size and stride must be positive"),
    (img2col("(1, 1),", "(1, 0),"), "kernel_size and stride must be positive"),
    (img2col("(1, 1, 1, 1)", "(1, 1)"), "padding [1, 1]: must be 4 numbers"),
    (img2col("(1, 1, 1, 1)", "(256, 1, 1, 1)"), "padding [256, 1, 1, 1]: sizes are 8-bit"),
    (img2col("(1, 1, 1, 1)", "(-1, 1, 1, 1)"), "padding [-1, 1, 1, 1]: sizes are 8-bit"),
    (img2col("(3, 3)", "(11, 3)"), "kernel_size [11, 3]: must be at most the padded image [10, 10]"),
    ("t = pl.tile.matmul(right, right)", "the left operand is in Right (L0B): must be in Left"),
    ("t = pl.tile.matmul(left, left)", "the right operand is in Left (L0A): must be in Right"),
    ("t = pl.tile.matmul(narrow, right)", "K differs: left is [32, 32], right is [64, 64]"),
    (
        "t = pl.tile.matmul_bias(left, right, scale)",
        "the bias is in LeftScale (fixpipe table): must be in Bias",
    ),
    ("t = pl.tile.matmul_bias(left, thin, bias)", "the bias has 64 columns, the product 16"),
    ("left = pl.tile.matmul_acc(left, left, right)", "the accumulator is in Left (L0A): must be in Acc"),
    ("acc = pl.tile.matmul_acc(acc, left, thin)", "the accumulator is [32, 64], the product [32, 16]"),
    ("v = pl.tile.fixpipe_requant(v, acc, scale, [0, 0])", "the destination is in Vec (UB): must be in Mat"),
    ("b1 = pl.tile.fixpipe_requant(b1, acc, scale, [0, 0])", "the destination is int32: must be int8"),
    (
        "m = pl.tile.fixpipe_requant(m, left, scale, [0, 0])",
        "the accumulator is in Left (L0A): must be in Acc",
    ),
    (
        "m = pl.tile.fixpipe_requant(m, acc, bias, [0, 0])",
        "the scale is in Bias (bias table): must be in LeftScale",
    ),
    (
        "m = pl.tile.fixpipe_requant(m, thin_acc, scale, [0, 0])",
        "the scale has 64 columns, the accumulator 16",
    ),
    ("y = pl.tile.fixpipe_store(thin_acc, scale, y, [0, 0])", "the scale has 64 columns, the accumulator 16"),
    ("y = pl.store(acc, [0, 0], y)", "tile is int32, tensor int8: a plain store does not convert"),
    ("y = pl.store(left, [0, 0], y)", "the tile is in Left (L0A): must be in Vec or Mat or Acc"),
    (
        "b1 = pl.tile.gather_row(b1, x, dst_offset=[0, 0], src_offset=[0, 0], shapes=[1, 64])",
        "tile is int32, tensor int8",
    ),
    (
        "m = pl.tile.gather_row(m, x, dst_offset=[0, 0], src_offset=[0, 0], shapes=[16, 48])",
        "gathered columns is 48: must be a positive multiple of 32",
    ),
    (
        "m = pl.tile.gather_row(m, x, dst_offset=[0, 0], src_offset=[0, 0], shapes=[0, 32])",
        "shapes [0, 32]: must be two positive sizes",
    ),
    (
        "left = pl.tile.gather_row(left, x, dst_offset=[0, 0], src_offset=[0, 0], shapes=[16, 32])",
        "the destination is in Left (L0A): must be in Mat or Vec",
    ),
]


@pytest.mark.parametrize(("lines", "problem"), REFUSED, ids=[lines for lines, _ in REFUSED])
def test_what_does_not_fit_is_refused(read: Read, lines: str, problem: str) -> None:
    with pytest.raises(TypeMismatchError) as caught:
        read(SETUP + lines)
    error = caught.value
    assert error.problem == problem
    called = lines.splitlines()[-1].split(" = ")[1].split("(")[0]
    assert error.operator == called


def test_columns_that_go_back_to_nz_are_whole_c0(read: Read) -> None:
    body = """
    m = pl.load(x, [0, 0], [64, 64], @Mat)
    s1 = pl.load(s, [0, 0], [1, 48], @Mat)
    scale = pl.move(s1, @LeftScale)
    a = pl.tile.extract(m, 0, 0, shape=[16, 32], @Left)
    w1 = pl.tile.extract(m, 0, 0, shape=[32, 48], @Right)
    acc = pl.tile.matmul(a, w1)
    """
    read(body + "y = pl.tile.fixpipe_store(acc, scale, y, [0, 0])")
    with pytest.raises(TypeMismatchError, match="columns going back to int8 NZ is 48: must be a positive"):
        read(body + "m = pl.tile.fixpipe_requant(m, acc, scale, [0, 0])")


@pytest.mark.parametrize(("columns", "fits"), [(4080, True), (4096, False)])
def test_a_store_from_l0c_takes_at_most_4095_columns(read: Read, columns: int, fits: bool) -> None:
    body = f"""
    m = pl.load(x, [0, 0], [32, 32], @Mat)
    f = pl.load(w, [0, 0], [32, 4096], @Mat)
    a = pl.tile.extract(m, 0, 0, shape=[16, 32], @Left)
    r = pl.tile.extract(f, 0, 0, shape=[32, {columns}], @Right)
    acc = pl.tile.matmul(a, r)
    z = pl.store(acc, [0, 0], z)
    """
    tensors = {
        "x": "pl.Tensor[[32, 32], pl.INT8]",
        "w": "pl.Tensor[[32, 4096], pl.INT8]",
        "z": f"pl.Out[pl.Tensor[[16, {columns}], pl.INT32]]",
    }
    if fits:
        read(body, **tensors)
    else:
        with pytest.raises(TypeMismatchError, match=r"4096 columns: a store from L0C takes 1\.\.4095"):
            read(body, **tensors)


def test_tensors_have_two_dimensions(read: Read) -> None:
    with pytest.raises(TypeMismatchError, match=r"shape \[2, 16, 32\]: must have two dimensions"):
        read(
            "t = pl.load(x, [0, 0], [16, 32], @Mat)",
            x="pl.Tensor[[2, 16, 32], pl.INT8]",
            y="pl.Out[pl.Tensor[[16, 32], pl.INT8]]",
        )
