"""What the test asked for, and the record of what was called."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

ORDERS: dict[str, Any] = json.loads(os.environ.get("PYPTO_STAND_IN", "{}"))
"""`record`: file for the calls; `without`: operators it lacks; `ptoas`: the version of PTOAS it requires;
`refuse_class`, `refuse_compile`, `refuse_code`, `refuse_run`, `refuse_benchmark`: message to fail with;
`die`, `die_running`: end by a signal; `output`: .npy a run writes.
"""


def record(call: str, **arguments: object) -> None:
    """Append a call to the record."""
    with Path(ORDERS["record"]).open("a") as file:
        file.write(json.dumps({"call": call, **arguments}, default=str) + "\n")
