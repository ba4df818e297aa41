"""Whether what a definition says of its sums makes sense, apart from any program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from golden.errors import UserError
from golden.specs import Role, TensorSpec
from golden.terms import Index, Sums

_CHUNK = 2**20
"""Elements that are looked at at once."""

_MULTIPLIED = (Role.IMAGE, Role.MATRIX, Role.FILTER, Role.OUTPUT)
_TAKEN: Mapping[str, tuple[tuple[Role, ...], str]] = {
    "left": (_MULTIPLIED, ""),
    "right": (_MULTIPLIED, ""),
    "result": ((Role.OUTPUT,), ""),
    "bias": ((Role.BIAS, Role.MATRIX), "int32"),
    "table": ((Role.TABLE, Role.MATRIX), "uint64"),
}
"""The roles and the dtype that the tensor of an operand may have; empty is any dtype."""


class TermsError(UserError):
    """Terms contradict themselves or the tensors of their workload; the message is one line."""


def checked_terms(blocks: object, specs: Sequence[TensorSpec]) -> Sequence[Sums]:
    """The blocks that the `terms` of a definition returned; their functions are called for all elements.

    Args:
        blocks: what was returned.
        specs: the tensors of the same geometry.

    Raises:
        TermsError: they are no blocks, an operand names no tensor or one of another role, its elements are no
            whole numbers, have another shape or lie outside the tensor, or an element of an output is the
            result of no sum or of several.
    """
    if not isinstance(blocks, list | tuple) or not all(isinstance(block, Sums) for block in blocks):
        raise TermsError(f"returns {_words(blocks)}: must be a list of Sums")
    tensors = {spec.name: spec for spec in specs}
    outputs = [spec for spec in specs if spec.role is Role.OUTPUT]
    results = {spec.name: np.zeros(_size(spec), np.intp) for spec in outputs}
    for number, block in enumerate(blocks):
        for operand, spec, elements in _elements(block, f"block {number}: ", tensors):
            if operand == "result":
                results[spec.name] += np.bincount(elements.reshape(-1), minlength=_size(spec))
    for spec in outputs:
        counts = results[spec.name]
        if (wrong := np.flatnonzero(counts != 1)).size:
            how = f"{counts[wrong[0]]} sums" if counts[wrong[0]] else "no sum"
            place = ", ".join(map(str, np.unravel_index(wrong[0], spec.shape)))
            raise TermsError(f"{spec.name}[{place}] is the result of {how}: must be that of exactly one")
    return blocks


def _elements(
    block: Sums, where: str, tensors: Mapping[str, TensorSpec]
) -> Iterator[tuple[str, TensorSpec, Index]]:
    """The elements of all operands of a block, in pieces."""
    shape: object = block.shape
    if not (isinstance(shape, list | tuple) and len(shape) == 3 and all(map(_counts, shape))):
        raise TermsError(f"{where}shape is {shape}: must be positions, depth and columns, each at least 1")
    m, k, n = block.shape
    operands = {"left": (m, k), "right": (k, n), "result": (m, n), "bias": (n,), "table": (n,)}
    for operand, sizes in operands.items():
        given = getattr(block, operand)
        if given is None and operand in ("bias", "table"):
            continue
        what = f"{where}{operand}"
        spec, function = _operand(given, operand, what, tensors)
        first, *others = sizes
        step = max(1, _CHUNK // max([1, *others]))
        for start in range(0, first, step):
            axes = [np.arange(start, min(start + step, first)), *map(np.arange, others)]
            elements = function(*axes)
            _check(elements, tuple(axis.size for axis in axes), f"{what} from {spec.name}", spec)
            if operand == "result" and elements.min() < 0:
                raise TermsError(f"{what} has the element {elements.min()}: a sum goes to no padding")
            yield operand, spec, elements


def _operand(
    given: object, operand: str, what: str, tensors: Mapping[str, TensorSpec]
) -> tuple[TensorSpec, Callable[..., Index]]:
    """The tensor and the function of an operand."""
    if not (isinstance(given, list | tuple) and len(given) == 2 and callable(given[1])):
        raise TermsError(f"{what} is {_words(given)}: must be the name of a tensor and a function")
    name, function = given
    if name not in tensors:
        raise TermsError(f"{what}: there is no tensor {name!r}: there are {', '.join(tensors)}")
    spec, (roles, dtype) = tensors[name], _TAKEN[operand]
    if spec.role not in roles or (dtype and spec.dtype != dtype):
        allowed = " or ".join(role.name for role in roles)
        raise TermsError(
            f"{what} is {name}, {spec.dtype} of role {spec.role.name}: must be "
            f"{f'{dtype} ' if dtype else ''}of role {allowed}"
        )
    return spec, function


def _check(elements: object, shape: tuple[int, ...], what: str, spec: TensorSpec) -> None:
    """Refuse what is no array of a tensor's elements in this shape; padding is one."""
    if not isinstance(elements, np.ndarray) or elements.dtype not in (np.int32, np.int64):
        raise TermsError(f"{what} is {_words(elements)}: must be an array of whole numbers, int32 or int64")
    if elements.shape != shape:
        raise TermsError(f"{what} has the shape {list(elements.shape)}: must be {list(shape)}")
    if elements.max() >= _size(spec):
        raise TermsError(f"{what}: it has {_size(spec)} elements: there is no element {elements.max()}")


def _size(spec: TensorSpec) -> int:
    return int(np.prod(spec.shape))


def _counts(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= 1


def _words(value: object) -> str:
    """What a user gave instead of what is wanted."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {list(value.shape)}"
    if isinstance(value, list | tuple):
        return f"a {type(value).__name__} of {', '.join(type(one).__name__ for one in value) or 'nothing'}"
    return f"a {type(value).__name__}"
