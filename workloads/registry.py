"""Finds the declaration of a workload: a shipped one by its name, a user's in its file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module

from workloads.base import DECLARATION, Workload, WorkloadError

SHIPPED: Mapping[str, str] = {
    "conv-pair": "workloads.conv_pair",
    "conv": "workloads.conv",
    "gemm": "workloads.gemm",
}
"""The module of each workload that is shipped; imported when it is used."""

DEFAULT = "conv-pair"
"""The workload of a geometry that names none."""


def workload_named(name: str, file: str = "") -> Workload:
    """The declaration of a workload.

    Args:
        name: its name in the matrix.
        file: the user's Python file that declares it; empty for a shipped workload.

    Raises:
        WorkloadError: there is no workload of that name, or the file is broken.
    """
    if file:
        return _of_file(name, file)
    if name not in SHIPPED:
        import difflib  # imported here, because only a mistake needs it

        near = difflib.get_close_matches(name, SHIPPED, n=1)
        known = f"the closest known name is `{near[0]}`" if near else f"write one of {', '.join(SHIPPED)}"
        raise WorkloadError(f"unknown workload {name!r}: {known}")
    return _shipped(name)


@cache
def _shipped(name: str) -> Workload:
    found: Workload = getattr(import_module(SHIPPED[name]), DECLARATION)
    return found


@cache
def _of_file(name: str, file: str) -> Workload:
    from workloads.loading import declared  # imported here, as below, because only a user's file needs it
    from workloads.probe import probed

    return declared(name, file, probed(name, file))
