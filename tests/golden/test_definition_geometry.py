from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, make_dataclass, replace
from typing import Any

import pytest

from golden.definition import Definition
from golden.gemm import DEFINITION
from golden.geometry import Conv


@dataclass(frozen=True)
class Nested:
    size: int | tuple[int, int]
    conv: Conv


def declared(geometry: Any) -> Definition:
    return replace(DEFINITION, geometry=geometry)


def test_a_geometry_holds_whole_numbers_and_dataclasses_of_them() -> None:
    assert declared(Nested).geometry is Nested


@pytest.mark.parametrize(
    ("geometry", "said"),
    [
        (int, "geometry type int is not a dataclass"),
        (Nested(1, Conv()), "geometry type (a Nested) is not a dataclass"),
        (lambda: Nested, "geometry type (a function) is not a dataclass"),
        (make_dataclass("Named", [("name", str)]), "Named.name is str: a geometry holds"),
        (make_dataclass("Flagged", [("flag", bool)]), "Flagged.flag is bool: a geometry holds"),
        (make_dataclass("Open", [("sizes", tuple[int, ...])]), "Open.sizes is tuple[int, ...]: a geometry"),
        (make_dataclass("Mixed", [("sizes", tuple[int, str])]), "Mixed.sizes is tuple[int, str]: a geometry"),
        (
            make_dataclass("Either", [("sizes", tuple[int, int] | tuple[int, int, int])]),
            "Either.sizes is tuple[int, int] | tuple[int, int, int]: a geometry",
        ),
        (
            make_dataclass("Outer", [("inner", make_dataclass("Inner", [("share", float)]))]),
            "Inner.share is float: a geometry holds",
        ),
    ],
)
def test_another_type_is_refused(geometry: Callable[..., Any], said: str) -> None:
    with pytest.raises(TypeError) as caught:
        declared(geometry)
    assert said in str(caught.value)
