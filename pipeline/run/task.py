"""What runs in a task of `task-submit`: `python -m pipeline.run.task ORDER.json` does a job's work.

It uses only the card that `TASK_DEVICE` names.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from pipeline.run import threads, worker
from pipeline.run.devices import DeviceError, choose_ids, parse_ids
from pipeline.run.messages import Order, encode, write_atomically
from pipeline.run.task_submit import BEGUN, Begun

LENT = "TASK_DEVICE"
"""Environment variable in which the scheduler gives the physical ids of the cards it lends."""


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
    threads.limit(order.threads)
    write_atomically(folder / BEGUN, encode(Begun(device, time.time())))
    worker.perform(msgspec.structs.replace(order, device=device))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
