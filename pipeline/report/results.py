"""The whole result of a run as one JSON document, `results.json`, whose form has a version and a schema.

`python -m pipeline.report.results > ci/schemas/results.schema.json` writes the schema.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from pipeline.commands.facts import VERSIONS
from pipeline.ground.computed import Computed
from pipeline.ground.files import read_file
from pipeline.ground.results import OUTCOMES, Amount, Outcome, Result
from pipeline.ground.settings import Settings
from pipeline.ground.streams import INTERNAL_ERROR, printed
from pipeline.report.cases import BODY_LIMIT, PASSED_OUTPUT_LIMIT
from pipeline.report.document import ReportError, writing
from pipeline.report.overview import overview
from pipeline.report.text import bounded
from pipeline.run.journal import Record
from pipeline.run.listener import RunInfo, RunSummary
from pipeline.run.messages import encoded_in_parts, write_in_parts
from pipeline.run.states import exit_code

NAME = "results.json"
"""The document's name in the folder of a run."""

VERSION: Literal[1] = 1
"""The version of the form. It changes if a field goes or means another thing, not if one is added."""


_AS_WRITTEN = "take the file as its run wrote it"


class RunResults(msgspec.Struct, frozen=True, kw_only=True):
    """A run and how each of its jobs ended.

    `run` is the run's id. Of a merged report `parts` has the ids of the runs that it was made of. `started`
    and `ended` are times with their zone; a run that was killed has no `ended`. `verdict` is the last line of
    the terminal. `commit` has `-dirty` behind it if the sources differed from it. `versions` are of what the
    run ran with, `facts` all that is known of it. `set_aside` and `undecided` give the evidence by device.
    """

    version: Literal[1]
    run: str
    parts: tuple[str, ...] = ()
    started: str
    ended: str | None = None
    seconds: Amount
    exit_code: Annotated[int, msgspec.Meta(ge=0, le=255)]
    verdict: str
    host: str
    commit: str
    branch: str
    versions: dict[str, str]
    settings: Settings
    facts: dict[str, str]
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    set_aside: dict[str, str] = {}
    undecided: dict[str, str] = {}
    jobs: Sequence[Result]


def results_of(run: RunInfo, summary: RunSummary, parts: tuple[str, ...] = ()) -> RunResults:
    """The document of a run that has ended."""
    facts = dict(run.facts)
    # What the run was resumed with applies to it from then on.
    now = {name: facts.get(f"resumed.{name}", value) for name, value in facts.items()}
    return RunResults(
        version=VERSION,
        run=summary.run_id,
        parts=parts,
        started=run.started,
        ended=_ended(run.started, summary.seconds),
        seconds=summary.seconds,
        exit_code=summary.exit_code,
        verdict=overview(summary.results).verdict(summary.seconds, summary.exit_code),
        host=now.get("host", ""),
        commit=now.get("git", ""),
        branch=now.get("branch", ""),
        versions={name: now[name] for name in VERSIONS if name in now},
        settings=run.settings,
        facts=facts,
        notes=run.notes,
        problems=summary.problems,
        set_aside=dict(summary.set_aside),
        undecided=dict(summary.undecided),
        jobs=Computed(_shortened, summary.results),
    )


def retold(record: Record, folder: Path) -> tuple[RunInfo, RunSummary]:
    """What listeners were told of an earlier run, as far as its journal says it."""
    results = record.all_results()
    run = RunInfo(
        record.run_id,
        folder,
        record.plan,
        record.started,
        0,
        record.facts,
        record.notes,
        settings=record.settings,
    )
    seconds = sum(result.seconds for result in results) if record.seconds is None else record.seconds
    code = exit_code(result.state for result in results)
    summary = RunSummary(
        record.run_id,
        folder,
        results,
        code,
        seconds,
        record.set_aside,
        record.undecided,
        at_best=record.at_best,
    )
    if record.exit_code == INTERNAL_ERROR:
        said = f"the messages of this failure, if any were kept, are in {folder}"
        summary = replace(summary, exit_code=INTERNAL_ERROR, problems=(said,))
    return run, summary


def write_results(path: Path, results: RunResults) -> None:
    """Write a document; readers never see a part of it. Raises `ReportError` if it cannot be written."""
    with writing(path):
        write_in_parts(path, itertools.chain(encoded_in_parts(results, "jobs"), (b"\n",)))


def read_results(path: Path) -> RunResults:
    """Read a document.

    Raises:
        ReportError: it cannot be read, is of another version, or is no such document; one line.
    """
    try:
        data = read_file(path)
        version = msgspec.json.decode(data, type=_Versioned).version
        if version != VERSION:
            what = f"has version {version}, this pipeline reads version {VERSION}"
            raise ReportError(f"{path}: {what}: read it with the pipeline that wrote it, or a newer one")
        return msgspec.json.decode(data, type=RunResults)
    except OSError as error:
        raise ReportError(f"{path}: cannot be read: {error.strerror}; name another") from None
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ReportError(f"{path}: is no {NAME} of this pipeline: {error}; {_AS_WRITTEN}") from None


def beside(junit: Path) -> Path:
    """Where the document lies that belongs to a JUnit file: `results.json`, of `X.xml` `X.results.json`."""
    return junit.with_name(NAME if junit.name == "junit.xml" else f"{junit.stem}.{NAME}")


def json_schema() -> str:
    """The JSON Schema of the document."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(RunResults)}
    return msgspec.json.format(msgspec.json.encode(schema), indent=2).decode() + "\n"


class _Versioned(msgspec.Struct):
    version: int


def _ended(started: str, seconds: float) -> str | None:
    try:
        return (datetime.fromisoformat(started) + timedelta(seconds=seconds)).isoformat(timespec="seconds")
    except ValueError:
        return None


def _shortened(result: Result) -> Result:
    """A result with as much of its output as the JUnit file keeps."""
    passed = OUTCOMES[result.state].outcome is Outcome.PASSED
    output = bounded(result.output, PASSED_OUTPUT_LIMIT if passed else BODY_LIMIT)
    return result if output == result.output else replace(result, output=output)


if __name__ == "__main__":
    sys.exit(printed(json_schema()))
