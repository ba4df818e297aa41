"""What runs in a task of a scheduler: `python -m pipeline.run.in_task ORDER.json`.

It does the work of the order as a job's own process would, on the card that `TASK_DEVICE` names.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from pipeline.run import processes
from pipeline.run.devices import LENT, DeviceError, choose_ids, parse_ids
from pipeline.run.messages import Order, encode, write_atomically
from pipeline.run.task import BEGUN, Begun
from pipeline.run.worker import perform


def main(arguments: Sequence[str]) -> int:
    """Do the work of the order in the file that the only argument names."""
    order = msgspec.json.decode(Path(arguments[0]).read_bytes(), type=Order)
    try:
        lent = parse_ids(os.environ.get(LENT, ""), LENT)
        device, *_ = choose_ids(order.job.platform, lent=lent)
    except DeviceError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    folder = Path(order.folder)
    os.chdir(folder)
    # The scheduler ends a task without asking for stacks, so they are written shortly before that.
    faulthandler.dump_traceback_later(max(order.job.timeout - 5, order.job.timeout / 2))
    processes.limit_threads(order.threads)
    write_atomically(folder / BEGUN, encode(Begun(device, time.time())))
    perform(msgspec.structs.replace(order, device=device))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
