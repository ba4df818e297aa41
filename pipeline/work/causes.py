"""Why an output is wrong: its programs, else arithmetic, host and engine, else what the output looks like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from pipeline.diff.diagnosis import Diagnosis, diagnose
from pipeline.diff.evidence import Evidence
from pipeline.diff.facts import OF_HOST
from pipeline.ground.results import PROGRAM_RIGHT, PROGRAM_WRONG, YES, Diff
from pipeline.work.proof import Verdict


def cause_of(
    evidence: Evidence, diff: Diff, verdicts: Mapping[str, Verdict], *, own: bool = False
) -> Diagnosis:
    """Find out why an output differs from the golden.

    Args:
        evidence: the output and what it was made from.
        diff: how it differs.
        verdicts: what is proved of each program that can have made it wrong, by name, in their order.
        own: whether the golden is of a user's definition, and so may be wrong.
    """
    if diff.problem:
        return diagnose(evidence)
    refuted = [name for name, verdict in verdicts.items() if verdict.refuted]
    if refuted and (wrong := _of_programs(evidence, verdicts, refuted[0])):
        return wrong
    if all(verdict.proved == YES for verdict in verdicts.values()):
        found = diagnose(evidence, elsewhere=_elsewhere(diff, own))
    else:
        found = diagnose(evidence)
    return replace(found, text="\n".join([found.text, _account(verdicts)]))


def _account(verdicts: Mapping[str, Verdict]) -> str:
    return "\n".join(f"{name}: {verdict.account}" for name, verdict in verdicts.items())


def _elsewhere(diff: Diff, own: bool) -> str:
    """Where the fault is, if the programs are right, and what is seen in the output."""
    of_host = any(fact.startswith(OF_HOST) for fact in diff.facts)
    where = "host or engine" if of_host else "toolchain, device or golden" if own else "toolchain or device"
    return f"{PROGRAM_RIGHT}{'; '.join([where, *diff.facts])}; "


def _of_programs(evidence: Evidence, verdicts: Mapping[str, Verdict], name: str) -> Diagnosis | None:
    """The blame of a program that is refuted; None if it is wrong only where the output is right."""
    verdict = verdicts[name]
    beside = 0
    if len(verdicts) == 1 and verdict.places is not None and verdict.places.shape == evidence.wrong.shape:
        beside = int(np.count_nonzero(evidence.wrong & ~verdict.places))
    if beside == (mismatches := np.count_nonzero(evidence.wrong)):
        return None
    line = PROGRAM_WRONG + (f"{name}: " if len(verdicts) > 1 else "") + verdict.why
    if beside:
        line += f"; {beside} of {mismatches} mismatches are where it is right: toolchain or device"
    return Diagnosis(line=line, text=_account(verdicts), blamed=verdict.blamed)


def wrong_step(verdicts: Mapping[str, Verdict]) -> str:
    """Which programs of a job with a wrong output are to blame; empty if that is not known.

    Args:
        verdicts: what is proved of each program of the job, by name.
    """
    blamed = [f"{name}: {verdict.blamed}" for name, verdict in verdicts.items() if verdict.refuted]
    proved = [name for name, verdict in verdicts.items() if verdict.proved == YES]
    if not blamed and len(proved) < len(verdicts):
        return ""
    return "; ".join(blamed or ["outside the programs"]) + (
        f" (proved: {', '.join(proved)})" if proved else ""
    )
