"""What a workload computes, apart from any kernel: its geometry, its tensors, its data, its golden."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    """

    name: str
    geometry: type[Any]
    specs: Callable[[Any], tuple[TensorSpec, ...]]
    profiles: Mapping[str, Profile]
    compute: Callable[[Any, Tensors, str], Mapping[str, Array]]
    source: Path | None = None

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
