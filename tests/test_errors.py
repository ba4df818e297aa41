"""Errors that users cause, wherever they are defined: all have one parent, and it says the exit code."""

from __future__ import annotations

import ast
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import golden
import kernels
import pipeline
from emulator.errors import KernelError
from emulator.operands import DType, Position
from emulator.program import TensorType, TileType
from emulator.soc import Space
from golden.errors import UserError
from golden.geometry import Conv, GeometryError
from golden.layout import LayoutError
from golden.specs import Role
from pipeline.commands import cli
from pipeline.ground.jobs import State
from pipeline.ground.results import OUTCOMES

ROOT = Path(__file__).parents[1]
PACKAGES = (golden, kernels, pipeline)


def import_everything() -> None:
    for package in PACKAGES:
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if module.name.endswith(("__main__", "migrations.env")):  # Alembic alone imports the latter
                continue
            if module.name.startswith("pipeline.run.cluster") and find_spec("ray") is None:
                continue
            import_module(module.name)


def heirs(parent: type[Exception]) -> Iterator[type[Exception]]:
    for heir in parent.__subclasses__():
        if heir.__module__.partition(".")[0] in {package.__name__ for package in PACKAGES}:
            yield heir
        yield from heirs(heir)


import_everything()
USER_ERRORS = sorted(set(heirs(UserError)), key=lambda each: each.__qualname__)


@pytest.mark.parametrize("error", USER_ERRORS, ids=lambda error: error.__qualname__)
def test_it_ends_in_its_line_and_its_exit_code(
    error: type[UserError], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raised = error.__new__(error)
    raised.args = ("what is wrong, where, what helps",)

    def fail(*_arguments: object) -> int:
        raise raised

    monkeypatch.setattr(cli, "_do", fail)
    assert cli.main(["list"]) == error.exit_code
    assert error.exit_code in (4, 5, OUTCOMES[State.INFRASTRUCTURE].exit_code)
    assert capsys.readouterr().err == "what is wrong, where, what helps\n"


def caught() -> set[str]:
    """Names of the errors that a handler in our packages names."""
    handlers = (
        node
        for package in PACKAGES
        for path in (ROOT / package.__name__).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ExceptHandler) and node.type is not None
    )
    names = (name for handler in handlers for name in ast.walk(handler.type or handler))
    return {getattr(name, "id", getattr(name, "attr", "")) for name in names}


def test_an_error_that_nobody_handles_is_the_users_or_a_fault_of_ours() -> None:
    """A fault of ours is a `RuntimeError`; in `golden`, which others call, also a `ValueError`."""
    handled = caught()
    for error in heirs(Exception):
        ours = (RuntimeError, ValueError) if error.__module__.startswith("golden.") else RuntimeError
        assert issubclass(error, UserError) or issubclass(error, ours) or error.__name__ in handled, error


@pytest.mark.parametrize(
    "thing",
    [
        TileType((16, 64), DType.INT8, Space.Mat),
        TensorType((16, 64), DType.INT8),
        Conv(3, 1, 1),
        DType.INT8,
        Space.Mat,
        Role.TABLE,
        np.dtype(np.int8),
        np.zeros(1),
        (16,),
        int,
        object(),
        Path("a"),
        test_it_ends_in_its_line_and_its_exit_code,
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_a_refusal_that_holds_a_repr_fails_the_test_that_provokes_it(thing: object) -> None:
    said = f"this is {thing!r}: must be another"
    with pytest.raises(AssertionError, match="a refusal holds a repr"):
        KernelError(Position("kernel.py", 1), "pl.load", said)
    with pytest.raises(AssertionError, match="a refusal holds a repr"):
        LayoutError(said)
    with pytest.raises(AssertionError, match="a refusal holds a repr"):
        GeometryError("height", 1, said)


def test_a_refusal_may_quote_what_the_user_wrote() -> None:
    for said in (
        "operators are called as pl.<name>; a helper needs @pl.inline",
        "min(1, 2): not an index expression",
        f"t was {TileType((16, 64), DType.INT8, Space.Mat)}, this is {TensorType((16, 64), DType.INT8)}",
        "must be pl.MemorySpace.Mat / Left, at (0, 1) of 'x'",
    ):
        assert said in str(KernelError(Position("kernel.py", 1), "pl.load", said))
