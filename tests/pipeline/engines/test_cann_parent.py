"""What an order does in its process, and what the next order of the same job sees of it: nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest

from golden.geometry import Conv, Geometry
from kernels.tensor import programs
from kernels.tensor.plan import tiling_by_rule
from pipeline.engines.base import CompileError, InfrastructureError
from pipeline.engines.cann import child
from pipeline.engines.cann.child import Order, Work
from pipeline.engines.cann.engine import CAPACITIES, CannEngine
from pipeline.engines.cann.readings import read_program
from pipeline.engines.process import HELPERS
from pipeline.ground.jobs import Platform, WorkloadName
from workloads.registry import workload_named

AVAILABLE = CannEngine().probe(
    Platform("cann-a2a3", backend="cann", soc="a2a3"), workload_named("conv-pair"), ["pass1"]
)

pytestmark = pytest.mark.skipif(not AVAILABLE, reason=AVAILABLE.reason)

GEOMETRY = Geometry(16, 16, 32, 32, 32, Conv(3, 1, 1), Conv(3, 1, 1))

Compile = Callable[..., str]


def compile_in(folder: Path, name: str, lines: str = "") -> str:
    """Compile `pass1`, with some lines before its source; gives the digest of the program."""
    source = folder / f"{name}.py"
    source.write_text(lines + Path(programs.__file__).read_text())
    tiling = tiling_by_rule(GEOMETRY, CAPACITIES)
    order = Order(Work.CODE, "pass1", WorkloadName("conv-pair"), GEOMETRY, tiling, str(source))
    return read_program(child.run(order, folder / name)).digest


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The digest of the program that a new parent compiles first."""
    return compile_in(tmp_path_factory.mktemp("clean"), "clean")


@pytest.fixture
def compiled(tmp_path: Path) -> Compile:
    """Compiles in a folder of the test."""
    return partial(compile_in, tmp_path)


def parent_process() -> psutil.Process:
    (process,) = [
        each for each in psutil.Process().children() if "pipeline.engines.cann.worker" in each.cmdline()
    ]
    return process


POISONS = {
    "module state": "import pypto\npypto.matmul = pypto.add = pypto.frontend.jit = None\n",
    "Python": "import sys, json\nsys.modules.clear()\njson.loads = None\nsys.path.clear()\n",
    "death": "import os\nos.kill(os.getpid(), 9)\n",
}
RARER_POISONS = {
    "options": "import pypto\npypto.set_host_options(compile_stage=pypto.CompStage.TENSOR_GRAPH)\n",
    "environment": "import os\nos.environ.clear()\nos.chdir('/')\nos.close(0), os.close(1)\n",
    "exit": "raise SystemExit(0)\n",
    "hard exit": "import os\nos._exit(7)\n",
    "crash": "import ctypes\nctypes.string_at(0)\n",
    "thread": "import threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()\n",
}
"""What goes before the source of a kernel, by what it spoils."""


@pytest.mark.parametrize(
    "poison",
    [
        *(pytest.param(lines, id=name) for name, lines in POISONS.items()),
        *(pytest.param(lines, id=name, marks=pytest.mark.thorough) for name, lines in RARER_POISONS.items()),
    ],
)
def test_the_next_order_sees_nothing_of_what_one_did_to_its_process(
    clean: str, compiled: Compile, poison: str
) -> None:
    # Not every poison is one for the order itself.
    with suppress(CompileError, InfrastructureError):
        compiled("poisoned", poison)
    process = parent_process()

    assert compiled("after") == clean
    assert parent_process() == process
    assert process.children() == []


def test_the_environment_is_that_of_the_order_and_not_of_the_first_one(
    compiled: Compile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled("first")
    monkeypatch.setenv("PIPELINE_TEST", "second")
    compiled(
        "second",
        f"import os\nopen({str(tmp_path / 'seen')!r}, 'w').write('|'.join("
        "os.environ.get(name, '') for name in ('PIPELINE_TEST', 'HOME', 'ASCEND_PROCESS_LOG_PATH')))\n",
    )

    folder = tmp_path / "second" / "code"
    assert (tmp_path / "seen").read_text().split("|") == [
        "second",
        str(folder / "home"),
        str(folder / "logs"),
    ]


def test_an_order_that_kills_the_parent_fails_alone(clean: str, compiled: Compile) -> None:
    with pytest.raises(InfrastructureError, match="was ended by SIGKILL"):
        compiled("poisoned", "import os\nos.kill(os.getppid(), 9)\nos.kill(os.getpid(), 9)\n")

    assert compiled("after") == clean


def test_ending_the_helpers_ends_the_parent(compiled: Compile) -> None:
    compiled("before")
    process = parent_process()

    HELPERS.close()

    assert not psutil.pid_exists(process.pid)


def test_a_parent_that_cannot_start_says_why(
    compiled: Compile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    HELPERS.close()
    (tmp_path / "torch.py").write_text("raise ImportError('libtorch.so: out of order')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    with pytest.raises(InfrastructureError, match=r"exit code 1: ImportError: libtorch\.so: out of order"):
        compiled("refused")
