"""The tensor-level part of a declaration: programs for CANN's compiler, and the host's work for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from golden import vreq8
from golden.specs import Array
from kernels.tensor.plan import Capacities

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True, eq=False)
class Launch:
    """One launch: its operands by the kernel's parameter names, in their order, and its output.

    Attributes:
        output: name of the output, the kernel's last parameter.
        expected: the output that is right, [rows, channels], garbage rows included.
        kept: its rows that are positions of the workload's output, in order.
    """

    operands: Mapping[str, Array]
    output: str
    expected: Array
    kept: npt.NDArray[np.intp]


def constants(inputs: Mapping[str, Array], suffix: str) -> dict[str, Array]:
    """The bias of a convolution, unchanged, and the fields of its table as rows of fp32.

    Args:
        inputs: a bias and a table packed for `vreq8`, by their names.
        suffix: the suffix of these names.
    """
    fields = vreq8.unpack(cast(vreq8.Table, inputs[f"scale{suffix}"]))
    return {
        f"bias{suffix}": inputs[f"bias{suffix}"],
        f"scale{suffix}": fields.scale.reshape(1, -1),
        f"offset{suffix}": fields.offset.astype(np.float32).reshape(1, -1),
    }


@dataclass(frozen=True)
class TensorProgram:
    """One tensor-level program.

    Attributes:
        launch: makes its launch from a geometry, a tiling and the inputs of the tile program of that name.
        handed_over: GM tensors of the compiled program that hold what one convolution hands to the next.
    """

    launch: Callable[[Any, Any, Mapping[str, Array]], Launch]
    handed_over: tuple[str, ...] = ()


@dataclass(frozen=True)
class TilingSearch:
    """What a search for cheaper tilings of a workload needs; geometries are those that programs compute.

    Attributes:
        start: the tiling of a geometry from which the search of every program starts, within the memories'
            capacities; raises `kernels.tensor.plan.TilingError`.
        numbers: from a program and a geometry, the possible changes to a tiling, one for each number: a
            function from a tiling to those in which this number has another value.
        may_fit: whether a tiling of a geometry can fit the capacities; only the compiler can tell for sure.
        keep: writes the tilings of a geometry, by program, where `TensorLevel.tiling` finds them; returns the
            path of the file.
    """

    start: Callable[[Any, Capacities], Any]
    numbers: Callable[[str, Any], Iterable[Callable[[Any], Iterable[Any]]]]
    may_fit: Callable[[Any, Any, Capacities], bool]
    keep: Callable[[Any, Mapping[str, Any]], Path]


@dataclass(frozen=True)
class TensorLevel:
    """The tensor-level programs of a workload.

    Attributes:
        module: the module with `BUILD`, the factories by the names of their programs; the path of its file if
            it cannot be imported by name, as a user's file.
        programs: the programs by the names of the tile programs that they stand for.
        tiling: cuts a geometry for a program within the memories' capacities; raises
            `kernels.tensor.plan.TilingError`.
        tiling_type: the type of a tiling, a frozen dataclass with a method `describe`.
        search: how cheaper tilings are searched; None if geometries are always cut by rule.
    """

    module: str | Path
    programs: Mapping[str, TensorProgram]
    tiling: Callable[[str, Any, Capacities], Any]
    tiling_type: type[Any]
    search: TilingSearch | None = None

    @property
    def source(self) -> Path:
        """The file of `module`."""
        if isinstance(self.module, Path):
            return self.module
        spec = find_spec(self.module)
        assert spec is not None, self.module
        assert spec.origin is not None, self.module
        return Path(spec.origin)
