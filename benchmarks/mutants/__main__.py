"""Judge mutants: `python -m benchmarks.mutants [PATTERN ...] [--json FILE]`.

Prints a line for each mutant and one for each program that it makes wrong, with what was said of it; at the
end, the figures. Exit code 1 if a fault was not detected, a reordering not proved, or the catalogue is wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from benchmarks.mutants.catalogue import MUTANTS
from benchmarks.mutants.mutant import Mutant
from benchmarks.mutants.processes import FORK
from benchmarks.mutants.verdict import Verdict, verdict_of

AT_ONCE = 2


def chosen(patterns: Sequence[str]) -> list[Mutant]:
    """The mutants whose name contains, or fits as a pattern, one of some texts; all if there are none."""
    if not patterns:
        return list(MUTANTS)
    return [
        mutant
        for mutant in MUTANTS
        if any(pattern in mutant.name or fnmatchcase(mutant.name, pattern) for pattern in patterns)
    ]


def judged(mutants: Sequence[Mutant]) -> Iterator[Verdict]:
    """The verdicts, in the order of the mutants."""
    with ProcessPoolExecutor(AT_ONCE, mp_context=FORK) as workers:
        yield from workers.map(verdict_of, mutants)


def lines(verdict: Verdict) -> Iterator[str]:
    """A verdict as text."""
    yield f"{verdict.word:10} {verdict.name}"
    for mistake in verdict.mistakes:
        yield f"           {mistake}"
    for name, program in verdict.programs.items():
        outcome = program.outcome
        said = [found.words for found in outcome.said] or [outcome.refused]
        for words in said if outcome.detected else []:
            yield f"           {name}: {words}"
        for found in program.misleading:
            named = " < ".join(f"{file}:{line}" for file, line in found.line)
            yield f"           {name}: not there, or with a false hint: {named}"


def figures(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """How many are detected, pinned and misled about."""
    equivalent = [verdict for verdict in verdicts if verdict.equivalent and not verdict.mistakes]
    faulty = [verdict for verdict in verdicts if not verdict.equivalent and not verdict.mistakes]
    walked = [verdict for verdict in faulty if not verdict.refused]
    refused = [verdict for verdict in faulty if verdict.refused]
    hints = [hint for verdict in faulty for program in verdict.programs.values() for hint in program.hints]
    mistaken = sum(bool(verdict.mistakes) for verdict in verdicts)
    yield f"{len(verdicts)} mutants, of {mistaken} of them the catalogue is wrong"
    yield f"equivalent: {len(equivalent)}, proved {sum(verdict.good for verdict in equivalent)}"
    yield f"faulty: {len(faulty)}, detected {sum(verdict.detected for verdict in faulty)}"
    yield f"  refused: {len(refused)}, at the right line {sum(verdict.pinned for verdict in refused)}"
    yield (
        f"  walked: {len(walked)}, line named {sum(_named(verdict) for verdict in walked)}, "
        f"pinned {sum(verdict.pinned for verdict in walked)}, "
        f"the statement itself {sum(verdict.exact for verdict in walked)}, "
        f"misleading {sum(verdict.misleading for verdict in walked)}"
    )
    yield f"  hints: {len(hints)}, true {sum(hints)}"


def _named(verdict: Verdict) -> bool:
    return all(any(said.line for said in program.outcome.said) for program in verdict.refuted)


def main(arguments: Sequence[str]) -> int:
    """Judge what is asked for; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutants", description=__doc__)
    parser.add_argument("pattern", nargs="*", help="a text in the names of mutants, or a pattern of names")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the verdicts to a file")
    options = parser.parse_args(arguments)
    mutants = chosen(options.pattern)
    if not mutants:
        parser.error("no mutant has such a name")
    verdicts = []
    for verdict in judged(mutants):
        verdicts.append(verdict)
        print(*lines(verdict), sep="\n", flush=True)
    print(*figures(verdicts), sep="\n")
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(verdicts)))
    return int(not all(verdict.good for verdict in verdicts))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
