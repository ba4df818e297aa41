"""How a dashboard shows a state, and the texts that its pages and its table share."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from urllib.parse import quote

from pipeline.ground.jobs import Job, State
from pipeline.ground.results import FINGERPRINT, NEW, OUTCOMES, SINCE, Outcome, Result
from pipeline.ground.words import counted
from pipeline.report.cases import headline
from pipeline.report.overview import Group
from pipeline.report.text import alternatives, one_line
from pipeline.run.folders import LONGEST_NAME, name_of_job

MARKS: Mapping[State, str] = {
    State.PASSED: "✓",
    State.EXPECTED_FAILURE: "E",
    State.KNOWN_FAILURE: "B",
    State.SKIPPED: "–",
    State.MISMATCH: "≠",
    State.REFUTED: "R",
    State.COMPILE_ERROR: "C",
    State.UNEXPECTED_PASS: "U",
    State.NONDETERMINISTIC: "N",
    State.PERFORMANCE: "P",
    State.DEVICE_DEPENDENT: "D",
    State.PROVOKED: "V",
    State.CRASHED: "X",
    State.TIMED_OUT: "T",
    State.KILLED: "K",
    State.NO_RESULT: "?",
    State.INTERRUPTED: "I",
    State.INFRASTRUCTURE: "H",
}
"""A sign for each end state; its colour and its frame say the outcome alone."""

_MESSAGE = 240
"""Characters of a message that the first page has, and its search finds."""

_SIDE = ("lane", "workload", "geometry", "kernel", "platform", "profile", "state")
_TOLD = ("outcome", "seconds", "device", "attempts", "since", "fingerprint", "cause", "message")


def is_red(result: Result) -> bool:
    """Whether a job failed or was not judged."""
    return OUTCOMES[result.state].outcome in (Outcome.FAILURE, Outcome.ERROR)


def is_new(result: Result) -> bool:
    """Whether a job is red, and its last run did not fail in this way."""
    return is_red(result) and result.facts.get(SINCE) == NEW


def page_of(job_id: str) -> str:
    """The file of a job's page, named as the job's folder in the run."""
    return f"{name_of_job(one_line(job_id, len(job_id)))}.html"


def address(path: str) -> str:
    """A relative path as a URL."""
    return quote(path, safe="/@+")


def sides_of(result: Result) -> tuple[str, ...]:
    """What a reader filters by: lane, workload, geometry, kernel, platform, profile, state."""
    job: Job = result.job
    profile = job.written_profile or job.profile or ""
    named = (job.lane.value, job.workload.name, job.geometry_name, job.kernel, job.platform_name, profile)
    return tuple(map(one_line, (*named, result.state.value)))


def script_of(results: Sequence[Result], groups: Sequence[Group]) -> str:
    """The jobs for the script of the first page: texts that many jobs share are written once.

    A job is its id, the numbers of what `sides_of` gives, the seconds, the number of its group, whether it is
    new, and its message if it is not green.
    """
    number = {one.job.id: index for index, group in enumerate(groups) for one in group.results}
    texts: list[dict[str, int]] = [{} for _ in _SIDE]
    rows = []
    for one in results:
        sides = [known.setdefault(text, len(known)) for known, text in zip(texts, sides_of(one), strict=True)]
        told = "" if one.state is State.PASSED else _short(headline(one))
        group = number.get(one.job.id, -1)
        rows.append([one_line(one.job.id), *sides, round(one.seconds, 2), group, int(is_new(one)), told])
    states = {state.value: [MARKS[state], ending.outcome.value] for state, ending in OUTCOMES.items()}
    # The script makes the names of the others of their ids.
    named = {one_line(one.job.id): page_of(one.job.id) for one in results}
    pages = {name: page for name, page in named.items() if len(page) >= LONGEST_NAME}
    shared = {"sides": _SIDE, "texts": [list(known) for known in texts], "states": states}
    data = {**shared, "pages": pages, "jobs": rows}
    return f"window.dashboard = {json.dumps(data, separators=(',', ':'))};\n"


def _short(text: str) -> str:
    return text if len(text) <= _MESSAGE else f"{text[: _MESSAGE - 1]}…"


def table_of(results: Sequence[Result]) -> str:
    """All jobs as CSV. No cell begins as a formula of a spreadsheet does."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(("job", *_SIDE, *_TOLD))
    for one in results:
        device = "" if one.device is None else str(one.device)
        told = (one.facts.get(SINCE, ""), one.facts.get(FINGERPRINT, ""), alternatives(one.causes))
        cells = (
            one.job.id,
            *sides_of(one),
            OUTCOMES[one.state].outcome.value,
            f"{one.seconds:.3f}",
            device,
            str(one.attempts),
            *told,
            "" if one.state is State.PASSED else headline(one),
        )
        writer.writerow(map(_harmless, cells))
    return out.getvalue()


def lasting(time: timedelta) -> str:
    """A time in its two largest units, such as `2 days 4 h`."""
    minutes = round(time.total_seconds() / 60)
    hours, days = minutes // 60 % 24, minutes // (24 * 60)
    if days:
        return counted(days, "day") + (f" {hours} h" if hours else "")
    return (f"{hours} h " if hours else "") + f"{minutes % 60} min"


def _harmless(cell: str) -> str:
    text = one_line(cell)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text
