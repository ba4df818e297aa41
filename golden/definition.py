"""What a workload computes, apart from any kernel: its geometry, its tensors, its data, its golden."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

import numpy as np

from golden import profiles
from golden.draw import Draw
from golden.errors import UserError
from golden.profiles import Profile
from golden.specs import Array, Role, Tensors, TensorsError, TensorSpec
from golden.terms import Sums


class DefinitionError(UserError):
    """A profile or a golden gives what the specs of its workload do not declare; the message is one line."""


@dataclass(frozen=True)
class Definition:
    """What a workload computes.

    Attributes:
        name: the name of the workload in the matrix.
        geometry: a frozen dataclass of its shapes, whose fields are integers, tuples of so many integers, or
            dataclasses of this kind; it validates itself and raises `GeometryError`.
        specs: the tensors of a geometry.
        profiles: its data profiles by name.
        compute: the golden: a function of a geometry, its inputs and the name of a variant that returns each
            output by name.
        sources: the user's files that define it, if any, the declaring one first; their content is part of
            the key of cached goldens.
        terms: from a geometry, what each sum must hold, in blocks; None if the definition does not say it.

    Raises:
        TypeError: the type of the geometry is not such a dataclass.
    """

    name: str
    geometry: type[Any]
    specs: Callable[[Any], tuple[TensorSpec, ...]]
    profiles: Mapping[str, Profile]
    compute: Callable[[Any, Tensors, str], Mapping[str, Array]]
    sources: tuple[Path, ...] = ()
    terms: Callable[[Any], Sequence[Sums]] | None = None

    def __post_init__(self) -> None:
        _check_shapes(self.geometry)

    def make(self, name: str, geometry: Any) -> Tensors:
        """The tensors of a profile: the same name and geometry always give the same values.

        Args:
            name: name of the profile with its seed; `@nightly` must be resolved.
            geometry: the shapes, of this definition's geometry type.

        Raises:
            ProfileError: there is no such profile, or the seed is not a plain number.
            DefinitionError: the profile gives other arrays than the specs declare, or an array breaks a rule.
        """
        profile, seed = profiles.parse(name, self.profiles)
        specs, arrays = self.specs(geometry), self.profiles[profile].build(geometry, Draw(seed))
        who = f"profile {profile} of workload {self.name}"
        if mistake := _misfit(arrays, [form for spec in specs for form in _forms_of(spec)], "must be"):
            raise DefinitionError(f"{who}{mistake}")
        try:
            return Tensors(specs, arrays)
        except TensorsError as error:
            raise DefinitionError(f"{who}: {error}") from error

    def computed(self, geometry: Any, tensors: Tensors, variant: str) -> Mapping[str, Array]:
        """The golden: each output by its name, checked against the specs.

        Args:
            geometry: of the type of this definition.
            tensors: the inputs.
            variant: one of `golden.vreq8.VARIANTS`.

        Raises:
            DefinitionError: it gives other outputs than the specs declare, or one has another shape or dtype.
        """
        outputs = self.compute(geometry, tensors, variant)
        specs = [spec for spec in self.specs(geometry) if spec.role is Role.OUTPUT]
        forms = [_Form(spec.name, spec.shape, spec.dtype) for spec in specs]
        if mistake := _misfit(outputs, forms, "the specs declare"):
            raise DefinitionError(f"golden of workload {self.name}{mistake}")
        return outputs


@dataclass(frozen=True)
class _Form:
    """What an array must be. An array of offsets has any dtype of whole numbers, which None stands for."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic] | None

    def fits(self, array: object) -> bool:
        if not isinstance(array, np.ndarray) or array.shape != self.shape:
            return False
        return np.issubdtype(array.dtype, np.integer) if self.dtype is None else array.dtype == self.dtype

    def __str__(self) -> str:
        return f"{self.dtype or 'whole numbers'} {list(self.shape)}"


def _forms_of(spec: TensorSpec) -> Iterator[_Form]:
    """The arrays that a profile gives for a tensor: a table is given as its parts, an output not at all."""
    if spec.role is Role.TABLE:
        scales, offsets = spec.parts
        yield _Form(scales, spec.shape[1:], np.dtype(np.float32))
        yield _Form(offsets, spec.shape[1:], None)
    elif spec.role is not Role.OUTPUT:
        yield _Form(spec.name, spec.shape, spec.dtype)


def _misfit(arrays: object, forms: list[_Form], wanted: str) -> str:
    """What is wrong with arrays that must have these forms, to stand behind who gives them; empty if nothing.

    Args:
        arrays: what a user's function gave.
        forms: of the arrays that it must give.
        wanted: stands before the form that an array must have.
    """
    declared = ", ".join(form.name for form in forms)
    if not isinstance(arrays, Mapping):
        return f" gives a {type(arrays).__name__}: it must give a dict of arrays: {declared}"
    if {*arrays} != {form.name for form in forms}:
        return f" gives {', '.join(map(str, arrays)) or 'nothing'}, the specs declare {declared}"
    for form in forms:
        array = arrays[form.name]
        if not form.fits(array):
            given = (
                f"{array.dtype} {list(array.shape)}"
                if isinstance(array, np.ndarray)
                else f"a {type(array).__name__}"
            )
            return f": {form.name} is {given}: {wanted} {form}"
    return ""


def _check_shapes(kind: type[Any]) -> None:
    """Refuse a type that is not a dataclass of integers, of tuples of integers and of such dataclasses."""
    if not (isinstance(kind, type) and is_dataclass(kind)):
        what = kind.__name__ if isinstance(kind, type) else f"(a {type(kind).__name__})"
        raise TypeError(f"geometry type {what} is not a dataclass")
    hints = get_type_hints(kind)
    for field in fields(kind):
        hint = hints[field.name]
        if is_dataclass(hint):
            _check_shapes(cast(type[Any], hint))
        elif not _whole(hint):
            what = hint.__name__ if isinstance(hint, type) and not get_origin(hint) else hint
            raise TypeError(f"{kind.__name__}.{field.name} is {what}: a geometry holds whole numbers only")


def _whole(hint: Any) -> bool:
    """Whether a field holds a whole number, a tuple of so many of them, or either."""
    kind, parts = get_origin(hint), get_args(hint)
    if kind is tuple:
        return bool(parts) and all(part is int for part in parts)
    if kind in (Union, UnionType):  # msgspec tells no tuple from another
        return all(map(_whole, parts)) and sum(get_origin(part) is tuple for part in parts) < 2
    return hint is int
