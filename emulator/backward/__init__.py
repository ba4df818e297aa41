"""Goes back through a walk from what the outputs must hold, to the operators that are at fault.

An output demands sums, a sum demands its elements, and each demand goes to the operator that wrote the place
where the element was read. Where a demand is not what the place held, something is wrong there or before:

- Sums that all are made, but lie elsewhere: the operator that stored them is at fault.
- Readers of a buffer that demand different things of one place, or padding where an element is needed, or the
  reverse: the readers are at fault.
- All readers of a place agree, and what they demand is in the buffer: the readers or what filled it. If it is
  not in the buffer: what filled it, or something before.
"""

from __future__ import annotations

from emulator.backward.suspicion import NOTHING, Fault, Suspicion, Terms
from emulator.backward.walk import suspicions

__all__ = ["NOTHING", "Fault", "Suspicion", "Terms", "suspicions"]
