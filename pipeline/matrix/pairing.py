"""Jobs that compare the outputs of two platforms with each other: `compare --engines A,B`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pipeline.engines.registry import BACKENDS
from pipeline.ground.jobs import Job, Lane, Platform
from pipeline.matrix.expand import COMPARED, named
from pipeline.matrix.select import EmptySelectionError, FilterError


def parse_engines(written: str, platforms: Mapping[str, Platform]) -> tuple[Platform, Platform]:
    """Read two platforms as users write them: `emu-a2a3,cann-a2a3`.

    If they requantise by different variants, one whose backend knows all of them takes over the other's.

    Raises:
        FilterError: it is not written in this form, or the two cannot be compared.
    """
    names = written.split(",")
    if len(names) != 2 or names[0] == names[1]:
        raise FilterError(f"--engines {written}: write two platforms, as in emu-a2a3,cann-a2a3")
    for name in names:
        if name not in platforms:
            raise FilterError(f"--engines: no platform {name!r}; known are {', '.join(platforms)}")
    one, two = (platforms[name] for name in names)
    if one.variant != two.variant and _any_variant(one):
        one = replace(one, variant=two.variant)
    elif one.variant != two.variant and _any_variant(two):
        two = replace(two, variant=one.variant)
    if one.variant != two.variant:
        raise FilterError(
            f"--engines {written}: they requantise by different rules ({one.variant}, {two.variant}), so "
            "different outputs are right; give both one variant in an overlay"
        )
    if one.on_cards and two.on_cards:
        raise FilterError(
            f"--engines {written}: both run on cards, and a job gets only one; choose another platform"
        )
    return one, two


def _any_variant(platform: Platform) -> bool:
    return platform.backend in BACKENDS and BACKENDS[platform.backend].any_variant


def pair_up(jobs: Sequence[Job], one: Platform, two: Platform) -> tuple[Job, ...]:
    """A job of the compare lane for each geometry and profile that both platforms have a device job for.

    Its id names both in the order given. Its platform is the one that runs on cards, if any does. Its time
    limit is the sum of both limits, and its failure is expected if that of either job is. `jobs` are of the
    device lane, already filtered by everything but the platform.

    Raises:
        EmptySelectionError: there is none.
    """
    mine, its = ({_work(job): job for job in jobs if job.platform.name == each.name} for each in (one, two))
    shared = [work for work in mine if work in its]
    if not shared:
        raise EmptySelectionError(
            f"no geometry and profile is in the device lane of both {one.name} and {two.name}; "
            "choose others, or add them in an overlay"
        )
    holder, other = (two, one) if two.on_cards else (one, two)
    return tuple(
        named(
            replace(
                mine[work],
                lane=Lane.COMPARE,
                kernel=COMPARED,
                platform=holder,
                other=other,
                other_first=other is one,
                timeout=mine[work].timeout + its[work].timeout,
                expected_failure=mine[work].expected_failure or its[work].expected_failure,
            )
        )
        for work in shared
    )


def _work(job: Job) -> tuple[str, str | None]:
    return job.geometry_name, job.profile
