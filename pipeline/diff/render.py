"""A difference as text: one line, where it is, and the tables a reader starts from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipeline.ground.results import Diff, Region
from pipeline.ground.words import counted, listed

REGIONS_LIMIT = 8
"""How many bands, channels or columns a table shows, the worst first."""


def verdict(diff: Diff) -> str:
    """One line: what differs, by how much, and where the mismatches gather."""
    if diff.problem:
        return f"{diff.tensor}: not comparable: {diff.problem}"
    from_what = "" if diff.against == "golden" else f" from that of {diff.against}"
    if not diff.mismatches:
        return f"{diff.tensor}: 0 of {diff.count} elements differ{from_what}"
    return "; ".join(
        [
            f"{diff.tensor}: {diff.mismatches} of {diff.count} elements differ{from_what}",
            f"max |diff| {diff.max_abs}",
            *_gathering("band", diff.bands),
            *_gathering(_across(diff), diff.channels),
            *([f"every difference is {diff.differences[0][0]:+d}"] if len(diff.differences) == 1 else []),
            *([f"{diff.unwritten} of them never written"] if diff.unwritten else []),
            *diff.facts,
        ]
    )


def full(diff: Diff) -> str:
    """The verdict and both hashes; where elements differ, also tables of regions and the first mismatches."""
    return "\n".join(
        [
            verdict(diff),
            f"  actual sha256 {diff.actual_sha}",
            f"  {diff.against} sha256 {diff.golden_sha}",
            *_table("bands", diff.bands),
            *_table(f"{_across(diff)}s", diff.channels),
            *_differences(diff),
            *_first(diff),
        ]
    )


def _across(diff: Diff) -> str:
    """What one of `Diff.channels` is called."""
    return "column" if diff.matrix else "channel"


def _wrong(regions: Sequence[Region]) -> list[Region]:
    return [region for region in regions if region.mismatches]


def _gathering(kind: str, regions: Sequence[Region]) -> Iterator[str]:
    """Says where mismatches are, unless they are in every region."""
    wrong = _wrong(regions)
    if len(wrong) == 1 and len(regions) > 1:
        yield f"only in {wrong[0].name}"
    elif 0 < len(wrong) < len(regions):
        yield f"in {len(wrong)} of {len(regions)} {kind}s: {_numbers(wrong)}"


def _numbers(regions: Sequence[Region]) -> str:
    """The numbers of regions whose names begin with a word and the number."""
    return listed([int(region.name.split()[1]) for region in regions])


def _table(kind: str, regions: Sequence[Region]) -> Iterator[str]:
    wrong = sorted(_wrong(regions), key=lambda region: -region.mismatches)
    if not wrong:
        return
    shown = wrong[:REGIONS_LIMIT]
    yield f"  {kind} with mismatches: {len(wrong)} of {len(regions)}, the worst first"
    column = max(len(region.name) for region in shown)
    for region in shown:
        yield (
            f"    {region.name:<{column}}  {region.mismatches} of {region.count}, max |diff| {region.max_abs}"
        )
    if len(wrong) > len(shown):
        yield f"    and {len(wrong) - len(shown)} more"


def _differences(diff: Diff) -> Iterator[str]:
    if diff.differences:
        rest = diff.mismatches - sum(count for _, count in diff.differences)
        listed = ", ".join(f"{value:+d} x {count}" for value, count in diff.differences)
        yield f"  actual - expected: {listed}" + (f", others x {rest}" if rest else "")


def _first(diff: Diff) -> Iterator[str]:
    if diff.first:
        index = "(row, column)" if diff.matrix else "(row, column, channel)"
        yield f"  first {counted(len(diff.first), 'mismatch', 'mismatches')} at {index}"
    for mismatch in diff.first:
        yield f"    {mismatch.index}: actual {mismatch.actual}, expected {mismatch.expected}"


def hint(diff: Diff) -> str:
    """The facts of a difference, else what one of this form usually comes from; empty if it says nothing.

    Bands or channels say something only if at most half of them are wrong.
    """
    if diff.problem:
        return "the engine gives an output of another form than the kernel declares"
    if diff.facts:
        return "; ".join(diff.facts)
    if diff.unwritten:
        return "part of the output is never stored"
    if diff.max_abs == 1:
        return "rounding: the platform's requantisation variant, or ties rounded differently"
    if _few(diff.bands):
        return "row offset of these bands" if diff.matrix else "padding, halo or row offset of these bands"
    if _few(diff.channels):
        return (
            "what only these columns are made of, such as their columns of the right operand"
            if diff.matrix
            else "bias, scale, offset or filter column of these channels"
        )
    return ""


def _few(regions: Sequence[Region]) -> bool:
    """Whether some of the regions are wrong, and at most half."""
    return 0 < 2 * len(_wrong(regions)) <= len(regions)
