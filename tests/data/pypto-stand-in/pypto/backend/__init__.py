"""`pypto.backend`."""

from __future__ import annotations

from enum import Enum


class BackendType(Enum):
    Ascend910B = 0
    Ascend950 = 1
