"""The command line's options."""

from __future__ import annotations

import argparse
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NoReturn

from golden.errors import UserError
from pipeline.ground.jobs import Lane
from pipeline.matrix.durations import parse_duration
from pipeline.matrix.select import MOST_SHARDS

USAGE = UserError.exit_code
"""Exit code of a command line that cannot be understood."""

LANES = {"compile": Lane.COMPILE, "run": Lane.DEVICE, "compare": Lane.COMPARE}
"""The lane that each of the running commands is for."""

OUTPUT = Path("out")
"""The folder of runs and goldens if the command line names no other."""

REFERENCES = Path("references.json")
"""The file of performance references if the command line names no other."""

QUEUE = 3600.0
"""Seconds that a job may wait for a card of `task-submit` if the command line gives no other time."""

ABSOLUTE, RELATIVE = "absolute", "relative"
"""How the paths of attachments in a report can be written."""

_FILTERS = ("geometry", "platform", "kernel", "profile")

_DURATION = "a duration is 90s, 5m, 1h30m or a number of seconds, at most a week"


class _Parser(argparse.ArgumentParser):
    """argparse with this project's exit code and without its guesses at abbreviated options."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)

    def error(self, message: str) -> NoReturn:
        self.refuse(message, self)

    def refuse(self, message: str, helpful: _Parser) -> NoReturn:
        """Exit with one line that names the parser whose help is useful."""
        self.exit(USAGE, f"{self.prog}: {message}; see {helpful.prog} --help\n")

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
    top = parser()
    for argument in arguments:
        if not argument or re.fullmatch(r"--[a-z-]+=(--)?", argument):
            before = f"{argument.partition('=')[0]!r}" if argument else "an argument"
            top.error(f"{before} is empty: give a value or leave it out")
    _refuse_misplaced(top, arguments)
    return top.parse_args(arguments)


def _refuse_misplaced(top: _Parser, arguments: Sequence[str]) -> None:
    """Exit if an option belongs to a different command than the one before it.

    argparse would name a help text that does not have the option, or take the option's value for the command.
    """
    here = top
    for argument in itertools.takewhile(lambda argument: argument != "--", arguments):
        option = argument.partition("=")[0]
        here = here.commands.get(argument, here)
        owners = [leaf for leaf in top.leaves() if option in leaf.options]
        if option.startswith("-") and owners and option not in here.options:
            names = ", ".join(leaf.prog.removeprefix(f"{top.prog} ") for leaf in owners)
            here.refuse(f"{option} has no place here; it is an option of {names}", owners[0])


def parser() -> _Parser:
    """The whole command line. `command` tells the commands apart, `action` those of `report`."""
    top = _Parser(
        prog="python -m pipeline", description="Regression of int8 kernels for Ascend NPUs, exact to the bit."
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    listing = commands.add_parser("list", help="list the jobs of the matrix; nothing is run")
    _add_selection(listing, _FILTERS)
    _add_root(listing)
    listing.add_argument(
        "--lane",
        choices=[lane.value for lane in Lane],
        help="list only this lane (default: compile and device)",
    )
    listing.add_argument("--explain", metavar="JOB", help="show which lines of the matrix made this job")
    listing.add_argument(
        "--faults", action="store_true", help="list the faults that --inject takes, and what each does"
    )
    for name, lane in LANES.items():
        _add_run(commands, name, lane)
    doctor = commands.add_parser(
        "doctor", help="show what is installed, which jobs can run here, and why others cannot"
    )
    _add_matrix(doctor)
    replay = commands.add_parser(
        "replay", help="judge a mismatch again from the files that its run kept; needs no device"
    )
    replay.add_argument("run", metavar="RUN", help="id of the run, or last")
    replay.add_argument("job", metavar="JOB", help="id of the job")
    _add_root(replay)
    report = commands.add_parser("report", help="show or merge reports of earlier runs")
    actions = report.add_subparsers(dest="action", required=True, metavar="ACTION")
    show = actions.add_parser(
        "show", help="show the summary of an earlier run; write its report files again on request"
    )
    show.add_argument(
        "run", nargs="?", default="last", metavar="RUN", help="id of the run (default: the last run)"
    )
    _add_output(show)
    merge = actions.add_parser(
        "merge", help="make one JUnit file of several; a missing shard becomes an error"
    )
    merge.add_argument("files", nargs="+", type=Path, metavar="FILE", help="JUnit files of this pipeline")
    merge.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="write the merged report to this file"
    )
    merge.add_argument(
        "--shards",
        type=_shards,
        metavar="N",
        help="how many shards there must be (default: what the reports say)",
    )
    return top


def _add_matrix(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--matrix",
        action="append",
        type=Path,
        default=[],
        metavar="FILE",
        help="merge this overlay over ./matrix.yaml; may be repeated, later overlays win",
    )


def _add_selection(command: argparse.ArgumentParser, names: Sequence[str]) -> None:
    _add_matrix(command)
    group = command.add_argument_group("which jobs (a filter may be repeated)")
    for name in names:
        group.add_argument(
            f"--{name}", action="append", default=[], metavar="NAME", help=f"select only this {name}"
        )
    group.add_argument(
        "--id", action="append", default=[], metavar="GLOB", help="select only jobs whose id matches"
    )
    group.add_argument("--shard", metavar="I/N", help="select part I of N parts that take about equally long")
    group.add_argument(
        "--date",
        type=_argument(_day, "a day is written YYYY-MM-DD"),
        help="the day that @nightly seeds and end dates of expected failures are taken from (default: today)",
    )


def _add_root(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--output",
        type=Path,
        default=OUTPUT,
        metavar="DIR",
        help=f"folder of runs and computed goldens (default: {OUTPUT})",
    )


def _add_output(command: argparse.ArgumentParser) -> None:
    _add_root(command)
    command.add_argument(
        "--junit",
        type=Path,
        metavar="FILE",
        help="write the JUnit report to this file (default: junit.xml in the folder of the run)",
    )
    command.add_argument(
        "--summary",
        type=Path,
        metavar="FILE",
        help="write the Markdown summary to this file (default: summary.md in the folder of the run)",
    )
    command.add_argument(
        "--attachments",
        choices=[ABSOLUTE, RELATIVE],
        default=ABSOLUTE,
        help="write the paths of attached files absolute, as Jenkins reads them, or relative to the "
        "checkout, as GitLab does (default: absolute)",
    )


def _add_run(commands: Any, name: str, lane: Lane) -> None:
    helps = {
        Lane.COMPILE: "compile kernels; also verify those that the matrix names, without a card",
        Lane.DEVICE: "run kernels and compare them with the golden",
        Lane.COMPARE: "run all comparison stages and name the first one that is wrong",
    }
    command = commands.add_parser(name, help=helps[lane])
    if lane is Lane.COMPARE:
        # A job of this lane runs the programs of all kernels.
        _add_selection(command, ("geometry", "platform", "profile"))
        command.set_defaults(kernel=[])
    else:
        _add_selection(command, _FILTERS)
    group = command.add_argument_group("how to run them")
    group.add_argument(
        "--jobs",
        type=_at_least(1),
        default=0,
        metavar="N",
        help="how many jobs run in parallel (default: one per processor)",
    )
    group.add_argument("--devices", metavar="IDS", help="use only the devices with these ids, such as 0,2")
    group.add_argument(
        "--launcher",
        choices=["local", "task-submit"],
        default="local",
        help="lock the cards of this host, or get each card from the scheduler task-submit (default: local)",
    )
    group.add_argument(
        "--queue",
        type=_argument(parse_duration, _DURATION),
        metavar="TIME",
        help="how long a job may wait for a card of task-submit (default: 1h)",
    )
    group.add_argument(
        "--retries",
        type=_at_least(0),
        metavar="N",
        help="retry a job up to N times after an infrastructure error (default: as in the matrix, else 2)",
    )
    group.add_argument(
        "--deadline",
        type=_argument(parse_duration, _DURATION),
        metavar="TIME",
        help="end the whole run within this time, such as 30m or 8h, with a complete report",
    )
    group.add_argument(
        "--references",
        type=Path,
        metavar="FILE",
        help=f"compare the performance with the references in this file (default: {REFERENCES})",
    )
    group.add_argument(
        "--update-references",
        action="store_true",
        help="show how this run changes the references, then write them",
    )
    earlier = group.add_mutually_exclusive_group()
    earlier.add_argument(
        "--resume", metavar="RUN", help="finish this earlier run, with its settings (an id, or last)"
    )
    earlier.add_argument(
        "--failed",
        metavar="RUN",
        help="run the failed jobs of this earlier run again, with its settings (an id, or last)",
    )
    if lane is not Lane.COMPILE:
        group.add_argument(
            "--repeat",
            type=_at_least(1),
            metavar="N",
            help="run each job N times and fail if its outputs differ (default: 1)",
        )
        group.add_argument("--inputs", type=Path, metavar="FILE", help="run on the tensors in this .npz file")
        group.add_argument(
            "--inject",
            default="",
            metavar="FAULT",
            help="inject this fault, one of `list --faults`, to see that it is found; emulator only",
        )
    if lane is Lane.COMPARE:
        group.add_argument(
            "--engines",
            default="",
            metavar="A,B",
            help="run each job on these two platforms and compare their outputs with each other",
        )
        group.add_argument(
            "--stage",
            choices=["tile", "all"],
            default="",
            help="tile: run the stages up to the last one that computes a first tile only, the whole kernels "
            "before it included (default: all)",
        )
    _add_output(command)


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


def _at_least(least: int) -> Callable[[str], int]:
    def whole(text: str) -> int:
        if not (text.isascii() and text.isdigit() and int(text) >= least):
            raise ValueError
        return int(text)

    return _argument(whole, f"must be a whole number, at least {least}")


def _shards(text: str) -> int:
    number = _at_least(1)(text)
    if number > MOST_SHARDS:
        raise argparse.ArgumentTypeError(f"{text}: must be at most {MOST_SHARDS}")
    return number
