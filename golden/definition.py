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
        name: the workload's, as the matrix writes it.
        geometry: a frozen dataclass of its shapes, of whole numbers and of such dataclasses; it validates
            itself and raises `GeometryError`.
        specs: the tensors of a geometry.
        profiles: its data profiles by name.
        compute: the golden: from a geometry, its inputs and the name of a variant to each output by name.
        source: the file that defines it where that is a user's; goldens are kept apart by its content.

    Raises:
        TypeError: the type of the geometry is another one.
    """

    name: str
    geometry: type[Any]
    specs: Callable[[Any], tuple[TensorSpec, ...]]
    profiles: Mapping[str, Profile]
    compute: Callable[[Any, Tensors, str], Mapping[str, Array]]
    source: Path | None = None

    def __post_init__(self) -> None:
        _check_shapes(self.geometry)

    def make(self, name: str, geometry: Any) -> Tensors:
        """The tensors of a profile: the same name and geometry always give the same values.

        Args:
            name: of the profile, with its seed; `@nightly` resolved.
            geometry: of the type of this definition.

        Raises:
            ProfileError: there is no such profile, or the seed is no plain number.
            TensorsError: what the profile makes breaks a rule.
        """
        profile, seed = profiles.parse(name, self.profiles)
        return Tensors(self.specs(geometry), self.profiles[profile].build(geometry, Draw(seed)))


def _check_shapes(kind: type[Any]) -> None:
    """Refuse a type that is no dataclass of whole numbers and of such dataclasses."""
    if not (isinstance(kind, type) and is_dataclass(kind)):
        raise TypeError(f"geometry type {kind!r} is no dataclass")
    hints = get_type_hints(kind)
    for field in fields(kind):
        hint = hints[field.name]
        if is_dataclass(hint):
            _check_shapes(cast(type[Any], hint))
        elif hint is not int:
            raise TypeError(f"{kind.__name__}.{field.name} is {hint}: a geometry holds whole numbers only")
