"""How soon `python -m pipeline list` answers, against `python -c "import numpy"` (at most twice).

Run as `python -m benchmarks.list_start` in the checkout. The two sides take turns, so that a busy machine
slows both alike; a side's figure is its fastest round. Both sides find their bytecode in a folder of its own,
because an environment may forbid Python to write it, and compiling us takes long.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

ROUNDS = 20
OURS = [sys.executable, "-m", "pipeline", "list"]
THEIRS = [sys.executable, "-c", "import numpy"]


def seconds(command: Sequence[str], bytecode: str) -> float:
    """Wall time of one process; `bytecode` is the folder of compiled modules."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": ""}
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - start


def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as bytecode:
        rounds = [(seconds(OURS, bytecode), seconds(THEIRS, bytecode)) for _ in range(ROUNDS)]
    ours, theirs = (min(side) for side in zip(*rounds, strict=True))
    print(f"python -m pipeline list   {ours * 1e3:7.1f} ms")
    print(f"python -c 'import numpy'  {theirs * 1e3:7.1f} ms   {ours / theirs:.2f} times (allowed: 2.0)")


if __name__ == "__main__":
    main()
