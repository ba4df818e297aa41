"""The workloads: what is under test, each declared in one place. It imports `golden` and `kernels` only.

`base` has the types of a declaration, `form` those that say what a program is made of, `stages` the stages
of the compare lane, `faults` the faults of convolutions that follow each other; `registry` finds a
declaration by its name or in a user's file. The other modules are the shipped workloads.

A user's file imports from here whatever a declaration needs (docs/workloads.md).
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workloads.offered import *  # noqa: F403 (it says what it offers)


def __getattr__(name: str) -> object:
    """What `offered` has, which is imported when a file asks for it: `list` needs few of it."""
    return getattr(import_module("workloads.offered"), name)
