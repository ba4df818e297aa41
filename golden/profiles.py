"""Named, seeded data profiles: the inputs that jobs run on, each with a claim that its tests prove.

A profile's full name is `NAME` (seed 0), `NAME@SEED`, or `NAME@nightly`, which `resolve` turns into a seed
drawn from a date. Values are the same on every machine (`golden.draw`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from golden.draw import Draw
from golden.errors import UserError
from golden.specs import Array

NIGHTLY = "nightly"
_SEED = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII)


class ProfileError(UserError):
    """The name of a profile is not valid; the message says what is."""


@dataclass(frozen=True)
class Profile:
    """One kind of data.

    Attributes:
        claim: what the data shows, in one line.
        build: makes the input arrays of a geometry from a seeded stream, by the names of `Tensors.values`.
        exceptions: tensors with elements that cannot reach the output, each with the reason.
    """

    claim: str
    build: Callable[[Any, Draw], Mapping[str, Array]]
    exceptions: Mapping[str, str] = field(default_factory=dict)


def parse(name: str, known: Collection[str]) -> tuple[str, int]:
    """Split a full name into profile and seed (0 where none is given).

    Args:
        name: such as `full-range@7`.
        known: the names of the workload's profiles.

    Raises:
        ProfileError: the profile is unknown, or the seed is not a plain number, such as an unresolved
            `@nightly`.
    """
    profile, at, seed = name.partition("@")
    if profile not in known:
        import difflib  # imported here, because only a mistake needs it

        close = difflib.get_close_matches(profile, known, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ProfileError(f"unknown profile {profile!r}: {hint}known are {', '.join(known)}")
    if at and not _SEED.fullmatch(seed):
        raise ProfileError(f"profile {name!r}: the seed must be a plain number, as in {profile}@7")
    return profile, int(seed or 0)


def seed_of(name: str) -> int:
    """The seed that a full name gives, 0 where it gives none."""
    return int(name.partition("@")[2] or 0)


def resolve(name: str, night: date) -> str:
    """Turn `NAME@nightly` into `NAME@YYYYMMDD`, which replays that night on any later day.

    Any other name is returned as it is.
    """
    profile, _, seed = name.partition("@")
    return f"{profile}@{night:%Y%m%d}" if seed == NIGHTLY else name
