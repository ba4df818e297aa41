"""Where PyPTO keeps the oldest version of PTOAS that it takes; an older PyPTO names none."""

from __future__ import annotations

from pypto._orders import ORDERS

if "ptoas" in ORDERS:
    PTOAS_MIN_VERSION = ORDERS["ptoas"]
