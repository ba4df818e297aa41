"""Named, seeded data profiles: the inputs that jobs run on, each with a claim that its tests prove.

A profile's full name is `NAME` (seed 0), `NAME@SEED`, or `NAME@nightly`, which `resolve` turns into a seed
drawn from a date. Values are the same on every machine (`golden.draw`).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date

import numpy as np
import numpy.typing as npt

from golden.draw import Draw
from golden.geometry import Geometry
from golden.specs import Int8, Int32, Tensors, pair_specs

NIGHTLY = "nightly"
_SEED = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII)


class ProfileError(ValueError):
    """A profile's name cannot be understood; the message says what is known."""


@dataclass(frozen=True)
class Profile:
    """One kind of data.

    Attributes:
        claim: what the data shows, in a line.
        build: makes the tensors of a geometry from a seeded stream.
        exceptions: what the golden is *not* sensitive to, by tensor or property, each with its reason.
    """

    claim: str
    build: Callable[[Geometry, Draw], Tensors]
    exceptions: Mapping[str, str] = field(default_factory=dict)


def make(name: str, geometry: Geometry) -> Tensors:
    """The tensors of a profile for a geometry: the same name and geometry always give the same values.

    Raises:
        ProfileError: for an unknown profile, a seed that is not a plain number, or `@nightly` that was not
            resolved.
    """
    profile, seed = parse(name)
    return CATALOGUE[profile].build(geometry, Draw(seed))


def parse(name: str) -> tuple[str, int]:
    """Split a full name into profile and seed (0 where none is given); raises as `make` does."""
    profile, at, seed = name.partition("@")
    if profile not in CATALOGUE:
        close = difflib.get_close_matches(profile, PROFILES, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ProfileError(f"unknown profile {profile!r}: {hint}known are {', '.join(PROFILES)}")
    if at and not _SEED.fullmatch(seed):
        raise ProfileError(f"profile {name!r}: the seed must be a plain number, as in {profile}@7")
    return profile, int(seed or 0)


def resolve(name: str, night: date) -> str:
    """Turn `NAME@nightly` into `NAME@YYYYMMDD`, which replays that night on any later day.

    Any other name is checked and returned as it is.

    Raises:
        ProfileError: as `make`.
    """
    profile, _, seed = name.partition("@")
    resolved = f"{profile}@{night:%Y%m%d}" if seed == NIGHTLY else name
    parse(resolved)
    return resolved


def _cycle(pattern: tuple[float, ...], count: int) -> npt.NDArray[np.float64]:
    return np.resize(np.array(pattern), count)


def _int8(draw: Draw, low: int, high: int, shape: tuple[int, ...]) -> Int8:
    return draw.integers(low, high, shape).astype(np.int8)


def _shapes(geometry: Geometry) -> Mapping[str, tuple[int, ...]]:
    return {spec.name: spec.shape for spec in pair_specs(geometry)}


def _bias(values: npt.ArrayLike) -> Int32:
    return np.asarray(values).astype(np.int32).reshape(1, -1)


def _small(geometry: Geometry, draw: Draw) -> Tensors:
    shapes = _shapes(geometry)
    return Tensors(
        x=_int8(draw, -3, 3, shapes["x"]),
        filter1=_int8(draw, -2, 2, shapes["filter1"]),
        bias1=_bias(_cycle((-3, -2, -1, 0, 1, 2, 3), geometry.cmid)),
        scales1=np.full(geometry.cmid, 1 / 16, np.float32),
        offsets1=_cycle((-1, 0, 1), geometry.cmid).astype(np.int64),
        filter2=_int8(draw, -2, 2, shapes["filter2"]),
        bias2=_bias(_cycle((-2, -1, 0, 1, 2), geometry.cout)),
        scales2=np.full(geometry.cout, 1 / 32, np.float32),
        offsets2=_cycle((1, 0, -1), geometry.cout).astype(np.int64),
    )


CATALOGUE: Mapping[str, Profile] = {
    "small": Profile("few small values: sums that can be followed by hand", _small),
}
"""Every profile by name."""

PROFILES: tuple[str, ...] = tuple(CATALOGUE)
"""The names of all profiles, without seeds."""
