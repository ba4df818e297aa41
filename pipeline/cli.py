"""The command line: parse, call, exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from golden.inputs import InputsError
from golden.profiles import ProfileError
from pipeline import commands
from pipeline.faults import FaultError
from pipeline.jobs import OUTCOMES, State
from pipeline.matrix.errors import MatrixError
from pipeline.matrix.select import EmptySelectionError, FilterError
from pipeline.options import LANES, USAGE, parse

NOTHING_SELECTED = 5
INTERRUPTED = OUTCOMES[State.INTERRUPTED].exit_code


def main(arguments: Sequence[str]) -> int:
    """Run a command line (without the program's name) and give its exit code.

    0 all good, 1 a mismatch or failed job, 2 interrupted, 3 internal error, 4 usage, 5 nothing selected or
    nothing executed, 6 only infrastructure errors.
    """
    parsed = parse(arguments)
    try:
        if parsed.command == "list":
            return commands.list_jobs(parsed)
        if parsed.command in LANES:
            return commands.run_lane(parsed, arguments)
        if parsed.command == "doctor":
            return commands.examine_host(parsed)
        if parsed.command == "replay":
            return commands.replay_job(parsed)
        if parsed.action == "show":
            return commands.show_report(parsed)
        return commands.merge_reports(parsed)
    except (MatrixError, FilterError, InputsError, ProfileError, FaultError) as error:
        return _refused(error, USAGE)
    except EmptySelectionError as error:
        return _refused(error, NOTHING_SELECTED)
    except commands.ToolchainError as error:
        return _refused(error, commands.INFRASTRUCTURE)
    except KeyboardInterrupt:
        return _refused("interrupted", INTERRUPTED)
    except _late_user_errors() as error:
        return _refused(error, USAGE)


def _late_user_errors() -> tuple[type[Exception], ...]:
    """User errors of modules that only some commands import; looked up when something was raised."""
    from pipeline.performance import ReferencesError
    from pipeline.replay import ReplayError
    from pipeline.report.document import ReportError
    from pipeline.run.devices import DeviceError
    from pipeline.run.folders import RunFolderError
    from pipeline.run.journal import JournalError

    return ReferencesError, ReplayError, ReportError, DeviceError, RunFolderError, JournalError


def _refused(reason: object, code: int) -> int:
    sys.stderr.write(f"{reason}\n")
    return code
