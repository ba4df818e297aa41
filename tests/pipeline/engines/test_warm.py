"""What the process that jobs are forked from has done ahead for them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from workloads.registry import SHIPPED, workload_named

ROOT = Path(__file__).resolve().parents[3]
TELL = """
import linecache
print(*sorted(name for name, module in sys.modules.items()
              if name.startswith("kernels.") and module and module.__file__ in linecache.cache))
"""


COMPARE = """
import numpy as np
from pipeline.diff.compare import compare
before = set(sys.modules)
right = np.zeros((2, 32), np.int8)
assert compare("y", right, right, width=1, band_rows=1, sentinel=-77).clean
assert not compare("y", right + 1, right, width=1, band_rows=1, sentinel=-77).clean
print(*set(sys.modules) - before)
"""


def kernels_of(*workloads: str) -> set[str]:
    """The modules of the kernels of some workloads, and the one that they share."""
    programs = [program for name in workloads for program in workload_named(name).programs]
    return {"kernels.blocks", *(str(program.factory).partition(":")[0] for program in programs)}


def told(after: str, before: str = "") -> set[str]:
    """The words that a fresh process prints `after` it has imported the warm start."""
    ended = subprocess.run(
        [sys.executable, "-c", f"import sys\n{before}\nimport pipeline.engines.warm{after}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(ended.stdout.split())


def test_the_kernels_of_every_shipped_workload_are_read_ahead() -> None:
    expected = kernels_of(*SHIPPED)
    assert {"kernels.fused_conv2d", "kernels.conv2d", "kernels.gemm"} <= expected
    assert told(TELL) == expected


def test_a_job_imports_nothing_to_compare_its_output() -> None:
    assert told(COMPARE) == set()


@pytest.mark.parametrize("broken", ["kernels.first_tile", "kernels.gemm"])
def test_a_kernel_that_cannot_be_imported_is_left_to_its_own_jobs(broken: str) -> None:
    """By the rules of the import system None in place of a module makes its import fail."""
    assert told(TELL, f"sys.modules[{broken!r}] = None") == kernels_of(*SHIPPED) - {broken}
