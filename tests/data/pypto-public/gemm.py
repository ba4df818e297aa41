"""A matrix product in the form of this project's kernels, of operators that public PyPTO has."""

from __future__ import annotations

from typing import Any

from kernels.plan import Plan


def build_gemm(pl: Any, plan: Plan) -> Any:
    """`main(x, filter1, bias1, y)`: y = x @ filter1 + bias1, the whole of x in L1."""
    rows, depth, columns = plan.geometry.height * plan.geometry.width, 32, plan.geometry.cmid
    x_shape, filter_shape, row_shape, y_shape = [rows, depth], [depth, columns], [1, columns], [rows, columns]
    tile, tiles = 16, rows // 16

    @pl.inline
    def product(product_x: Any, product_w: Any, product_bias: Any, product_row: Any) -> Any:
        product_a = pl.tile.extract(
            product_x, product_row, 0, shape=[16, 32], target_memory=pl.MemorySpace.Left
        )
        product_acc = pl.tile.matmul_bias(product_a, product_w, product_bias)
        return product_acc  # noqa: RET504 (as our kernels write it)

    @pl.program
    class Gemm:
        @pl.function(type=pl.FunctionType.InCore)
        def gemm(
            self,
            x: pl.Tensor[x_shape, pl.INT8],
            filter1: pl.Tensor[filter_shape, pl.INT8],
            bias1: pl.Tensor[row_shape, pl.INT32],
            y: pl.Out[pl.Tensor[y_shape, pl.INT32]],
        ) -> pl.Tensor[y_shape, pl.INT32]:
            x_map = pl.load(x, [0, 0], x_shape, target_memory=pl.MemorySpace.Mat)
            w_map = pl.load(filter1, [0, 0], filter_shape, target_memory=pl.MemorySpace.Mat)
            b_map = pl.load(bias1, [0, 0], row_shape, target_memory=pl.MemorySpace.Mat)
            w = pl.move(w_map, target_memory=pl.MemorySpace.Right)
            bias = pl.move(b_map, target_memory=pl.MemorySpace.Bias)
            for number in pl.range(tiles):
                acc = product(x_map, w, bias, number * tile)
                y = pl.store(acc, [number * tile, 0], y)
            return y

        @pl.function(type=pl.FunctionType.Orchestration)
        def main(
            self,
            x: pl.Tensor[x_shape, pl.INT8],
            filter1: pl.Tensor[filter_shape, pl.INT8],
            bias1: pl.Tensor[row_shape, pl.INT32],
            y: pl.Out[pl.Tensor[y_shape, pl.INT32]],
        ) -> pl.Tensor[y_shape, pl.INT32]:
            y = self.gemm(x, filter1, bias1, y)
            return y  # noqa: RET504

    return Gemm
