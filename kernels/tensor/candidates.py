"""The tilings of the pair that a search tries: one number of a tiling is changed, the others stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from golden.geometry import C0, Geometry
from kernels.tensor.canvas import canvas_of
from kernels.tensor.plan import Product, Tiling

Changes = Callable[[Tiling], Iterator[Tiling]]

_TASKS = (24, 20, 22, 18, 12)
_SPREAD_TASKS = (24, 20, 16, 12)
"""Numbers of tasks for the rows. There are 24 cube cores; scheduling a task costs as much as running it."""

_VEC_TILES = (2, 1)
"""Numbers of vector tiles in a cube task."""


def numbers(program: str, geometry: Geometry) -> Iterator[Changes]:
    """The changes to a program's tiling, one for each of its numbers.

    A change is a function from a tiling to the tilings in which this number has another value.
    """
    canvas = canvas_of(geometry)
    if program != "pass2":
        pixels = geometry.mid_height * geometry.mid_width
        yield from _of_product("conv1", canvas.rows if program == "fused" else pixels)
    else:
        yield lambda tiling: _with_spread_rows(tiling, canvas.plane_rows)
    if program != "pass1":
        yield from _of_product("conv2", canvas.out_rows)


def _of_product(conv: str, rows: int) -> Iterator[Changes]:
    yield lambda tiling: _with_rows(tiling, conv, rows)
    yield lambda tiling: _with_k_step(tiling, conv)


def _with_rows(tiling: Tiling, conv: str, rows: int) -> Iterator[Tiling]:
    for tiles in _VEC_TILES:
        for tasks in _TASKS:
            vec_rows = -(-rows // (tasks * tiles))
            yield _changed(tiling, conv, cube_rows=vec_rows * tiles, vec_rows=vec_rows)


def _with_k_step(tiling: Tiling, conv: str) -> Iterator[Tiling]:
    product: Product = getattr(tiling, conv)
    for k_step in range(C0, product.k_depth + 1, C0):
        if product.k_depth % k_step == 0:
            yield _changed(tiling, conv, k_step=k_step)


def _with_spread_rows(tiling: Tiling, plane_rows: int) -> Iterator[Tiling]:
    for tasks in _SPREAD_TASKS:
        yield replace(tiling, spread_rows=-(-plane_rows // tasks))


def _changed(tiling: Tiling, conv: str, **values: int) -> Tiling:
    product = replace(getattr(tiling, conv), **values)
    if conv == "conv1":
        return replace(tiling, conv1=product, spread_rows=product.vec_rows)
    return replace(tiling, conv2=product)
