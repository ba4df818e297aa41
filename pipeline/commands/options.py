"""The command line's options."""

from __future__ import annotations

import argparse
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NoReturn

from pipeline.ground.jobs import Lane
from pipeline.matrix.durations import parse_duration
from pipeline.matrix.select import MOST_SHARDS

USAGE = 4
"""Exit code of a command line that cannot be understood."""

LANES = {"compile": Lane.COMPILE, "run": Lane.DEVICE, "compare": Lane.COMPARE}
"""The lane that each of the running commands is for."""

OUTPUT = Path("out")
"""Where runs and goldens are kept if no other folder is named."""

REFERENCES = Path("references.json")
"""The performance references if no other file is named."""

QUEUE = 3600.0
"""Seconds that a job may wait for a card of `task-submit` if no other time is named."""

ABSOLUTE, RELATIVE = "absolute", "relative"
"""How the paths of attachments in a report can be written."""

_DURATION = "a duration is 90s, 5m, 1h30m or a number of seconds, at most a week"


class _Parser(argparse.ArgumentParser):
    """argparse with this project's exit code and without its guesses at abbreviated options."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)

    def error(self, message: str) -> NoReturn:
        self.refuse(message, self)

    def refuse(self, message: str, helpful: _Parser) -> NoReturn:
        """Leave with one line that names the parser whose help is of use."""
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
    """Parse a command line; leaves with exit code 4 where it cannot be understood.

    An empty value, as a shell makes it of a variable that is not set (`--failed "$RUN"`), would count as an
    option that was not given, and `--jobs=--` is one that argparse takes for a list of none.
    """
    top = parser()
    for argument in arguments:
        if not argument or re.fullmatch(r"--[a-z-]+=(--)?", argument):
            before = f"{argument.partition('=')[0]!r}" if argument else "an argument"
            top.error(f"{before} is empty: give a value or leave it out")
    _refuse_misplaced(top, arguments)
    return top.parse_args(arguments)


def _refuse_misplaced(top: _Parser, arguments: Sequence[str]) -> None:
    """Leave where an option is not of the command it stands behind, but of others.

    argparse would point at a help that does not have it, or take its value for the command.
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
        prog="python -m pipeline", description="Regression of int8 conv2d kernels, exact to the bit."
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    listing = commands.add_parser("list", help="the jobs of the matrix, without running any")
    _add_selection(listing)
    _add_root(listing)
    listing.add_argument(
        "--lane", choices=[lane.value for lane in Lane], help="only this lane (default: compile and device)"
    )
    listing.add_argument("--explain", metavar="JOB", help="which lines of the matrix made this job")
    for name, lane in LANES.items():
        _add_run(commands, name, lane)
    doctor = commands.add_parser("doctor", help="what is installed, which jobs can run here, and why not")
    _add_matrix(doctor)
    replay = commands.add_parser("replay", help="a mismatch judged again, from what its run kept: no device")
    replay.add_argument("run", metavar="RUN", help="a run's id, or last")
    replay.add_argument("job", metavar="JOB", help="the job's id")
    _add_root(replay)
    report = commands.add_parser("report", help="show or merge reports of earlier runs")
    actions = report.add_subparsers(dest="action", required=True, metavar="ACTION")
    show = actions.add_parser("show", help="an earlier run's summary; writes its reports again on request")
    show.add_argument(
        "run", nargs="?", default="last", metavar="RUN", help="a run's id (default: the last run)"
    )
    _add_output(show)
    merge = actions.add_parser("merge", help="one JUnit file of several, red where a shard is missing")
    merge.add_argument("files", nargs="+", type=Path, metavar="FILE", help="JUnit files of this pipeline")
    merge.add_argument("--out", type=Path, required=True, metavar="FILE", help="the merged file")
    merge.add_argument("--shards", type=_shards, metavar="N", help="how many shards there must be")
    return top


def _add_matrix(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--matrix",
        action="append",
        type=Path,
        default=[],
        metavar="FILE",
        help="an overlay, merged over ./matrix.yaml; may be repeated, later ones win",
    )


def _add_selection(command: argparse.ArgumentParser) -> None:
    _add_matrix(command)
    group = command.add_argument_group("which jobs (each option may be repeated)")
    for name in ("geometry", "platform", "kernel", "profile"):
        group.add_argument(f"--{name}", action="append", default=[], metavar="NAME", help=f"only this {name}")
    group.add_argument("--id", action="append", default=[], metavar="GLOB", help="only jobs whose id matches")
    group.add_argument("--shard", metavar="I/N", help="only part I of N, balanced by recorded durations")
    group.add_argument(
        "--date",
        type=_argument(_day, "a day is written YYYY-MM-DD"),
        help="the night that @nightly seeds and end dates are taken from (default: today)",
    )


def _add_root(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--output",
        type=Path,
        default=OUTPUT,
        metavar="DIR",
        help=f"where runs and computed goldens are kept (default: {OUTPUT})",
    )


def _add_output(command: argparse.ArgumentParser) -> None:
    _add_root(command)
    command.add_argument(
        "--junit", type=Path, metavar="FILE", help="JUnit report (default: junit.xml in the run's folder)"
    )
    command.add_argument(
        "--summary",
        type=Path,
        metavar="FILE",
        help="Markdown summary (default: summary.md in the run's folder)",
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
        Lane.COMPILE: "compile kernels; verify what the matrix says, without a card",
        Lane.DEVICE: "run kernels and compare them with the golden",
        Lane.COMPARE: "run every comparison stage and say which is the first that is wrong",
    }
    command = commands.add_parser(name, help=helps[lane])
    _add_selection(command)
    group = command.add_argument_group("how to run them")
    group.add_argument(
        "--jobs", type=_at_least(1), default=0, metavar="N", help="at a time (default: processors)"
    )
    group.add_argument("--devices", metavar="IDS", help="only these device ids, such as 0,2")
    group.add_argument(
        "--launcher",
        choices=["local", "task-submit"],
        default="local",
        help="who lends the cards: this pipeline's locks, or the host's scheduler (default: local)",
    )
    group.add_argument(
        "--queue",
        type=_argument(parse_duration, _DURATION),
        metavar="TIME",
        help="with task-submit: longest wait for a card (default: 1h)",
    )
    group.add_argument(
        "--retries", type=_at_least(0), metavar="N", help="after infrastructure errors (default: 2)"
    )
    group.add_argument(
        "--deadline",
        type=_argument(parse_duration, _DURATION),
        metavar="TIME",
        help="end the whole run within this time (30m, 8h), with a valid report",
    )
    group.add_argument(
        "--references",
        type=Path,
        metavar="FILE",
        help=f"performance references (default: {REFERENCES})",
    )
    group.add_argument(
        "--update-references", action="store_true", help="show what changes in the references, then write it"
    )
    earlier = group.add_mutually_exclusive_group()
    earlier.add_argument("--resume", metavar="RUN", help="finish this run (an id, or last)")
    earlier.add_argument("--failed", metavar="RUN", help="run again what failed in this run (an id, or last)")
    if lane is not Lane.COMPILE:
        group.add_argument(
            "--repeat", type=_at_least(1), metavar="N", help="times, outputs must agree (default: 1)"
        )
        group.add_argument("--inputs", type=Path, metavar="FILE", help="run on the tensors of this .npz file")
        group.add_argument(
            "--inject",
            default="",
            metavar="FAULT",
            help="commit this fault (docs/faults.md), to see it found; emulator only",
        )
    if lane is Lane.COMPARE:
        group.add_argument(
            "--engines",
            default="",
            metavar="A,B",
            help="run each job on these two platforms and hold their outputs against one another",
        )
        group.add_argument(
            "--stage",
            choices=["tile", "all"],
            default="",
            help="tile: stop after the first-tile stages (default: all)",
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
