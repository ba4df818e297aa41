"""The dashboard of many jobs: the size of its first page, and its time against reading the same results.

Run as `python -m benchmarks.dashboard`. Every job is red and has a message. The reference is what reading
their `results.json` takes on the same host.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.report_size import failure, wrong_stage
from pipeline.dashboard.earlier import Earlier
from pipeline.dashboard.site import write_dashboard
from pipeline.report.results import RunResults, read_results, results_of, write_results
from pipeline.run.listener import RunInfo, RunSummary

COUNTS = (200, 5_000)
FIRST = ("index.html", "dashboard.css", "dashboard.js", "jobs.js")
LIMIT = 2_000_000
"""Bytes that a first page may have."""


def run_of(count: int) -> RunResults:
    """A run of so many failures."""
    wrong = wrong_stage()
    jobs = tuple(
        replace(failure(number, wrong), started="2026-03-10T04:00:00+00:00") for number in range(count)
    )
    run = RunInfo("r1", Path("unused"), tuple(one.job for one in jobs), "2026-03-10T04:00:00+00:00", 1, {})
    return results_of(run, RunSummary("r1", Path("unused"), jobs, 1, 1.0))


def main() -> None:
    """Print the figures."""
    for count in COUNTS:
        with tempfile.TemporaryDirectory() as name:
            document, site = Path(name) / "results.json", Path(name) / "dashboard"
            write_results(document, run_of(count))
            start = time.process_time()
            results = read_results(document)
            read = time.process_time() - start
            start = time.process_time()
            write_dashboard(results, site, None, Earlier("no history is measured"))
            written = time.process_time() - start
            first = sum((site / each).stat().st_size for each in FIRST)
            print(
                f"{count:5} failures: {written:6.2f} s ({written / read:.1f} times reading their results)\n"
                f"      first page {first:,} bytes ({first / LIMIT:.2f} of the limit)"
            )


if __name__ == "__main__":
    main()
