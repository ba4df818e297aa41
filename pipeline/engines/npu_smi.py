"""The cards of this host, as `npu-smi info` lists them.

Its table has had several layouts. A card takes two rows; the header says where its physical id is:

- `NPU Name` over `Chip`: the NPU's number (910B, one chip per card);
- `NPU Name` over `Chip Phy-ID`: the chip's `Phy-ID` (910C, two chips per card);
- `NPU Name` over `Chip Device`: the chip's `Device` (310P and older);
- `NPU ID | Name` over an empty cell: the NPU's number (950).

A table of processes follows, which is not read.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache

_PATIENCE = 30.0

_SOCS = (
    ("a2a3", re.compile(r"(Ascend)?910(B\w*|C\w*|_93\w*)?")),
    ("a5", re.compile(r"(Ascend)?950\w*")),
)
_WORKING = ("OK", "Warning")


class NpuSmiError(ValueError):
    """The output of `npu-smi info` cannot be understood; the message is one line."""


@dataclass(frozen=True)
class Card:
    """One card, or one chip of a card with two: what a job holds. `number` is its physical id."""

    number: int
    name: str
    health: str

    @property
    def soc(self) -> str:
        """The soc whose programs it runs; empty for a card that no platform of ours uses."""
        return next((soc for soc, names in _SOCS if names.fullmatch(self.name)), "")

    @property
    def working(self) -> bool:
        """Whether its driver says that it can be used."""
        return self.health in _WORKING


@dataclass(frozen=True)
class Survey:
    """The cards of a host, the version of npu-smi, and why the cards are not known (empty if they are)."""

    cards: tuple[Card, ...] = ()
    version: str = ""
    problem: str = ""

    def of(self, soc: str) -> tuple[Card, ...]:
        """The working cards of a soc."""
        return tuple(card for card in self.cards if card.soc == soc and card.working)

    def model(self, number: int) -> str:
        """The model of a card; `unknown` if the driver does not list it."""
        return next((card.name for card in self.cards if card.number == number), "unknown")


def survey_host() -> Survey:
    """Ask this host's `npu-smi`, once per process."""
    executable = shutil.which("npu-smi")
    return _survey(executable) if executable else Survey(problem="npu-smi is not on PATH")


@lru_cache(maxsize=1)
def _survey(executable: str) -> Survey:
    try:
        said = subprocess.run(
            [executable, "info"], capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Survey(problem=f"npu-smi info: {error}")
    if said.returncode != 0:
        lines = (said.stdout + said.stderr).strip().splitlines() or ["it printed nothing"]
        return Survey(problem=f"npu-smi info ended with exit code {said.returncode}: {lines[-1]}")
    try:
        return parse(said.stdout)
    except NpuSmiError as error:
        return Survey(problem=f"npu-smi info: {error}")


def parse(text: str) -> Survey:
    """Read the output of `npu-smi info`.

    Raises:
        NpuSmiError: it has no table of cards, or a card without a physical id.
    """
    version = ""
    cards: dict[int, Card] = {}
    upper: list[str] = []
    id_column = None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        words = cells[0].split()
        if not line.lstrip().startswith("|"):
            continue
        if words[:1] == ["npu-smi"]:
            version = words[1]
        elif "Process id" in line or "No running processes" in line:
            break
        elif "Health" in cells:
            upper, id_column = [], None
        elif "Bus-Id" in cells:
            id_column = words[1] if len(words) > 1 else ""
        elif id_column is not None and not upper:
            upper = cells
        elif id_column is not None:
            card = _card(upper, words, cells, id_column)
            cards.setdefault(card.number, card)
            upper = []
    if id_column is None:
        raise NpuSmiError("no table of cards in its output")
    return Survey(tuple(cards[number] for number in sorted(cards)), version)


def _card(upper: list[str], lower_words: list[str], lower: list[str], id_column: str) -> Card:
    """A card from its two rows; in the layout of the 950, number and name have separate cells."""
    number, *name = upper[0].split()
    rest = upper[1:] if name else upper[2:]
    physical = lower_words[1:2] if id_column else [number]
    if not (physical and physical[0].isdecimal() and rest):
        raise NpuSmiError(f"no physical id in {' | '.join(upper)!r} over {' | '.join(lower)!r}")
    return Card(int(physical[0]), " ".join(name) or upper[1], rest[0])
