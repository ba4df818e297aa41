"""What a workload computes, apart from any kernel: its geometry, its tensors, its data, its golden."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, cast, get_type_hints

from golden import profiles
from golden.draw import Draw
from golden.profiles import Profile
from golden.specs import Array, Tensors, TensorSpec


@dataclass(frozen=True)
class Definition:
    """What a workload computes.

    Attributes:
        name: the name of the workload in the matrix.
        geometry: a frozen dataclass of its shapes, whose fields are integers or dataclasses of this kind; it
            validates itself and raises `GeometryError`.
        specs: the tensors of a geometry.
        profiles: its data profiles by name.
        compute: the golden: a function of a geometry, its inputs and the name of a variant that returns each
            output by name.
        sources: the user's files that define it, if any, the declaring one first; their content is part of
            the key of cached goldens.

    Raises:
        TypeError: the type of the geometry is not such a dataclass.
    """

    name: str
    geometry: type[Any]
    specs: Callable[[Any], tuple[TensorSpec, ...]]
    profiles: Mapping[str, Profile]
    compute: Callable[[Any, Tensors, str], Mapping[str, Array]]
    sources: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        _check_shapes(self.geometry)

    def make(self, name: str, geometry: Any) -> Tensors:
        """The tensors of a profile: the same name and geometry always give the same values.

        Args:
            name: name of the profile with its seed; `@nightly` must be resolved.
            geometry: the shapes, of this definition's geometry type.

        Raises:
            ProfileError: there is no such profile, or the seed is not a plain number.
            TensorsError: the tensors of the profile break a rule.
        """
        profile, seed = profiles.parse(name, self.profiles)
        return Tensors(self.specs(geometry), self.profiles[profile].build(geometry, Draw(seed)))


def _check_shapes(kind: type[Any]) -> None:
    """Refuse a type that is not a dataclass of integers and of such dataclasses."""
    if not (isinstance(kind, type) and is_dataclass(kind)):
        raise TypeError(f"geometry type {kind!r} is not a dataclass")
    hints = get_type_hints(kind)
    for field in fields(kind):
        hint = hints[field.name]
        if is_dataclass(hint):
            _check_shapes(cast(type[Any], hint))
        elif hint is not int:
            raise TypeError(f"{kind.__name__}.{field.name} is {hint}: a geometry holds whole numbers only")
