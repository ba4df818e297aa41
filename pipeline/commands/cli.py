"""The command line: parse, call, exit code."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from datetime import date, datetime, timezone

from golden.errors import UserError
from pipeline.commands.options import LANES, parse
from pipeline.ground.words import unbroken


def main(
    arguments: Sequence[str],
    today: Callable[[], date] = date.today,
    now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
    target: str = "",
) -> int:
    """Run a command line (without the program's name) and give its exit code.

    0 all good, 1 a mismatch or failed job, 2 interrupted, 3 internal error, 4 usage, 5 nothing selected or
    nothing executed, 6 only infrastructure errors. `today` gives the local day, which is asked for once, and
    `now` the time of a run. `target` does the work of jobs, if it is given: see `RunOptions`.
    """
    parsed = parse(arguments)
    # What depends on the day (the plan, the seeds of @nightly, the ends of expected failures) has this one.
    parsed.day = getattr(parsed, "date", None) or today()
    try:
        if parsed.command in LANES:
            from pipeline.commands.lanes import run_lane

            return run_lane(parsed, arguments, now, target)
        return _do(parsed)
    except UserError as error:
        sys.stderr.write(f"{unbroken(str(error))}\n")
        return error.exit_code


def _do(parsed: Namespace) -> int:
    """Run a command that is no lane; only its own modules are imported, so that `list` answers at once."""
    if parsed.command == "list":
        from pipeline.commands.listing import list_jobs

        return list_jobs(parsed)
    if parsed.command == "doctor":
        from pipeline.commands.hosts import examine_host

        return examine_host(parsed)
    if parsed.command == "notify":
        from pipeline.commands.notify import notify

        return notify(parsed, os.environ)
    if parsed.command == "dashboard":
        from pipeline.commands.dashboard import dashboard

        return dashboard(parsed, os.environ)
    if parsed.command == "history":
        from pipeline.commands.history import consult_history

        return consult_history(parsed)
    from pipeline.commands import reports

    if parsed.command == "replay":
        return reports.replay_job(parsed)
    actions = {
        "show": reports.show_report,
        "excuses": reports.print_excuses,
        "merge": reports.merge_reports,
    }
    return actions[parsed.action](parsed)
