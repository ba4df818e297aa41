"""A baseline: the run whose failures do not count, so that a night that is red anyway shows what is new."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from golden.errors import UserError
from pipeline.ground.jobs import State
from pipeline.ground.results import FINGERPRINT, KNOWN_AS, KNOWN_IN, OUTCOMES, Result
from pipeline.ground.settings import Settings
from pipeline.history.named import results_named
from pipeline.report.text import one_line
from pipeline.results.excuses import Earlier, changed_since, outputs_of, unexplained
from pipeline.run.folders import is_run_id, run_ids

_COMPARED = ("--inputs", "--inject", "--stage")
"""The options of `Settings.compared`."""


class BaselineError(UserError):
    """A baseline says nothing about this run; one line: which, why, remedy."""


@dataclass(frozen=True)
class Baseline:
    """How jobs failed in the run called `name`, by their ids. A report has no outputs to compare."""

    name: str
    failures: Mapping[str, Earlier]


def read_baseline(
    name: str, root: Path, place: str | Path, settings: Settings, current: str = ""
) -> Baseline:
    """Read the baseline for a run with these settings.

    Args:
        name: see `pipeline.history.named.located`.
        root: the folder of runs.
        place: where the history is, which is asked if the run is not there.
        settings: those of the run that is judged.
        current: the id of that run, if it has one yet.

    Raises:
        BaselineError: it is the judged run itself, also merged with others, or of a run with other data,
            another injected fault or other stages.
        UserError: it cannot be read.
    """
    if is_run_id(name) and name not in run_ids(root):
        from pipeline.history.questions import failures, run_named
        from pipeline.history.store import open_history

        with open_history(place) as history:
            run = run_named(history, name)
            compared, found = tuple(json.loads(run.compared)), failures(history, run)
            runs = (run.id, *run.parts.split())
    else:
        before = results_named(name, root)
        compared, runs = before.settings.compared, (before.run, *before.parts)
        found = {
            one.job.id: Earlier(name, one_line(one.facts[FINGERPRINT]), outputs_of(one.stages))
            for one in before.jobs
            if FINGERPRINT in one.facts
        }
    if current in runs:
        told = f"is run {current} itself" if name == current else f"holds run {current} itself"
        raise BaselineError(f"--baseline {one_line(name)}: {told}; name an earlier run")
    for what, then, now in zip(_COMPARED, compared, settings.compared, strict=True):
        if then != now:
            words = [one_line(str(value)) if value else "not given" for value in (then, now)]
            raise BaselineError(
                f"--baseline {one_line(name)}: {what} was {words[0]} there and is {words[1]} here: "
                "failures cannot be compared; name another run"
            )
    return Baseline(name, found)


def known(result: Result, baseline: Baseline | None) -> Result:
    """Let a failure not count that the baseline has too: the same fingerprint and, as far as known, output.

    What was not judged because of the host, or because the run was stopped, is never known.
    """
    if baseline is None or OUTCOMES[result.state].exit_code != 1:
        return result
    before = baseline.failures.get(result.job.id)
    if before is None or one_line(result.facts.get(FINGERPRINT, "")) != before.fingerprint:
        return result
    if unexplained(result) and changed_since(result, lambda _: [before]):
        return result
    return replace(
        result,
        state=State.KNOWN_FAILURE,
        message=_told(baseline.name, result.state.value) + result.message,
        facts={**result.facts, KNOWN_AS: result.state.value, KNOWN_IN: baseline.name},
    )


def judged(result: Result) -> Result:
    """A result as it was before a baseline let it not count."""
    if result.state is not State.KNOWN_FAILURE:
        return result
    facts = dict(result.facts)
    state, name = facts.pop(KNOWN_AS), facts.pop(KNOWN_IN)
    message = result.message.removeprefix(_told(name, state))
    return replace(result, state=State(state), message=message, facts=facts)


def _told(name: str, state: str) -> str:
    return f"known, fails as in {name}: {state}: "
