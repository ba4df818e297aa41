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

from golden import recipes
from golden.draw import Draw
from golden.errors import UserError
from golden.geometry import Geometry
from golden.specs import Tensors

NIGHTLY = "nightly"
_SEED = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII)


class ProfileError(UserError):
    """A profile's name cannot be understood; the message says what is known."""


@dataclass(frozen=True)
class Profile:
    """One kind of data.

    Attributes:
        claim: what the data shows, in a line.
        build: makes the tensors of a geometry from a seeded stream.
        exceptions: tensors of which some elements cannot reach the output, each with the reason.
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


def _impulse(row: str, column: str) -> Profile:
    return Profile(
        f"one non-zero input, on an {row} row and an {column} column: shows where every tap lands",
        recipes.impulse(row == "odd", column == "odd"),
        {
            "filter1": "taps of other input channels meet zeros only, and so do taps the stride steps over",
            "filter2": "taps that conv2's stride never puts on a non-zero pixel of mid meet zeros only",
        },
    )


CATALOGUE: Mapping[str, Profile] = {
    "small": Profile("few small values: sums that can be followed by hand", recipes.small),
    "full-range": Profile(
        "all int8 values; mid and y over the whole range, saturated at both ends", recipes.full_range
    ),
    "ties": Profile("most accumulators exactly on .5 and not saturated", recipes.ties),
    "edges": Profile(
        "non-zero on the image border only",
        recipes.edges,
        {"filter1": "taps that the stride never puts on the border meet zeros only"},
    ),
    "impulse-even-even": _impulse("even", "even"),
    "impulse-even-odd": _impulse("even", "odd"),
    "impulse-odd-even": _impulse("odd", "even"),
    "impulse-odd-odd": _impulse("odd", "odd"),
    "channels": Profile(
        "a scale and an offset of its own for every channel, over the 9 bits", recipes.channels
    ),
}
"""Every profile by name."""

PROFILES: tuple[str, ...] = tuple(CATALOGUE)
"""The names of all profiles, without seeds."""
