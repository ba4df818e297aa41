from __future__ import annotations

from pipeline.engines.pypto.toolchain import operators_of
from workloads.registry import workload_named

PAIR = workload_named("conv-pair")


def test_a_program_needs_the_operators_it_calls() -> None:
    assert operators_of(PAIR, "pass2", "a2a3") == {
        "load",
        "move",
        "tile.extract",
        "tile.img2col",
        "tile.set_validshape",
        "tile.matmul_bias",
        "tile.matmul_acc",
        "tile.fixpipe_store",
    }
    assert operators_of(PAIR, "fused", "a5") - operators_of(PAIR, "pass2", "a5") == {
        "tile.create",
        "tile.gather_row",
        "tile.fixpipe_requant",
    }


def test_a_matrix_product_needs_those_that_public_pypto_has() -> None:
    assert operators_of(workload_named("gemm"), "gemm", "a2a3") == {
        "load",
        "tile.extract",
        "tile.matmul",
        "tile.matmul_acc",
        "store",
    }
