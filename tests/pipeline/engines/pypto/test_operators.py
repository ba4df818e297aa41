from __future__ import annotations

from pipeline.engines.pypto.operators import operators_of


def test_a_program_needs_the_operators_it_calls() -> None:
    assert operators_of("pass2", "a2a3") == {
        "load",
        "move",
        "tile.extract",
        "tile.img2col",
        "tile.matmul_bias",
        "tile.matmul_acc",
        "tile.fixpipe_store",
    }
    assert operators_of("fused", "a5") - operators_of("pass2", "a5") == {
        "tile.create",
        "tile.gather_row",
        "tile.fixpipe_requant",
    }
