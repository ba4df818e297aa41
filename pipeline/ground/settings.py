"""The settings of a run: what a command line sets for every job, and which values later runs take over.

Each setting is a field of `Settings`. The field declares everything else about the setting. The facts of a
report, the checks of `--resume` and `--failed` and the command lines that repeat a job follow from it.
"""

from __future__ import annotations

import dataclasses
import datetime
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from golden.errors import UserError


class SettingsError(UserError):
    """A run cannot be resumed or repeated with other settings; one line: option, both values, remedy."""


class TakenUp(Enum):
    """Which value applies when `--resume` or `--failed` continues an earlier run."""

    SAME = "the value of the earlier run; another one is refused"
    KEPT = "the value of the earlier run, unless the command line gives a new one"
    OWN = "the value of the command line, whatever the earlier run had"


@dataclass(frozen=True)
class Declared:
    """What a field of `Settings` declares: its name, its default, which value a later run takes."""

    name: str
    default: object
    taken_up: TakenUp

    @property
    def shown(self) -> bool:
        """Whether the report shows the setting, as a fact of its name: where a run is kept changes no job."""
        return self.taken_up is not TakenUp.OWN

    @property
    def option(self) -> str:
        """The command-line option of the setting."""
        return f"--{self.name}"

    def told(self, value: object) -> list[str]:
        """The option with a value, as words of a shell; none for an empty value."""
        words: list[str] = []
        for text in _texts(value):
            # argparse takes a word that begins with a dash for another option.
            words += [f"{self.option}={text}"] if text.startswith("-") else [self.option, text]
        return words


@dataclass(frozen=True)
class Settings:
    """What a command line sets for every job of a run. A setting that is not given has its default.

    Attributes:
        matrix: paths of overlays, as the user gave them, in order.
        date: the night that determines seeds and end dates; None: the day of the run.
        inputs: absolute path of a file of tensors that replace those of the profiles, or None.
        inject: id of a fault to commit (`workloads.faults`), or empty.
        stage: what the compare lane compares: `all` or `tile`.
        repeat: how often each job runs, to find nondeterminism.
        retries: how often a job is retried after an infrastructure error; None: what the matrix says.
        references: absolute path of the performance references; None: the usual file.
        output: absolute path of the folder of runs and goldens; None: the usual one.
    """

    matrix: tuple[str, ...] = field(default=(), metadata={"taken_up": TakenUp.SAME})
    date: datetime.date | None = field(default=None, metadata={"taken_up": TakenUp.SAME})
    inputs: str | None = field(default=None, metadata={"taken_up": TakenUp.SAME})
    inject: str = field(default="", metadata={"taken_up": TakenUp.SAME})
    stage: str = field(default="all", metadata={"taken_up": TakenUp.SAME})
    repeat: int = field(default=1, metadata={"taken_up": TakenUp.KEPT})
    retries: int | None = field(default=None, metadata={"taken_up": TakenUp.KEPT})
    references: str | None = field(default=None, metadata={"taken_up": TakenUp.KEPT})
    output: str | None = field(default=None, metadata={"taken_up": TakenUp.OWN})

    def words(self) -> list[str]:
        """The options that set these settings, as words of a shell; none for a default."""
        values = {each: getattr(self, each.name) for each in DECLARED}
        return [word for each, value in values.items() if value != each.default for word in each.told(value)]

    def facts(self, begun: Settings | None = None) -> dict[str, str]:
        """The settings that the report of a run shows, by their names.

        If the run is resumed, settings that differ from those it was `begun` with are shown too.
        """
        shown = {}
        for each in DECLARED:
            value = getattr(self, each.name)
            usual = value == each.default and (begun is None or value == getattr(begun, each.name))
            if each.shown and not usual:
                shown[each.name] = shlex.join(value) if isinstance(value, tuple) else str(value)
        return shown


DECLARED = tuple(
    Declared(each.name, each.default, each.metadata["taken_up"]) for each in dataclasses.fields(Settings)
)
"""The declarations of all settings, in the order of the fields."""


def take_up(run: str, begun: Settings, given: Mapping[str, Any]) -> Settings:
    """The settings for resuming an earlier run, or for running its failed jobs again.

    `run` is its id, `begun` its settings; `given` are those that the command line gives, by name.

    Raises:
        SettingsError: a setting that must not change is given another value.
    """
    held: dict[str, Any] = {}
    for each in DECLARED:
        before = getattr(begun, each.name)
        if each.taken_up is TakenUp.SAME and given.get(each.name, before) != before:
            now, then = shlex.join(each.told(given[each.name])), shlex.join(each.told(before))
            raise SettingsError(
                f"{now}: run {run} was begun {f'with {then}' if then else f'without {each.option}'}; "
                f"leave {each.option} out or begin a new run"
            )
        if each.taken_up is TakenUp.OWN:
            held[each.name] = each.default
    return replace(begun, **{**held, **given})


def _texts(value: object) -> tuple[str, ...]:
    """The values of the option; none if the setting is empty."""
    if isinstance(value, tuple):
        return value
    return () if value in (None, "") else (str(value),)
