from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from pipeline.dashboard.charts import draw_charts
from pipeline.dashboard.earlier import Night

ROOT = Path(__file__).parents[3]
FIRST = datetime(2026, 3, 1, 4, tzinfo=timezone.utc)
PATH = "{http://www.w3.org/2000/svg}path"
TEXT = "{http://www.w3.org/2000/svg}text"


def nights(*rates: float | None, cycles: float | None = 100.0) -> list[Night]:
    return [
        Night(f"r{day}", "c", began, rate, 60.0 + day, {"passed": 4}, rate != 100, cycles, cycles)
        for day, rate in enumerate(rates)
        for began in (FIRST + timedelta(days=day),)
    ]


def test_trends_are_drawn_as_text_and_lines(tmp_path: Path) -> None:
    charts = draw_charts(tmp_path, nights(100.0, 50.0, None, 75.0), None)
    assert [chart.says for chart in charts] == [
        "Chart of passed, of those judged in 3 runs: between 50.0 % and 100.0 %, 75.0 % in the last",
        "Chart of seconds of all jobs in 4 runs: between 60.0 s and 63.0 s, 63.0 s in the last",
        "Chart of cycles, of each job's median in 4 runs: between 100.0 % and 100.0 %, 100.0 % in the last",
    ]
    for chart in charts:
        light, dark = ((tmp_path / name).read_text() for name in (chart.light, chart.dark))
        texts = {"".join(each.itertext()) for each in ET.fromstring(light).iter(TEXT)}
        assert {"01 Mar", "04 Mar"} <= texts
        assert any(chart.says.startswith(f"Chart of {text.rpartition(' (')[0]} in") for text in texts)
        assert light != dark
        assert not [colour for colour in ("#000000", "#1b2330", "#545f6e") if colour in dark]


def test_the_same_runs_give_the_same_bytes(tmp_path: Path) -> None:
    told = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        draw_charts(tmp_path / name, nights(100.0, 50.0), None)
        told.append({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()})
    assert told[0] == told[1]
    assert len(told[0]) == 6


def test_what_was_measured_once_is_no_trend(tmp_path: Path) -> None:
    assert draw_charts(tmp_path, nights(100.0), None) == []
    assert [chart.light for chart in draw_charts(tmp_path, nights(100.0, None, cycles=None), None)] == [
        "trend-seconds.svg"
    ]


def test_a_run_with_a_red_job_is_told_apart_by_more_than_its_colour(tmp_path: Path) -> None:
    green, red = (
        ET.fromstring((tmp_path / draw_charts(tmp_path, nights(100.0, rate), None)[0].light).read_bytes())
        for rate in (100.0, 99.0)
    )
    shapes = [{each.get("d") for each in one.iter(PATH)} for one in (green, red)]
    assert shapes[1] - shapes[0]


@pytest.mark.parametrize("kept", [False, True])
def test_drawing_leaves_no_folder_and_no_warning(tmp_path: Path, kept: bool) -> None:
    """Without a home matplotlib would make itself a folder, and say so; with one it would write there."""
    for name in ("home", "temporary", "site", "run/matplotlib"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "home").chmod(0o500)
    code = f"""
from datetime import datetime
from pathlib import Path
from pipeline.dashboard.charts import draw_charts
from pipeline.dashboard.earlier import Night
nights = [Night(str(day), "c", datetime(2026, 3, day), 100.0, 1.0, {{"passed": 1}}) for day in (1, 2)]
draw_charts(Path("site"), nights, Path("run") if {kept} else None)
"""
    places = {"HOME": "home", "XDG_CACHE_HOME": "home/c", "XDG_CONFIG_HOME": "home/d", "TMPDIR": "temporary"}
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment |= {name: str(tmp_path / place) for name, place in places.items()}
    environment.pop("MPLCONFIGDIR", None)
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=True)
    assert (ended.stdout, ended.stderr) == (b"", b"")
    left = {str(path.relative_to(tmp_path).parent) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == ({"site", "run/matplotlib"} if kept else {"site"})
    assert not list((tmp_path / "home").iterdir())
    assert not list((tmp_path / "temporary").iterdir())
