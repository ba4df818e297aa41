from __future__ import annotations

import pytest

from emulator.soc import SOCS, Space

# KB by soc: UB, L1, L0A, L0B, L0C, bias table, fixpipe table (the specification's page on platforms)
TABLE = {"a2a3": (192, 512, 64, 64, 128, 1, 2), "a5": (256, 512, 64, 64, 256, 4, 4)}
ORDER = (Space.Vec, Space.Mat, Space.Left, Space.Right, Space.Acc, Space.Bias, Space.LeftScale)


@pytest.mark.parametrize("name", TABLE)
def test_capacities_are_those_of_the_public_headers(name: str) -> None:
    soc = SOCS[name]
    assert soc.name == name
    assert tuple(soc.capacity[space] / 1024 for space in ORDER) == TABLE[name]
    assert set(soc.capacity) == set(Space)


def test_only_a2a3_has_a_public_cost_model() -> None:
    rates = SOCS["a2a3"].rates
    assert rates is not None
    assert SOCS["a5"].rates is None
