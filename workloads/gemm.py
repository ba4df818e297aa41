"""The workload `gemm`: a matrix product, int8 x int8 -> int32, made of operators that public PyPTO has."""

from __future__ import annotations

from collections.abc import Mapping

from golden import gemm
from golden.geometry import GemmGeometry
from kernels.choice import Account
from kernels.gemm_plan import GemmPlan, account, make_gemm_plan
from kernels.plan import Limits
from workloads.base import Frame, Kernel, TileProgram, Workload


def _plan(geometry: GemmGeometry, limits: Limits, options: Mapping[str, int]) -> GemmPlan:
    return make_gemm_plan(geometry, limits)


def _account(geometry: GemmGeometry, limits: Limits, options: Mapping[str, int]) -> Account:
    return account(geometry, limits)


def _frame(tensor: str, geometry: GemmGeometry, plan: GemmPlan | None) -> Frame:
    """Each row of c is one position, with its columns as channels; its bands are the bands of a in L1."""
    return Frame(1, plan.band_rows if plan else geometry.m)


WORKLOAD = Workload(
    definition=gemm.DEFINITION,
    programs=(TileProgram("gemm", "kernels.gemm:build_gemm", ("a", "b"), "c", "c"),),
    kernels=(Kernel("gemm", ("gemm",)),),
    plan=_plan,
    frame=_frame,
    example=GemmGeometry(32, 64, 32),
    tensor_level="workloads.gemm_tensor:TENSOR_LEVEL",
    account=_account,
)
