"""A matrix product, int8 x int8 -> int32, made of operators that public PyPTO has."""

from __future__ import annotations

from typing import Any

from kernels.gemm_plan import GemmPlan


def build_gemm(pl: Any, plan: GemmPlan) -> Any:
    """The program of a matrix product: `main(a, b, c)`, c = a @ b.

    Args:
        pl: the DSL: PyPTO's `pypto.language` or the emulator's.
        plan: the tiled geometry.
    """
    geometry = plan.geometry
    a_shape, b_shape, c_shape = [geometry.m, geometry.k], [geometry.k, geometry.n], [geometry.m, geometry.n]
    rows, columns = plan.band_rows, plan.block_columns
    band_shape, block_shape = [rows, geometry.k], [geometry.k, columns]
    tile_m, tile_n, step = plan.tile_m, plan.tile_n, plan.step
    left_shape, right_shape = [tile_m, step], [step, tile_n]
    bands, blocks, steps = plan.bands, plan.blocks, plan.steps
    tiles_m, tiles_n = rows // tile_m, columns // tile_n

    @pl.program
    class Gemm:
        @pl.function(type=pl.FunctionType.InCore)
        def gemm(
            self,
            a: pl.Tensor[a_shape, pl.INT8],
            b: pl.Tensor[b_shape, pl.INT8],
            c: pl.Out[pl.Tensor[c_shape, pl.INT32]],
        ) -> pl.Tensor[c_shape, pl.INT32]:
            for block in pl.range(blocks):
                b_block = pl.load(b, [0, block * columns], block_shape, target_memory=pl.MemorySpace.Mat)
                for band in pl.range(bands):
                    a_band = pl.load(a, [band * rows, 0], band_shape, target_memory=pl.MemorySpace.Mat)
                    for row in pl.range(tiles_m):
                        for column in pl.range(tiles_n):
                            left = pl.tile.extract(
                                a_band, row * tile_m, 0, shape=left_shape, target_memory=pl.MemorySpace.Left
                            )
                            right = pl.tile.extract(
                                b_block,
                                0,
                                column * tile_n,
                                shape=right_shape,
                                target_memory=pl.MemorySpace.Right,
                            )
                            acc = pl.tile.matmul(left, right)
                            for k in pl.range(1, steps):
                                left = pl.tile.extract(
                                    a_band,
                                    row * tile_m,
                                    k * step,
                                    shape=left_shape,
                                    target_memory=pl.MemorySpace.Left,
                                )
                                right = pl.tile.extract(
                                    b_block,
                                    k * step,
                                    column * tile_n,
                                    shape=right_shape,
                                    target_memory=pl.MemorySpace.Right,
                                )
                                acc = pl.tile.matmul_acc(acc, left, right)
                            c = pl.store(
                                acc,
                                [band * rows + row * tile_m, block * columns + column * tile_n],
                                c,
                            )
            return c

        @pl.function(type=pl.FunctionType.Orchestration)
        def main(
            self,
            a: pl.Tensor[a_shape, pl.INT8],
            b: pl.Tensor[b_shape, pl.INT8],
            c: pl.Out[pl.Tensor[c_shape, pl.INT32]],
        ) -> pl.Tensor[c_shape, pl.INT32]:
            c = self.gemm(a, b, c)
            return c

    return Gemm
