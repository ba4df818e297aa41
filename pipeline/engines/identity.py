"""Which framework called PyPTO is installed: two packages share the name `pypto`, and versions overlap.

They are distinguished by their files; neither is imported.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import metadata
from pathlib import Path


class Framework(str, Enum):
    """Who made the package `pypto` that is installed."""

    CANN = "CANN PyPTO"
    HW_NATIVE_SYS = "hw-native-sys PyPTO"
    UNKNOWN = "an unknown package called pypto"
    NONE = "no package called pypto"


_MARKS = {
    "pypto/frontend/": Framework.CANN,
    "pypto/language/": Framework.HW_NATIVE_SYS,
}
"""A folder that only one of the frameworks has."""


@dataclass(frozen=True)
class Identity:
    """What is installed: the framework and its version (empty if there is none).

    `commit` is known if the package was installed from a repository, not from a copy of its files.
    """

    framework: Framework
    version: str = ""
    commit: str = ""

    def __str__(self) -> str:
        commit = f" (commit {self.commit[:12]})" if self.commit else ""
        return f"{self.framework.value} {self.version}".rstrip() + commit


def identify(path: Sequence[str] | None = None) -> Identity:
    """Identify the package `pypto` on a search path (by default this interpreter's) without importing it."""
    found = list(metadata.distributions(name="pypto", path=list(sys.path if path is None else path)))
    if not found:
        return Identity(Framework.NONE)
    package = found[0]
    framework = Framework.UNKNOWN
    for mark, candidate in _MARKS.items():
        # The list of its files is no help: that of an editable installation has none of the package's.
        if Path(str(package.locate_file(mark))).is_dir():
            framework = candidate
    return Identity(framework, package.version, _commit(package))


def _commit(package: metadata.Distribution) -> str:
    """The commit it was installed from, as the installer recorded it (PEP 610)."""
    origin = json.loads(package.read_text("direct_url.json") or "{}")
    return str(origin.get("vcs_info", {}).get("commit_id", ""))
