"""The command line: parse, call, exit code."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from golden.inputs import InputsError
from golden.profiles import ProfileError
from golden.reference import TorchError
from pipeline.commands.options import LANES, USAGE, parse
from pipeline.engines.base import ToolchainError
from pipeline.faults.catalogue import FaultError
from pipeline.ground.jobs import OUTCOMES, State
from pipeline.matrix.errors import MatrixError
from pipeline.matrix.select import EmptySelectionError, FilterError

NOTHING_SELECTED = 5
INFRASTRUCTURE = OUTCOMES[State.INFRASTRUCTURE].exit_code


def main(arguments: Sequence[str]) -> int:
    """Run a command line (without the program's name) and give its exit code.

    0 all good, 1 a mismatch or failed job, 2 interrupted, 3 internal error, 4 usage, 5 nothing selected or
    nothing executed, 6 only infrastructure errors.
    """
    parsed = parse(arguments)
    try:
        return _do(parsed, arguments)
    except (MatrixError, FilterError, InputsError, ProfileError, FaultError) as error:
        return _refused(error, USAGE)
    except EmptySelectionError as error:
        return _refused(error, NOTHING_SELECTED)
    except (ToolchainError, TorchError) as error:
        return _refused(error, INFRASTRUCTURE)
    except _late_user_errors() as error:
        return _refused(error, USAGE)


def _do(parsed: Namespace, arguments: Sequence[str]) -> int:
    """Do the command; each is imported only where it is asked for, so that `list` answers at once."""
    if parsed.command == "list":
        from pipeline.commands.listing import list_jobs

        return list_jobs(parsed)
    if parsed.command in LANES:
        from pipeline.commands.lanes import run_lane

        return run_lane(parsed, arguments)
    if parsed.command == "doctor":
        from pipeline.commands.hosts import examine_host

        return examine_host(parsed)
    from pipeline.commands.reports import merge_reports, replay_job, show_report

    if parsed.command == "replay":
        return replay_job(parsed)
    return show_report(parsed) if parsed.action == "show" else merge_reports(parsed)


def _late_user_errors() -> tuple[type[Exception], ...]:
    """User errors of modules that only some commands import; looked up when something was raised."""
    from pipeline.report.document import ReportError
    from pipeline.results.performance import ReferencesError
    from pipeline.run.devices import DeviceError
    from pipeline.run.folders import RunFolderError
    from pipeline.run.journal import JournalError
    from pipeline.work.replay import ReplayError

    return ReferencesError, ReplayError, ReportError, DeviceError, RunFolderError, JournalError


def _refused(reason: object, code: int) -> int:
    sys.stderr.write(f"{reason}\n")
    return code
