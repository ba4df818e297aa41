"""`report` and `replay`: what earlier runs left."""

from __future__ import annotations

import os
import sys
import tempfile
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

from golden.errors import UserError
from pipeline.commands.settings import refuse_loop, refuse_overwriting, report_files
from pipeline.ground.results import OUTCOMES
from pipeline.ground.words import unbroken
from pipeline.history.named import located
from pipeline.history.past import place
from pipeline.matrix.select import EmptySelectionError
from pipeline.report.files import check_writable
from pipeline.report.merge import merge
from pipeline.report.results import retold
from pipeline.report.terminal import SizedConsole, Terminal
from pipeline.report.text import safe
from pipeline.results.baseline import judged, known, read_baseline
from pipeline.results.excuses import entry
from pipeline.results.fingerprint import RED
from pipeline.run.folders import read_run
from pipeline.run.listener import Listener
from pipeline.run.states import exit_code
from pipeline.work.replay import account, replay


class InjectedError(UserError):
    """A run with an injected fault has no failures to excuse; one line: run, fault, remedy."""


def show_report(arguments: Namespace) -> int:
    """`report show`: an earlier run's summary on the terminal, and its report files where asked for."""
    refuse_overwriting(arguments)
    root = arguments.output.absolute() / "runs"
    record = read_run(root, arguments.run)
    if arguments.baseline:
        where = place(arguments.output, os.environ)
        name = located(arguments.baseline, root, where)
        baseline = read_baseline(name, root, where, record.settings, record.run_id)
        results = {job: known(judged(one), baseline) for job, one in record.results.items()}
        record = replace(record, results=results, facts={**record.facts, "baseline": name})
    run, summary = retold(record, root / record.run_id)
    listeners: list[Listener] = [Terminal(SizedConsole())]
    with tempfile.TemporaryDirectory() as scratch:
        if arguments.junit or arguments.summary:
            files = report_files(arguments, retold=True)
            # What the run's own folder says without the baseline stays as it is.
            files.run_started(replace(run, folder=Path(scratch)) if arguments.baseline else run)
            listeners.append(files)
        for listener in listeners:
            listener.run_finished(summary)
    return summary.exit_code


def print_excuses(arguments: Namespace) -> int:
    """`report excuses`: for each red job of an earlier run the entry of `expected_failures` that excuses it.

    Raises:
        EmptySelectionError: no job of the run is red.
        InjectedError: the run's failures were asked for.
    """
    record = read_run(arguments.output.absolute() / "runs", arguments.run)
    if fault := record.settings.inject:
        what = "its failures are no bugs to excuse; name a run without --inject"
        raise InjectedError(f"run {record.run_id} has --inject {fault}: {what}")
    red = [one for one in record.all_results() if OUTCOMES[one.state].outcome in RED]
    if not red:
        raise EmptySelectionError(f"nothing failed in run {record.run_id}; name another run")
    lines = [line for result in red for line in entry(result)]
    empty = all(line.lstrip().startswith("#") for line in lines)
    lines.insert(0, "expected_failures: []" if empty else "expected_failures:")
    if inputs := record.settings.inputs:
        lines.insert(
            0, f"# Run {record.run_id} has --inputs {inputs}: these entries are for such runs alone."
        )
    sys.stdout.write("".join(f"{safe(line)}\n" for line in lines))
    return 0


def replay_job(arguments: Namespace) -> int:
    """`replay`: a mismatch of an earlier run judged again, from what the run kept."""
    root = arguments.output.absolute() / "runs"
    record = read_run(root, arguments.run)
    result = replay(record, root / record.run_id, arguments.job, arguments.output / "goldens")
    sys.stdout.write(safe(account(result)))
    return exit_code([result.state])


def merge_reports(arguments: Namespace) -> int:
    """`report merge`: one JUnit file of several. What is there stays until it is replaced."""
    refuse_loop("out", arguments.out)
    check_writable(arguments.out)
    span, newest = arguments.within, arguments.newest
    merged = merge(arguments.files, arguments.out, arguments.shards, within=span, newest=newest)
    told = f"{arguments.out}: {merged}".split("\n")
    sys.stdout.write("".join(f"{unbroken(line)}\n" for line in told))
    return merged.exit_code
