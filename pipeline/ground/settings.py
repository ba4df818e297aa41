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


class Replaces(Enum):
    """With which value a newer run's verdict may replace an older run's where their reports are merged."""

    ANY = "any: no verdict depends on it"
    SAME = "the same"
    MORE = "the same, or one that checks more: a larger number, or else the default"
    NEVER = "the same; reports of runs with different values do not belong together"


@dataclass(frozen=True)
class Declared:
    """What a field of `Settings` declares: name, default, which value a later run takes, which replaces."""

    name: str
    default: object
    taken_up: TakenUp
    replaces: Replaces

    @property
    def shown(self) -> bool:
        """Whether the report shows the setting, as a fact of its name: where a run is kept changes no job."""
        return self.taken_up is not TakenUp.OWN

    @property
    def option(self) -> str:
        """The command-line option of the setting."""
        return f"--{self.name.replace('_', '-')}"

    def text(self, value: object) -> str:
        """A value as reports show it."""
        return shlex.join(value) if isinstance(value, tuple) else str(value)

    def covers(self, now: str, then: str) -> bool:
        """Whether a run with the value `now` checks at least what one with `then` does; see `text`."""
        if now == then or self.replaces is Replaces.ANY:
            return True
        if self.replaces is not Replaces.MORE:
            return False
        if isinstance(self.default, int):
            return now.isdecimal() and then.isdecimal() and (len(now), now) > (len(then), then)
        return now == self.text(self.default)

    def told(self, value: object) -> list[str]:
        """The option with a value, as words of a shell; none for an empty value. A flag stands alone."""
        if value is True:
            return [self.option]
        words: list[str] = []
        for text in _texts(value):
            # argparse takes a word that begins with a dash for another option.
            words += [f"{self.option}={text}"] if text.startswith("-") else [self.option, text]
        return words


def _declares(taken_up: TakenUp, replaces: Replaces) -> dict[str, Any]:
    return {"taken_up": taken_up, "replaces": replaces}


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
        baseline: id of a run, or absolute path of a run's folder or report, whose failures do not count.
        allow_new_skips: whether jobs may be skipped that ran in an earlier run.
        output: absolute path of the folder of runs and goldens; None: the usual one.
    """

    matrix: tuple[str, ...] = field(default=(), metadata=_declares(TakenUp.SAME, Replaces.SAME))
    date: datetime.date | None = field(default=None, metadata=_declares(TakenUp.SAME, Replaces.SAME))
    inputs: str | None = field(default=None, metadata=_declares(TakenUp.SAME, Replaces.NEVER))
    inject: str = field(default="", metadata=_declares(TakenUp.SAME, Replaces.NEVER))
    stage: str = field(default="all", metadata=_declares(TakenUp.SAME, Replaces.MORE))
    repeat: int = field(default=1, metadata=_declares(TakenUp.KEPT, Replaces.MORE))
    retries: int | None = field(default=None, metadata=_declares(TakenUp.KEPT, Replaces.ANY))
    references: str | None = field(default=None, metadata=_declares(TakenUp.KEPT, Replaces.SAME))
    baseline: str | None = field(default=None, metadata=_declares(TakenUp.KEPT, Replaces.MORE))
    allow_new_skips: bool = field(default=False, metadata=_declares(TakenUp.KEPT, Replaces.ANY))
    output: str | None = field(default=None, metadata=_declares(TakenUp.OWN, Replaces.ANY))

    @property
    def whole(self) -> bool:
        """Whether each job goes through all of its stages."""
        return self.stage == "all"

    @property
    def compared(self) -> tuple[object, ...]:
        """What decides whether a job's results in two runs can be compared: data, fault and stages."""
        return (self.inputs, self.inject, self.stage)

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
                shown[each.name] = each.text(value)
        return shown


DECLARED = tuple(Declared(each.name, each.default, **each.metadata) for each in dataclasses.fields(Settings))
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
