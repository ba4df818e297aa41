"""The tensor-level kernels, as CANN's PyPTO compiles them: the pair's, one convolution, a matrix product.

Each factory is handed the package as `pypto`, the shapes, a tiling and the options of the jit decorator, and
returns the kernel; its parameters are the operands that the host makes, by name, the output last.

The front end reads the source of a kernel. Parameters are annotated with values, not types; there must not be
a return annotation; and this module cannot postpone annotations. Helpers are called while the graph is built
and may be plain Python.
"""
# mypy: disable-error-code="valid-type, untyped-decorator, no-untyped-def"
# ruff: noqa: ANN202

from collections.abc import Callable, Mapping
from typing import Any

from golden.geometry import ConvGeometry, GemmGeometry, Geometry
from kernels.tensor.canvas import Canvas
from kernels.tensor.plan import GemmTiling, Product, Tiling

Options = Mapping[str, Any]


def build_fused(pypto: Any, geometry: Geometry, tiling: Tiling, options: Options) -> Any:
    """One launch for the pair; mid is internal: conv1's requantisation writes it as conv2's windows.

    Rows of the canvas that are not mid pixels have an all-zero img2col row, and `mask` (1 for pixels, else 0)
    turns their requantised bias into the zero padding.
    """
    canvas = tiling.canvas(geometry)
    rows, depth1, cmid = canvas.rows, geometry.depth1, geometry.cmid
    out_rows, depth2, cout = canvas.out_rows, geometry.depth2, geometry.cout
    conv1, conv2 = tiling.conv1, tiling.conv2

    @pypto.frontend.jit(**options)
    def fused(
        columns: pypto.Tensor((rows, depth1), pypto.DT_INT8),
        mask: pypto.Tensor((rows, 1), pypto.DT_FP32),
        filter1: pypto.Tensor((depth1, cmid), pypto.DT_INT8),
        bias1: pypto.Tensor((1, cmid), pypto.DT_INT32),
        scale1: pypto.Tensor((1, cmid), pypto.DT_FP32),
        offset1: pypto.Tensor((1, cmid), pypto.DT_FP32),
        filter2: pypto.Tensor((depth2, cout), pypto.DT_INT8),
        bias2: pypto.Tensor((1, cout), pypto.DT_INT32),
        scale2: pypto.Tensor((1, cout), pypto.DT_FP32),
        offset2: pypto.Tensor((1, cout), pypto.DT_FP32),
        y: pypto.Tensor((out_rows, cout), pypto.DT_INT8),
    ):
        acc1 = product(pypto, columns, filter1, conv1)
        windows = new_windows(pypto, canvas, depth2)
        for row in range(0, rows, conv1.vec_rows):
            begin_task(pypto, row)
            value = scaled(pypto, band(pypto, acc1, row, conv1.vec_rows), bias1, scale1, offset1)
            padded = pypto.mul(value, band(pypto, mask, row, conv1.vec_rows))
            spread(pypto, canvas, saturated(pypto, padded), row, windows)
        end_tasks(pypto)
        acc2 = product(pypto, cut(pypto, canvas, windows), filter2, conv2)
        requantised(pypto, acc2, conv2.vec_rows, bias2, scale2, offset2, y, rows)

    return fused


def build_pass1(pypto: Any, geometry: Geometry, tiling: Tiling, options: Options) -> Any:
    """The first of two launches: the whole mid image, NHWC rows."""
    rows, depth1, cmid = geometry.mid_height * geometry.mid_width, geometry.depth1, geometry.cmid
    conv1 = tiling.conv1

    @pypto.frontend.jit(**options)
    def pass1(
        columns: pypto.Tensor((rows, depth1), pypto.DT_INT8),
        filter1: pypto.Tensor((depth1, cmid), pypto.DT_INT8),
        bias1: pypto.Tensor((1, cmid), pypto.DT_INT32),
        scale1: pypto.Tensor((1, cmid), pypto.DT_FP32),
        offset1: pypto.Tensor((1, cmid), pypto.DT_FP32),
        mid: pypto.Tensor((rows, cmid), pypto.DT_INT8),
    ):
        acc1 = product(pypto, columns, filter1, conv1)
        requantised(pypto, acc1, conv1.vec_rows, bias1, scale1, offset1, mid)

    return pass1


def build_pass2(pypto: Any, geometry: Geometry, tiling: Tiling, options: Options) -> Any:
    """The second of two launches: conv2 on the canvas that the host made of mid."""
    canvas = tiling.canvas(geometry)
    rows, cmid = canvas.rows, geometry.cmid
    out_rows, depth2, cout = canvas.out_rows, geometry.depth2, geometry.cout
    spread_rows, conv2 = tiling.spread_rows, tiling.conv2

    @pypto.frontend.jit(**options)
    def pass2(
        mid: pypto.Tensor((rows, cmid), pypto.DT_INT8),
        filter2: pypto.Tensor((depth2, cout), pypto.DT_INT8),
        bias2: pypto.Tensor((1, cout), pypto.DT_INT32),
        scale2: pypto.Tensor((1, cout), pypto.DT_FP32),
        offset2: pypto.Tensor((1, cout), pypto.DT_FP32),
        y: pypto.Tensor((out_rows, cout), pypto.DT_INT8),
    ):
        windows = new_windows(pypto, canvas, depth2)
        pypto.set_vec_tile_shapes(spread_rows, cmid)
        for row in range(0, rows, spread_rows):
            begin_task(pypto, row)
            tile = copied(pypto, band(pypto, mid, row, spread_rows))
            spread(pypto, canvas, tile, row, windows)
        end_tasks(pypto)
        acc2 = product(pypto, cut(pypto, canvas, windows), filter2, conv2)
        requantised(pypto, acc2, conv2.vec_rows, bias2, scale2, offset2, y, rows)

    return pass2


def build_conv(pypto: Any, geometry: ConvGeometry, tiling: Product, options: Options) -> Any:
    """One convolution as `pass1` computes it: a product on the host's img2col, requantised."""
    rows, depth, cout = geometry.out_height * geometry.out_width, geometry.depth, geometry.cout

    @pypto.frontend.jit(**options)
    def conv(
        columns: pypto.Tensor((rows, depth), pypto.DT_INT8),
        filter: pypto.Tensor((depth, cout), pypto.DT_INT8),
        bias: pypto.Tensor((1, cout), pypto.DT_INT32),
        scale: pypto.Tensor((1, cout), pypto.DT_FP32),
        offset: pypto.Tensor((1, cout), pypto.DT_FP32),
        y: pypto.Tensor((rows, cout), pypto.DT_INT8),
    ):
        acc = product(pypto, columns, filter, tiling)
        requantised(pypto, acc, tiling.vec_rows, bias, scale, offset, y)

    return conv


def build_gemm(pypto: Any, geometry: GemmGeometry, tiling: GemmTiling, options: Options) -> Any:
    """The plain product c = a @ b; its int32 sums go from the cube to GM without the vector unit."""
    m, k, n = geometry.m, geometry.k, geometry.n

    @pypto.frontend.jit(**options)
    def gemm(
        a: pypto.Tensor((m, k), pypto.DT_INT8),
        b: pypto.Tensor((k, n), pypto.DT_INT8),
        c: pypto.Tensor((m, n), pypto.DT_INT32),
    ):
        set_cube_tiles(pypto, tiling.cube_rows, tiling.cube_columns, tiling)
        pypto.assemble(pypto.matmul(a, b, pypto.DT_INT32), [0, 0], c)

    return gemm


def product(pypto: Any, left: Any, right: Any, tiles: Product) -> Any:
    """The int32 product of int8 `left` [M, K] and `right` [K, N]; sets the tiles for it and what follows."""
    columns = right.shape[1]
    set_cube_tiles(pypto, tiles.cube_rows, columns, tiles)
    pypto.set_vec_tile_shapes(tiles.vec_rows, columns)
    return pypto.matmul(left, right, pypto.DT_INT32)


def set_cube_tiles(pypto: Any, rows: int, columns: int, tiles: Product | GemmTiling) -> None:
    """Set the tiles of the matrix products that follow: rows and columns of a task, and its steps of K."""
    pypto.set_cube_tile_shapes([rows, rows], [tiles.k_step, tiles.k_depth], [columns, columns])


def scaled(pypto: Any, acc: Any, bias: Any, scale: Any, offset: Any) -> Any:
    """`f32(acc + bias) * scale + offset`, every step in fp32: VREQ8 before rounding."""
    exact = pypto.cast(pypto.add(acc, bias), pypto.DT_FP32)
    return pypto.add(pypto.mul(exact, scale), offset)


def saturated(pypto: Any, value: Any) -> Any:
    """Fp32 to int8, half to even, saturating.

    The value is clipped first: the bounds are integers, so it stays within them when it is rounded, and no
    value is too large for the cast. The unit has no cast from int32 to int8, so it goes by way of fp32 and
    fp16, which hold every 8-bit integer exactly.
    """
    clipped = pypto.clip(value, -128.0, 127.0)
    rounded = pypto.cast(clipped, pypto.DT_INT32, pypto.CastMode.CAST_RINT)
    return pypto.cast(pypto.cast(pypto.cast(rounded, pypto.DT_FP32), pypto.DT_FP16), pypto.DT_INT8)


def requantised(
    pypto: Any,
    acc: Any,
    vec_rows: int,
    bias: Any,
    scale: Any,
    offset: Any,
    output: Any,
    first_task: int = 0,
) -> None:
    """Requantise int32 sums [R, C] into the int8 `output`, with `vec_rows` rows in each task.

    Tasks are numbered by their first row, from `first_task` on.
    """
    for row in range(0, output.shape[0], vec_rows):
        begin_task(pypto, first_task + row)
        value = scaled(pypto, band(pypto, acc, row, vec_rows), bias, scale, offset)
        pypto.assemble(saturated(pypto, value), [row, 0], output)


def copied(pypto: Any, tile: Any) -> Any:
    """A copy of an int8 tile.

    A view that is assembled without a copy becomes an alias: the compiler then puts all of the windows at the
    address of the viewed tensor, which is smaller.
    """
    return pypto.cast(pypto.cast(tile, pypto.DT_FP16), pypto.DT_INT8)


def begin_task(pypto: Any, number: int) -> None:
    """Make one task of the operations that follow.

    By itself the compiler forms tasks by counting equal groups of operations: one odd tile can double them.
    """
    pypto.set_pass_options(sg_set_scope=number)


def end_tasks(pypto: Any) -> None:
    """Leave the tasks of the operations that follow to the compiler."""
    pypto.set_pass_options(sg_set_scope=-1)


def band(pypto: Any, tensor: Any, row: int, rows: int) -> Any:
    """`rows` rows of a tensor [R, C] from `row` on, or as many as there are."""
    return pypto.view(tensor, [min(rows, tensor.shape[0] - row), tensor.shape[1]], [row, 0])


def new_windows(pypto: Any, canvas: Canvas, depth: int) -> Any:
    """The internal tensor of conv2's windows, K running (kh, kw, c); output row r lies at row r + reach."""
    return pypto.tensor((canvas.reach + canvas.plane_rows, depth), pypto.DT_INT8, "windows")


def cut(pypto: Any, canvas: Canvas, windows: Any) -> Any:
    """The windows of the output rows, [out_rows, K]."""
    return pypto.view(windows, [canvas.out_rows, windows.shape[1]], [canvas.reach, 0])


def spread(pypto: Any, canvas: Canvas, tile: Any, row: int, windows: Any) -> None:
    """Write a tile of canvas rows, which begins at `row`, to all the windows that contain it."""
    plane, first = divmod(row, canvas.plane_rows)
    for index, cut in enumerate(canvas.cuts):
        if cut.plane == plane:
            to = [canvas.reach + first - cut.shift, index * tile.shape[1]]
            pypto.assemble(tile, to, windows)


BUILD: Mapping[str, Callable[..., Any]] = {
    "fused": build_fused,
    "pass1": build_pass1,
    "pass2": build_pass2,
    "conv": build_conv,
    "gemm": build_gemm,
}
"""The factory of each program, called `(pypto, geometry, tiling, options)`."""
