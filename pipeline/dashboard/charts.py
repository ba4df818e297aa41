"""The trends of the last runs as charts, each in a light and in a dark file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.dashboard.earlier import Night
from pipeline.diff.heatmap import plain_matplotlib

_INCHES = (4.0, 2.3)
_PLACE = (0.13, 0.15, 0.84, 0.68)
"""Left, bottom, width and height of a chart's field, as shares of the picture."""

_INK, _QUIET, _LINE, _BLUE, _RED, _AMBER = "#1b2330", "#545f6e", "#cfd6de", "#2f65ad", "#a61b1b", "#8a4b00"
_DARK = {
    _INK: "#e4e8ee",
    _QUIET: "#a5b0bd",
    _LINE: "#38424f",
    _BLUE: "#6b9fe0",
    _RED: "#ff9d95",
    _AMBER: "#f0b660",
}
"""What stands for each colour on a dark ground; both are those of `dashboard.css`."""

TRENDS = "trend-*.svg"
"""The files of charts."""

_MOST_DATES = 4
_FONTS = "matplotlib"
"""The folder in a run's folder where its jobs keep matplotlib's list of fonts."""


@dataclass(frozen=True)
class Chart:
    """A chart: the names of its files, for a light and for a dark ground, and what it says, in a sentence."""

    light: str
    dark: str
    says: str


@dataclass(frozen=True)
class _Trend:
    """What a chart shows of each run. `marked` draws the runs in which a job was red otherwise.

    `other` is a second line, of the name `second`. The axis spans `least` at least.
    """

    name: str
    title: str
    unit: str
    value: Callable[[Night], float | None]
    least: tuple[float, float]
    marked: bool = False
    other: Callable[[Night], float | None] | None = None
    second: str = ""


_TRENDS = (
    _Trend("passed", "passed, of those judged", " %", lambda night: night.rate, (90, 100), marked=True),
    _Trend("seconds", "seconds of all jobs", " s", lambda night: night.seconds, (0, 1)),
    _Trend(
        "cycles",
        "cycles, of each job's median",
        " %",
        lambda night: night.cycles,
        (98, 102),
        other=lambda night: night.worst,
        second="the worst job's",
    ),
)


def draw_charts(folder: Path, nights: Sequence[Night], kept: Path | None) -> list[Chart]:
    """Draw the trends of several runs, the oldest first, to files in a folder; a single run has none.

    The same runs always give the same bytes. `kept` is the folder of the run, if it is there.

    Raises:
        OSError: a file cannot be written.
    """
    shown = [trend for trend in _TRENDS if sum(trend.value(night) is not None for night in nights) > 1]
    if not shown:
        return []
    with _fonts(kept), plain_matplotlib():
        return [_draw(folder, nights, trend) for trend in shown]


@contextmanager
def _fonts(kept: Path | None) -> Iterator[None]:
    """Let matplotlib take its list of fonts from the run's folder, and leave no folder anywhere else."""
    variable = "MPLCONFIGDIR"
    if variable in os.environ:
        yield
        return
    with tempfile.TemporaryDirectory() as made:
        listed = kept / _FONTS if kept else Path(made)
        os.environ[variable] = str(listed if listed.is_dir() else made)
        try:
            yield
        finally:
            del os.environ[variable]


def _draw(folder: Path, nights: Sequence[Night], trend: _Trend) -> Chart:
    # Imported here: only several runs need charts, and the import takes half a second.
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    # Text stays text; names of elements in the file depend on what is drawn alone.
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": trend.name, "font.size": 9})
    figure = Figure(_INCHES)
    field = figure.add_axes(_PLACE)
    places = range(len(nights))
    values = [trend.value(night) for night in nights]
    lines = [(values, _BLUE, "-", "the median" if trend.other else "")]
    if trend.other:
        lines.insert(0, ([trend.other(night) for night in nights], _AMBER, "--", trend.second))
    for line, colour, style, label in lines:
        field.plot(places, _numbers(line), color=colour, linestyle=style, linewidth=1.5, label=label)
    full = max(night.jobs for night in nights)
    points: dict[tuple[bool, bool], list[tuple[int, float]]] = {}
    for place, night, value in zip(places, nights, values, strict=True):
        if value is not None:
            points.setdefault((trend.marked and night.red, night.jobs == full), []).append((place, value))
    for (red, whole), told in points.items():
        field.plot(
            *zip(*told, strict=True),
            marker="X" if red else "o",
            color=_RED if red else _BLUE,
            markersize=8 if red else 5,
            fillstyle="full" if whole else "none",
            linestyle="",
        )
    known = [value for line, *_ in lines for value in line if value is not None]
    low, high = min(trend.least[0], *known), max(trend.least[1], *known)
    field.set_ylim(low - 0.06 * (high - low) * (low != 0), high + 0.06 * (high - low))
    field.set_xlim(-0.5, len(nights) - 0.5)
    _style(field, nights, trend, MaxNLocator(4))
    FigureCanvasSVG(figure)
    light, dark = (folder / f"trend-{trend.name}{ground}.svg" for ground in ("", "-dark"))
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(light, format="svg", transparent=True, metadata=nothing)
    text = light.read_text(encoding="utf-8")
    for colour, instead in _DARK.items():
        text = text.replace(colour, instead)
    dark.write_text(text, encoding="utf-8")
    return Chart(light.name, dark.name, _said(trend, [value for value in values if value is not None]))


def _style(field: Any, nights: Sequence[Night], trend: _Trend, ticks: Any) -> None:
    """Title, ticks and grid. Dates are those of some of the runs, each of which has its place on the axis."""
    field.set_title(f"{trend.title} ({trend.unit.strip()})", loc="left", color=_INK, fontsize=10)
    field.yaxis.set_major_locator(ticks)
    field.grid(axis="y", color=_LINE, linewidth=0.8)
    field.set_axisbelow(True)
    field.tick_params(colors=_QUIET, length=3)
    field.set_frame_on(False)
    step = -(-len(nights) // _MOST_DATES)
    dated = range(len(nights) - 1, -1, -step)
    a_day = len({night.began.date() for night in nights}) == 1
    form = "%H:%M" if a_day else "%d %b"
    field.set_xticks(list(dated), [nights[place].began.strftime(form) for place in dated])
    if trend.other:
        field.legend(loc="best", frameon=False, fontsize=8, labelcolor=_QUIET)


def _numbers(values: Sequence[float | None]) -> list[float]:
    return [float("nan") if value is None else value for value in values]


def _said(trend: _Trend, values: Sequence[float]) -> str:
    form = f"{{:.1f}}{trend.unit}"
    low, high, last = (form.format(value) for value in (min(values), max(values), values[-1]))
    return f"Chart of {trend.title} in {len(values)} runs: between {low} and {high}, {last} in the last"
