"""Results as test cases: which cases there are, what they are called, and all the text they carry."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from golden import profiles
from pipeline.diff import render
from pipeline.ground.jobs import INPUTS, Lane, Platform, State
from pipeline.ground.results import DIAGNOSIS, OUTCOMES, REPRODUCE, Diff, Outcome, Result, StageResult
from pipeline.ground.words import counted
from pipeline.report.text import alternatives, bounded, facts_of, likely, one_line

BODY_LIMIT = 16_384
"""Characters of one failure body or one captured output; the run folder keeps what was cut."""

PASSED_OUTPUT_LIMIT = 2_048
"""Characters of output kept of a job that passed."""

MOST_ATTACHED = 32
"""Files that one case attaches at most; a compiler can leave hundreds."""

RUN_SUITE = "pipeline.run"
"""Suite and class name of the case that reports faults of the pipeline itself."""


@dataclass(frozen=True)
class Case:
    """One test case; its text is safe and bounded, its message one line and never empty.

    `name` alone is unique in a report and stable from night to night, as `classname` is: history is keyed by
    them, and consumers disagree about which.
    `body` says what is wrong, `out` is the record: facts as `key=value`, attachments, diffs, captured output.
    """

    classname: str
    name: str
    state: State
    seconds: float
    message: str
    body: str
    out: str


@dataclass(frozen=True)
class Attachments:
    """How artefacts are named: Jenkins reads absolute paths; GitLab paths relative to its checkout.

    `folder` is the run's. Paths are relative to `relative_to`, or absolute where it is None.
    """

    folder: Path
    relative_to: Path | None = None

    def lines(self, artefacts: Sequence[str], state: State) -> Iterator[str]:
        """One line for each artefact of a case in this state, in the form that both consumers look for.

        A case that passed attaches nothing; its files stay in the run's folder. Pictures come first, because
        GitLab shows the first attachment only.
        """
        if OUTCOMES[state].outcome is Outcome.PASSED:
            return
        ordered = sorted(artefacts, key=lambda artefact: PurePath(artefact).suffix != ".png")
        if more := len(ordered[MOST_ATTACHED:]):
            yield f"not_attached={counted(more, 'file')} more in the folder of the run"
        for artefact in ordered[:MOST_ATTACHED]:
            path = (self.folder / artefact).absolute()
            shown = path if self.relative_to is None else os.path.relpath(path, self.relative_to)
            yield f"[[ATTACHMENT|{one_line(str(shown))}]]"


def suite_of(result: Result) -> str:
    """The suite of a result's cases: one for each lane and platform (or pair of platforms)."""
    return one_line(f"{result.job.lane.value}.{result.job.platform_name}")


def states_of(result: Result) -> list[State]:
    """The end states that a result's cases report: the job's own and, in the compare lane, each stage's."""
    return [result.state, *(stage.state for stage in _apart(result))]


def _apart(result: Result) -> tuple[StageResult, ...]:
    """The stages that have cases of their own. A job that does not count excuses its stages with it."""
    if result.job.lane is not Lane.COMPARE:
        return ()
    if result.state not in (State.EXPECTED_FAILURE, State.KNOWN_FAILURE):
        return result.stages
    what = result.state.value.partition("-")[0]
    return tuple(
        stage
        if OUTCOMES[stage.state].outcome in (Outcome.PASSED, Outcome.SKIPPED)
        else replace(stage, state=result.state, message=f"{what}, see the job: {_stage_message(stage)}")
        for stage in result.stages
    )


def cases_of(result: Result, attachments: Attachments) -> Iterator[Case]:
    """The case of a job; in the compare lane also one for each stage, which then holds facts and diffs."""
    apart = _apart(result)
    yield _job_case(result, () if apart else result.stages, attachments)
    yield from (_stage_case(result, stage, attachments) for stage in apart)


def headline(result: Result) -> str:
    """What happened to a job in one line, never empty: its message, else that of its first wrong stage."""
    if message := one_line(result.message):
        return message
    wrong = (stage for stage in result.stages if OUTCOMES[stage.state].outcome is not Outcome.PASSED)
    first = next(wrong, None)
    return result.state.value if first is None else f"{first.name}: {_stage_message(first)}"


def wrong_diffs(result: Result) -> list[Diff]:
    """The diffs of a job that are not clean, in the order of its stages."""
    return [diff for stage in result.stages for diff in stage.diffs if not diff.clean]


def problem_case(problems: Sequence[str]) -> Case:
    """The error case of a run whose pipeline itself was at fault."""
    message = one_line(problems[0])
    return Case(RUN_SUITE, "problems", State.NO_RESULT, 0.0, message, _body(*problems), "")


def _names(result: Result, *stage: str) -> tuple[str, str]:
    """Class name and name of the case of a job, or of one of its stages: the id, with the stage behind it."""
    classname = f"{suite_of(result)}.{one_line(result.job.geometry_name)}"
    return classname, "/".join(map(one_line, (result.job.id, *stage)))


def _job_case(result: Result, held: Sequence[StageResult], attachments: Attachments) -> Case:
    """A job's own case, with the facts and diffs of the stages it holds; the others have their own cases."""
    # A suite's time counts each second once.
    elsewhere = 0.0 if held else sum(stage.seconds for stage in result.stages)
    diffs = [diff for stage in held for diff in stage.diffs]
    outcome = OUTCOMES[result.state].outcome
    output = bounded(result.output, PASSED_OUTPUT_LIMIT if outcome is Outcome.PASSED else BODY_LIMIT)
    output = output and f"output of the job's process:\n{output}"
    stage_facts = {f"{stage.name}.{key}": value for stage in held for key, value in facts_of(stage).items()}
    files = [*result.artefacts, *(path for stage in held for path in stage.artefacts)]
    causes = {"cause": alternatives(result.causes)} if result.causes else {}
    facts = {**_facts(result), "state": result.state.value, **result.facts, **causes, **stage_facts}
    return Case(
        *_names(result),
        result.state,
        max(0.0, result.seconds - elsewhere),
        headline(result),
        _body(
            _likely(result.facts),
            *(map(_stage_line, result.stages) if len(result.stages) > 1 else ()),
            *map(render.full, diffs),
            # A job's details are often those of its first wrong stage.
            *dict.fromkeys([result.details, *(stage.details for stage in held)]),
            output if outcome is Outcome.ERROR else "",
        ),
        _out(facts, attachments.lines(files, result.state), diffs, output),
    )


def _stage_case(result: Result, stage: StageResult, attachments: Attachments) -> Case:
    own = {"seconds": f"{stage.seconds:.3f}", "state": stage.state.value}
    if REPRODUCE in result.facts and OUTCOMES[stage.state].outcome is Outcome.FAILURE:
        own[REPRODUCE] = result.facts[REPRODUCE]
    facts = {**_facts(result), **_where(result, stage.platforms), **own, **facts_of(stage)}
    return Case(
        *_names(result, stage.name),
        stage.state,
        stage.seconds,
        _stage_message(stage),
        _body(_likely(stage.facts), *map(render.full, stage.diffs), stage.details),
        _out(facts, attachments.lines(stage.artefacts, stage.state), stage.diffs, ""),
    )


def _facts(result: Result) -> dict[str, str]:
    """Facts that must not be in a case's name, because history is keyed by the name."""
    job = result.job
    facts = {
        **_where(result, job.platforms),
        "profile": job.profile or "none",
        # A user's own tensors have no seed.
        "seed": str(profiles.seed_of(job.profile)) if job.profile not in (None, INPUTS) else "none",
        "seconds": f"{result.seconds:.3f}",
        "attempts": str(result.attempts),
    }
    if result.peak_memory:
        facts["peak_memory"] = str(result.peak_memory)
    if job.expected_failure:
        facts["expected-failure"] = f"{job.expected_failure.reason} ({job.expected_failure.link})"
    return facts


def _where(result: Result, platforms: Sequence[Platform]) -> dict[str, str]:
    """What something ran on; of two platforms, with `+` between. Empty if no platform is given."""
    if not platforms:
        return {}
    # A job of two platforms holds a device of its own platform alone.
    device = "none" if result.device is None else str(result.device)
    held = [device if platform == result.job.platform else "none" for platform in platforms]
    return {
        "platform": "+".join(platform.name for platform in platforms),
        "engine": "+".join(platform.backend for platform in platforms),
        "variant": "+".join(platform.variant for platform in platforms),
        "device": "+".join(held),
    }


def _stage_message(stage: StageResult) -> str:
    verdicts = "; ".join(render.verdict(diff) for diff in stage.diffs if not diff.clean)
    return one_line(stage.message) or one_line(verdicts) or stage.state.value


def _stage_line(stage: StageResult) -> str:
    message = _stage_message(stage)
    return f"{stage.name}: {stage.state.value}" + (f": {message}" if message != stage.state.value else "")


def _likely(facts: Mapping[str, str]) -> str:
    """The diagnosis. It comes first, because a dashboard shows only the beginning of a long body."""
    return likely(facts[DIAGNOSIS]) if DIAGNOSIS in facts else ""


def _body(*parts: str) -> str:
    return bounded("\n".join(bounded(part, BODY_LIMIT // 2) for part in parts if part), BODY_LIMIT)


def _out(facts: Mapping[str, str], attached: Iterable[str], diffs: Sequence[Diff], output: str) -> str:
    """A case's record; the facts come first, so that a cut does not remove them."""
    lines = [f"{one_line(key).replace('=', '-')}={one_line(value)}" for key, value in facts.items()]
    return "\n".join([*lines, *attached, *(_body(render.full(diff)) for diff in diffs), output]).rstrip()
