"""The dashboard of many jobs: what writing costs, the size of its first page, and how soon that can be used.

Run as `python -m benchmarks.dashboard`. Every job is red and has a message; 20 profiles of each geometry
make a row of the grid. Writing is compared with reading the same `results.json`, in CPU time. The charts of
30 runs are measured in a process of their own, because most of it is the import of matplotlib. In Chromium,
by the clock, a search in the first page is timed from the navigation until the list has its result; the
reference is the same in a run of the first of the counts.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.report_size import failure, wrong_stage
from pipeline.dashboard.earlier import Earlier
from pipeline.dashboard.site import write_dashboard
from pipeline.report.results import RunResults, read_results, results_of, write_results
from pipeline.run.listener import RunInfo, RunSummary

COUNTS = (200, 5_000)
FIRST = ("index.html", "dashboard.css", "dashboard.js", "jobs.js")
LIMIT, SOON = 2_000_000, 1.0
"""Bytes that a first page may have, and the seconds after which it should be usable."""

PROFILES, ROUNDS = 20, 5
CHARTS = """
import sys, tempfile, time
from datetime import datetime, timedelta
from pathlib import Path
from pipeline.dashboard.charts import draw_charts
from pipeline.dashboard.earlier import Night
began = [datetime(2026, 3, 1) + timedelta(days=day) for day in range(30)]
nights = [
    Night(str(day), "c", when, 99.0 - day % 3, 60.0 + day, {"passed": 9}, day % 3 > 0, 100.0, 101.0)
    for day, when in enumerate(began)
]
start = time.process_time()
with tempfile.TemporaryDirectory() as folder:
    draw_charts(Path(folder), nights[:int(sys.argv[1])], None)
print(time.process_time() - start)
"""


def run_of(count: int) -> RunResults:
    """A run of so many failures."""
    wrong = wrong_stage()
    jobs = tuple(
        replace(one, job=job, started="2026-03-10T04:00:00+00:00")
        for number in range(count)
        for one in (failure(number, wrong),)
        for size, kind in (divmod(number, PROFILES),)
        for job in (replace(one.job, id=name_of(size, kind), geometry_name=f"g{size}", profile=f"p{kind}"),)
    )
    run = RunInfo("r1", Path("unused"), tuple(one.job for one in jobs), "2026-03-10T04:00:00+00:00", 1, {})
    return results_of(run, RunSummary("r1", Path("unused"), jobs, 1, 1.0))


def name_of(size: int, kind: int) -> str:
    """The id of the job of a geometry and a profile."""
    return f"device/a5sim/g{size}/two-pass/p{kind}"


def charts(runs: int) -> float:
    """CPU seconds of the charts of so many runs, in a process of their own."""
    command = [sys.executable, "-c", CHARTS, str(runs)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def usable(pages: Mapping[int, Path]) -> Mapping[int, float]:
    """Seconds from the navigation to a search's only result, by number of jobs: the fastest round."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        found = {
            count: min(_searched(browser, page.as_uri(), count) for _ in range(ROUNDS))
            for count, page in pages.items()
        }
        browser.close()
    return found


def _searched(browser: Any, address: str, count: int) -> float:
    page = browser.new_page()
    start = time.perf_counter()
    page.goto(address)
    page.get_by_label("Search").fill(name_of(*divmod(count - 1, PROFILES)))
    page.locator("#count", has_text=f"1 of {count} jobs").wait_for()
    taken = time.perf_counter() - start
    page.close()
    return taken


def main() -> None:
    """Print the figures."""
    one, many = (min(charts(runs) for _ in range(3)) for runs in (2, 30))
    print(f"charts of 30 runs: {many:.2f} s of CPU time ({many / one:.2f} times those of 2 runs)")
    with tempfile.TemporaryDirectory() as name:
        pages = {}
        for count in COUNTS:
            document, site = Path(name) / "results.json", Path(name) / f"dashboard-{count}"
            write_results(document, run_of(count))
            start = time.process_time()
            results = read_results(document)
            read = time.process_time() - start
            start = time.process_time()
            write_dashboard(results, site, None, Earlier("no history is measured"))
            written = time.process_time() - start
            first = sum((site / each).stat().st_size for each in FIRST)
            pages[count] = site / FIRST[0]
            print(
                f"{count:5} failures: {written:6.2f} s ({written / read:.1f} times reading their results)\n"
                f"      first page {first:,} bytes ({first / LIMIT:.2f} of the limit)"
            )
        if shutil.which("chromium") is None:
            print("how soon it can be used is not measured: apt-get install chromium")
            return
        times = usable(pages)
    for count, seconds in times.items():
        ratio = seconds / times[COUNTS[0]]
        print(
            f"{count:5} failures: searched after {seconds:.2f} s ({ratio:.1f} times; allowed: {SOON:.0f} s)"
        )


if __name__ == "__main__":
    main()
