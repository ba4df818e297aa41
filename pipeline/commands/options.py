"""The command line's options."""

from __future__ import annotations

import argparse
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NoReturn

from golden.errors import UserError
from pipeline.ground.jobs import Lane
from pipeline.ground.words import closest, unbroken
from pipeline.matrix.durations import parse_duration
from pipeline.matrix.select import MOST_SHARDS

LANES = {"compile": Lane.COMPILE, "run": Lane.DEVICE, "compare": Lane.COMPARE}
"""The lane that each of the running commands is for."""

OUTPUT = Path("out")
"""The folder of runs and goldens if the command line names no other."""

REFERENCES = Path("references.json")
"""The file of performance references if the command line names no other."""

QUEUE = 3600.0
"""Seconds that a job may wait for a card of `task-submit` if the command line gives no other time."""

WITHIN = 24 * 3600.0
"""Seconds between the beginnings of runs whose reports are merged, at most."""

ABSOLUTE, RELATIVE = "absolute", "relative"
"""How the paths of attachments in a report can be written."""

HISTORY = {
    "new [RUN]": "jobs that are red, and were not, or in another way",
    "fixed [RUN]": "jobs that passed, and were red",
    "failing [RUN]": "jobs that are red, with the age of their failure in runs and days",
    "causes [RUN]": "the ways in which jobs are red, and how many are in each",
    "recurring [RUN]": "jobs that are red in a way that was fixed",
    "flaky [RUN]": "jobs that ended otherwise although neither commit nor toolchain changed",
    "stabilised [RUN]": "jobs that were flaky and have passed since",
    "timed-out [RUN]": "jobs that did not end in time: whether they hang or are slow",
    "slower [RUN]": "metrics that rose beyond their noise, on the same device model",
    "faster [RUN]": "metrics that fell beyond their noise, on the same device model",
    "skipped [RUN]": "jobs that were skipped, and were not the last time",
    "vanished [RUN]": "jobs that the last run like this one had, and no run since",
    "nights [RUN]": "how the last runs went: pass rate, states, seconds",
    "red [RUN]": "how long all was red in the last runs, and each job",
    "by-platform [RUN]": "how jobs ended on each platform in the last runs",
    "by-device [RUN]": "how tries of jobs ended on each device in the last runs",
    "first-bad JOB [RUN]": "between which runs and commits a job broke",
    "last-pass JOB [RUN]": "when a job last passed",
    "diff RUN RUN": "what two runs do not have alike",
    "import PATH...": "brings in run folders, results.json and JUnit files",
    "prune": "forgets runs by --days, by --runs, or by both",
}
"""What `history` does, with the words it takes: a run is an id, `last` or a branch."""

_ANY_RUN = "id of the run, or last, the folder of a run, a results.json or a JUnit file of this pipeline"

_FILTERS = ("geometry", "platform", "kernel", "profile")


class _Parser(argparse.ArgumentParser):
    """argparse with this project's exit code and without its guesses at abbreviated options."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)

    def error(self, message: str) -> NoReturn:
        self.refuse(message, self)

    def refuse(self, message: str, helpful: _Parser) -> NoReturn:
        """Exit with one line that names the parser whose help is useful."""
        told = unbroken(f"{self.prog}: {message}; see {helpful.prog} --help")
        self.exit(UserError.exit_code, f"{told}\n")

    @property
    def options(self) -> set[str]:
        """Its own options, not those of its commands."""
        return {option for action in self._actions for option in action.option_strings}

    @property
    def commands(self) -> dict[str, _Parser]:
        """The parsers of its commands, by name."""
        named = (action.choices for action in self._actions if isinstance(action.choices, dict))
        return {name: command for choices in named for name, command in choices.items()}

    def leaves(self) -> Iterator[_Parser]:
        """The parsers below it, and itself, that have no commands."""
        for command in self.commands.values():
            yield from command.leaves()
        if not self.commands:
            yield self


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse a command line; exits with code 4 if it cannot be understood.

    An empty value, which a shell makes of a variable that is not set (`--failed "$RUN"`), would count as an
    option that was not given. `--jobs=--` is refused too: argparse takes it for an empty list.
    """
    top = parser(*arguments[:1])
    for argument in arguments:
        if not argument or re.fullmatch(r"--[a-z-]+=(--)?", argument):
            before = f"{argument.partition('=')[0]!r}" if argument else "an argument"
            top.error(f"{before} is empty: give a value or leave it out")
    here = _refuse_misplaced(top, arguments)
    parsed, unknown = top.parse_known_args(arguments)
    if unknown:
        first = unknown[0].partition("=")[0]
        near = f"; {closest(first, here.options)}" if first.startswith("-") else ""
        here.refuse(f"unrecognized arguments: {' '.join(unknown)}{near}", here)
    return parsed


def _refuse_misplaced(top: _Parser, arguments: Sequence[str]) -> _Parser:
    """The parser of the command; exits if an option belongs to a different one than stands before it.

    argparse would name a help text that does not have the option, or take the option's value for the command.
    """
    here = top
    for argument in itertools.takewhile(lambda argument: argument != "--", arguments):
        option = argument.partition("=")[0]
        here = here.commands.get(argument, here)
        if option.startswith("-") and option not in here.options:
            owners = [leaf for leaf in parser().leaves() if option in leaf.options]
            names = ", ".join(leaf.prog.removeprefix(f"{top.prog} ") for leaf in owners)
            if owners:
                here.refuse(f"{option} has no place here; it is an option of {names}", owners[0])
    return here


def parser(only: str = "") -> _Parser:
    """The command line. `command` tells the commands apart, `action` those of `report`.

    If `only` is a command, the others are left out: `list` need not wait until they are declared.
    """
    top = _Parser(
        prog="python -m pipeline", description="Regression of int8 kernels for Ascend NPUs, exact to the bit."
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, add in _COMMANDS.items():
        if only == name or only not in _COMMANDS:
            add(commands, name)
    return top


def _add_list(commands: Any, name: str) -> None:
    listing = commands.add_parser(
        name, help="list the jobs of the lanes compile and device, or of one lane; nothing is run"
    )
    _add_selection(listing, _FILTERS)
    _add_root(listing)
    lanes = [lane.value for lane in Lane]
    _add(listing, "--lane", None, "list only this lane (default: compile and device)", choices=lanes)
    parts = (
        "instead print, as JSON for a CI's matrix, the shards of these jobs: N, or as many as there are jobs"
    )
    _add(listing, "--shards", "N", parts, type=_whole(1, MOST_SHARDS))
    _add(listing, "--explain", "JOB", "show which lines of the matrix made this job")
    _add(listing, "--plan", "JOB", "show how this job's geometry is tiled, what that costs, what else fits")
    _add_flag(listing, "--faults", "list the faults that --inject takes, and what each does")


def _add_doctor(commands: Any, name: str) -> None:
    doctor = commands.add_parser(
        name, help="show what is installed, which jobs can run here, and why others cannot"
    )
    _add_matrix(doctor)


def _add_replay(commands: Any, name: str) -> None:
    replay = commands.add_parser(
        name, help="judge a mismatch again from the files that its run kept; needs no device"
    )
    _add(replay, "run", "RUN", "id of the run, or last")
    _add(replay, "job", "JOB", "id of the job")
    _add_root(replay)


def _add_notify(commands: Any, name: str) -> None:
    notify = commands.add_parser(
        name, help="tell others how an earlier run went; the exit code is not that of the run"
    )
    _add(notify, "run", "RUN", _ANY_RUN)
    _add_root(notify)
    _add(notify, "--markdown", "FILE", "write what is new, fixed, sick and slower to this file")
    github = "print an annotation of a GitHub check for each cause, at the kernel's line where it is known"
    _add_flag(notify, "--annotations", github)
    webhook = "post it to the address in this file (default: the one in PIPELINE_WEBHOOK, if it is set)"
    _add(notify, "--webhook", "FILE", webhook)


def _add_dashboard(commands: Any, name: str) -> None:
    dashboard = commands.add_parser(
        name, help="write the dashboard of an earlier run again, with what the history knows by now"
    )
    _add(dashboard, "run", "RUN", f"{_ANY_RUN} (default: last)", nargs="?", default="last")
    _add_root(dashboard)
    site = "write it to this folder, with copies of files of jobs that are red (default: in the run's folder)"
    _add(dashboard, "--site", "DIR", site)


def _add_report(commands: Any, name: str) -> None:
    report = commands.add_parser(
        name, help="show or merge reports of earlier runs; print entries that excuse their failures"
    )
    actions = report.add_subparsers(dest="action", required=True, metavar="ACTION")
    show = actions.add_parser(
        "show", help="show an earlier run and end with its exit code; write its files again on request"
    )
    _add(show, "run", "RUN", "id of the run (default: the last run)", nargs="?", default="last")
    _add_baseline(show)
    _add_output(show)
    excuses = actions.add_parser(
        "excuses", help="print entries for expected_failures that excuse what failed in an earlier run"
    )
    _add(excuses, "run", "RUN", "id of the run (default: the last run)", nargs="?", default="last")
    _add_root(excuses)
    merge = actions.add_parser(
        "merge", help="make one JUnit file of several; a missing shard becomes an error"
    )
    _add(merge, "files", "FILE", "JUnit files of this pipeline", nargs="+")
    _add(merge, "--out", "FILE", "write the merged report to this file", required=True)
    shards = "how many shards there must be (default: what the reports say)"
    _add(merge, "--shards", "N", shards, type=_whole(1, MOST_SHARDS))
    within = "how far apart the runs may have begun (default: 24h)"
    _add(merge, "--within", "TIME", within, default=WITHIN)
    newest = "of a case in several reports, the newest run's counts (default: the worst)"
    _add_flag(merge, "--newest", newest)


def _add_history(commands: Any, name: str) -> None:
    width = max(map(len, HISTORY))
    told = "\n".join(f"  {usage:<{width}}  {what}" for usage, what in HISTORY.items())
    history = commands.add_parser(
        name,
        help="ask the database of earlier runs; bring runs in; forget runs",
        epilog=f"questions, and what else there is to do:\n{told}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [usage.split()[0] for usage in HISTORY]
    _add(history, "question", "QUESTION", "what to do; see below", choices=names)
    about = "a run (an id, a branch, or last, the default), the id of a job, or paths; see below"
    _add(history, "what", "WHAT", about, nargs="*")
    _add(history, "--runs", "N", "how many earlier runs to look at (default: 30), or for prune to keep")
    _add(history, "--days", "N", "for prune: forget runs that began more than N days ago")
    _add_flag(history, "--json", "print the answers as JSON")
    _add_root(history)


def _add_matrix(command: Any) -> None:
    overlay = "merge this overlay over ./matrix.yaml; may be repeated, later overlays win"
    _add(command, "--matrix", "FILE", overlay, action="append", default=[])


def _add_selection(command: _Parser, names: Sequence[str]) -> None:
    _add_matrix(command)
    group = command.add_argument_group("which jobs (a filter may be repeated)")
    for name in names:
        _add(group, f"--{name}", "NAME", f"select only this {name}", action="append", default=[])
    _add(group, "--id", "GLOB", "select only jobs whose id matches", action="append", default=[])
    _add(group, "--shard", "I/N", "select part I of N parts that take about equally long")
    day = "the day that @nightly seeds and end dates of expected failures are taken from (default: today)"
    _add(group, "--date", None, day, type=_argument(_day, "a day is written YYYY-MM-DD"))


def _add_root(command: Any) -> None:
    what = f"folder of runs and computed goldens (default: {OUTPUT})"
    _add(command, "--output", "DIR", what, default=OUTPUT)


def _add_baseline(command: Any) -> None:
    what = (
        "be red only for what is new: failures that this earlier run had too do not count (its id, last, its "
        "folder, or a JUnit file of this pipeline)"
    )
    _add(command, "--baseline", "RUN", what)


def _add_output(command: Any) -> None:
    _add_root(command)
    for option, report, file in (
        ("--junit", "JUnit report", "junit.xml"),
        ("--summary", "Markdown summary", "summary.md"),
    ):
        what = f"write the {report} to this file (default: {file} in the folder of the run)"
        _add(command, option, "FILE", what)
    what = (
        "write the paths of attached files absolute, as Jenkins reads them, or relative to the checkout, "
        "as GitLab does (default: absolute)"
    )
    _add(command, "--attachments", None, what, choices=[ABSOLUTE, RELATIVE], default=ABSOLUTE)


def _add_lane(commands: Any, name: str) -> None:
    helps = {
        Lane.COMPILE: "compile kernels; also verify those that the matrix names, without a card",
        Lane.DEVICE: "run kernels and compare them with the golden",
        Lane.COMPARE: "run all comparison stages and name the first one that is wrong",
    }
    lane = LANES[name]
    command = commands.add_parser(name, help=helps[lane])
    if lane is Lane.COMPARE:
        # A job of this lane runs the programs of all kernels.
        _add_selection(command, ("geometry", "platform", "profile"))
        command.set_defaults(kernel=[])
    else:
        _add_selection(command, _FILTERS)
    group = command.add_argument_group("how to run them")
    jobs = "how many jobs may run in parallel, as far as their devices allow (default: one per processor)"
    _add(group, "--jobs", "N", jobs, default=0)
    _add(group, "--devices", "IDS", "use only the devices with these ids, such as 0,2")
    launcher = "lock the cards of this host, or get each card from the scheduler task-submit (default: local)"
    _add(group, "--launcher", None, launcher, choices=["local", "task-submit"], default="local")
    executor = "run the jobs on this host, or on the nodes of a Ray cluster (default: local)"
    _add(group, "--executor", None, executor, choices=["local", "ray"], default="local")
    address = "address of the cluster's head, HOST:PORT (default: RAY_ADDRESS, else this host's cluster)"
    _add(group, "--address", "ADDR", address)
    _add(group, "--queue", "TIME", "how long a job may wait for a card of task-submit (default: 1h)")
    retries = "retry a job up to N times after an infrastructure error (default: as in the matrix, else 2)"
    _add(group, "--retries", "N", retries, type=_whole(0))
    skips = "skip jobs that ran in an earlier run and cannot run here now; without it they are errors"
    _add_flag(group, "--allow-new-skips", skips)
    deadline = "end the whole run within this time, such as 30m or 8h, with a complete report"
    _add(group, "--deadline", "TIME", deadline)
    references = f"compare the performance with the references in this file (default: {REFERENCES})"
    _add(group, "--references", "FILE", references)
    _add_flag(group, "--update-references", "show how this run changes the references, then write them")
    _add_baseline(group)
    earlier = group.add_mutually_exclusive_group()
    _add(earlier, "--resume", "RUN", "finish this earlier run, with its settings (an id, or last)")
    failed = "run the failed jobs of this earlier run again, with its settings (an id, or last)"
    _add(earlier, "--failed", "RUN", failed)
    if lane is not Lane.COMPILE:
        _add(group, "--repeat", "N", "run each job N times and fail if its outputs differ (default: 1)")
        _add(group, "--inputs", "FILE", "run on the tensors in this .npz file")
        fault = "inject this fault, one of `list --faults`, to see that it is found; emulator only"
        _add(group, "--inject", "FAULT", fault, default="")
    if lane is Lane.COMPARE:
        engines = "run each job on these two platforms and compare their outputs with each other"
        _add(group, "--engines", "A,B", engines, default="")
        stage = (
            "tile: run the stages up to the last one that computes a first tile only, the whole kernels "
            "before it included (default: all)"
        )
        _add(group, "--stage", None, stage, choices=["tile", "all"], default="")
    _add_output(command)


def _add(command: Any, name: str, value: str | None, what: str, **settings: Any) -> None:
    """Add an option or argument with a value, whose name in the help gives its type if none is given."""
    read = _TYPES.get(value or "", str)
    command.add_argument(name, metavar=value, help=what, **{"type": read, **settings})


def _add_flag(command: Any, name: str, what: str) -> None:
    command.add_argument(name, action="store_true", help=what)


def _argument(read: Callable[[str], Any], rule: str) -> Callable[[str], Any]:
    def checked(text: str) -> Any:
        try:
            return read(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r}: {rule}") from None

    return checked


def _day(text: str) -> date:
    if not re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        raise ValueError("from Python 3.11 on `fromisoformat` reads other forms too")
    return date.fromisoformat(text)


def _whole(least: int, most: float = math.inf) -> Callable[[str], int]:
    def whole(text: str) -> int:
        if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
            raise ValueError
        return int(text)

    limit = "" if most == math.inf else f", at most {most}"
    return _argument(whole, f"must be a whole number, at least {least}{limit}")


_TYPES: Mapping[str, Callable[[str], Any]] = {
    "FILE": Path,
    "DIR": Path,
    "N": _whole(1),
    "TIME": _argument(parse_duration, "a duration is 90s, 5m, 1h30m or a number of seconds, at most a week"),
}
"""What a value is read as, by its name in the help; any other is text."""

_COMMANDS: Mapping[str, Callable[[Any, str], None]] = {
    "list": _add_list,
    **dict.fromkeys(LANES, _add_lane),
    "doctor": _add_doctor,
    "replay": _add_replay,
    "notify": _add_notify,
    "dashboard": _add_dashboard,
    "report": _add_report,
    "history": _add_history,
}
"""What declares each command, in the order of the help."""
