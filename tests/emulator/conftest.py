"""A kernel reader for tests: programs are read from source files, so a body is written into one."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from itertools import count
from textwrap import dedent, indent

import pytest

from emulator.program import Program
from emulator.soc import Space

Read = Callable[..., Program]

TENSORS = {
    "x": "pl.Tensor[[64, 64], pl.INT8]",
    "w": "pl.Tensor[[64, 64], pl.INT8]",
    "b": "pl.Tensor[[1, 64], pl.INT32]",
    "s": "pl.Tensor[[1, 64], pl.UINT64]",
    "y": "pl.Out[pl.Tensor[[64, 64], pl.INT8]]",
}

_MODULE = """\
from __future__ import annotations

import emulator.language as pl


def build():
{factory}
    @pl.program
    class Kernel:
        @pl.function(type=pl.FunctionType.InCore)
        def kernel(self, {params}):
{body}
            return {outputs}

        @pl.function(type=pl.FunctionType.Orchestration)
        def main(self, {params}):
            {outputs} = self.kernel({names})
            return {outputs}

    return Kernel
"""


@pytest.fixture(scope="session")
def read_module(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Program]:
    """`read_module(text)`: what `build()` of a module with this text gives.

    `@Mat` in it is short for `target_memory=pl.MemorySpace.Mat`, and so for the other memories.
    """
    folder, numbers = tmp_path_factory.mktemp("kernels"), count()

    def read(text: str) -> Program:
        path = folder / f"kernel_{next(numbers)}.py"
        long = re.sub(rf"@({'|'.join(Space.__members__)})\b", r"target_memory=pl.MemorySpace.\1", text)
        path.write_text(long, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        program: Program = module.build()
        return program

    return read


@pytest.fixture(scope="session")
def read(read_module: Callable[[str], Program]) -> Read:
    """`read(body, factory="", **tensors)`: a program whose kernel has this body.

    `factory` stands before the class; `tensors` are annotations, given in place of those of `TENSORS`.
    """

    def read(body: str, factory: str = "", **tensors: str) -> Program:
        params = tensors or TENSORS
        return read_module(
            _MODULE.format(
                factory=indent(dedent(factory), " " * 4),
                body=indent(dedent(body), " " * 12),
                params=", ".join(f"{name}: {annotation}" for name, annotation in params.items()),
                names=", ".join(params),
                outputs=", ".join(name for name, annotation in params.items() if "pl.Out" in annotation),
            )
        )

    return read
