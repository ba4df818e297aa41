"""The warm parent of a job's orders, and what its forks do: imports the framework once, forks for each order.

A backend error leaves the framework's process unusable and a code generation error ends it. So nothing that
an order does is caught in its process: the engine reads the error from what that prints.

Forking is safe here for the reasons in `pipeline/ground/threads.py`; only the forks have as many threads as
the job may use.
"""

from __future__ import annotations

import ctypes
import os
import socket
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from runpy import run_path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np

from pipeline.engines.cann.child import ARRAYS, Order, Work
from pipeline.engines.cann.parent import Errand
from pipeline.ground.memory import sentinel_of
from pipeline.ground.subject import geometry_of
from pipeline.ground.threads import require_single_thread
from workloads.registry import workload_named

_UNMERGED = {-1: 1}
"""One task per tile: by default the compiler puts several cube tiles in a task, and cores stay idle."""

_PASS_OPTIONS = {"cube_l1_reuse_setting": _UNMERGED, "cube_nbuffer_setting": _UNMERGED}


def serve(control: socket.socket) -> None:
    """Fork for each errand that arrives, and send how that ended, until the other end closes.

    Raises:
        RuntimeError: an import has started a thread.
    """
    with TemporaryDirectory() as home:  # the framework writes there when it is imported
        os.environ.update(HOME=home, ASCEND_PROCESS_LOG_PATH=home)
        import torch  # noqa: F401 (first: the framework's libraries need torch's to be loaded)
        import pypto  # noqa: F401  # isort: skip
    require_single_thread()
    for line in control.makefile("rb"):
        errand = msgspec.json.decode(line, type=Errand)
        child = os.fork()
        if child == 0:
            os.close(control.fileno())  # if the parent is killed, the other end learns it at once
            _leave(partial(_run, errand))
        _, status = os.waitpid(child, 0)
        control.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def _run(errand: Errand) -> None:
    """Do an errand, in a process that was forked for it."""
    printed = os.open(errand.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    os.close(printed)
    os.environ.clear()
    os.environ.update(errand.environment)
    path = Path(errand.order)
    os.chdir(path.parent)
    perform(path)


def _leave(work: Callable[[], None]) -> None:
    """Do `work`, and end this process at once, as an interpreter would: with 0, its code, or 1."""
    status = 1
    try:
        work()
        status = 0
    except SystemExit as leaving:
        status = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            ctypes.CDLL(None).fflush(None)
        finally:
            os._exit(status & 0xFF)  # taking the libraries down takes longer than compiling a small program


def perform(path: Path) -> None:
    """Do the order in a JSON file, in a process that does nothing else."""
    import pypto
    import torch

    order = msgspec.json.decode(path.read_bytes(), type=Order)
    if threads := os.environ.get("OMP_NUM_THREADS"):
        torch.set_num_threads(int(threads))
    options: dict[str, Any] = {
        "runtime_options": {"run_mode": pypto.RunMode.SIM},
        "pass_options": _PASS_OPTIONS,
    }
    if order.work is not Work.COST:
        options["host_options"] = {"compile_stage": pypto.CompStage.CODEGEN_INSTRUCTION}
        _pretend_toolkit(path.parent)
    if order.work is Work.VERIFY:
        options["verify_options"] = {"enable_pass_verify": True, "pass_verify_error_tol": [0.0, 0.0]}
    kernel = run_path(order.kernels)["BUILD"][order.program](pypto, *shapes_of(order), options)
    parameters = kernel._cached_signature[0]
    if order.work is Work.VERIFY:
        arrays = [np.load(path.parents[1] / ARRAYS / f"{each.name}.npy") for each in parameters]
        _verify(pypto, order.calculator, kernel, [torch.from_numpy(array) for array in arrays])
    else:
        kinds = {pypto.DT_INT8: torch.int8, pypto.DT_INT32: torch.int32, pypto.DT_FP32: torch.float32}
        kernel(*(torch.zeros(list(each.shape), dtype=kinds[each.dtype]) for each in parameters))


def shapes_of(order: Order) -> tuple[Any, Any]:
    """The device geometry and the tiling of an order that was read from a file, in the workload's types."""
    workload = workload_named(order.workload.name, order.workload.file)
    assert workload.level is not None
    device = workload.packing(geometry_of(workload, order.geometry)).device
    return device, msgspec.convert(order.tiling, workload.level.tiling_type)


def _verify(pypto: Any, calculator: str, kernel: Any, tensors: list[Any]) -> None:
    """Compile with every pass interpreted on `tensors`, the last of which is the golden of the output."""
    from pypto._utils import BuildOnlineManager
    from pypto.pypto_impl import DeviceTensorData, SetVerifyData

    ctypes.CDLL(calculator, mode=ctypes.RTLD_GLOBAL)
    BuildOnlineManager().calculator_loaded = True

    def data(tensor: Any) -> Any:
        return DeviceTensorData(tensor.dtype, tensor.data_ptr, list(tensor.ori_shape))

    golden = pypto.from_torch(tensors[-1])
    uncompared = DeviceTensorData(pypto.DT_FP16, 0, [0, 0])
    goldens = [uncompared] * (len(tensors) - 1) + [data(golden)]

    def hand_over(parameters: list[Any]) -> None:
        # Replaces the package's own copy from the device, which copies nothing if there is no device.
        SetVerifyData([data(each) for each in parameters], [], goldens)

    kernel._setup_verify_data = hand_over
    untouched = sentinel_of(tensors[-1].numpy().dtype)
    kernel(*tensors[:-1], tensors[-1].new_full(tensors[-1].shape, untouched))
    SetVerifyData([], [], [])


def _pretend_toolkit(folder: Path) -> None:
    """Make the compiler write AICore C++: it does if a toolkit's folder of headers exists, even empty.

    The variable is set after the import, which would look for a whole toolkit there.
    """
    (folder / "toolkit" / "include" / "pto").mkdir(parents=True)
    os.environ["ASCEND_HOME_PATH"] = str(folder / "toolkit")


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as _control:
        serve(_control)
    os._exit(0)
