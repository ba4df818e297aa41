"""What this host has of the vendor's public ISA: the headers, and a compiler that can build them."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pipeline.engines.base import Availability
from pipeline.engines.process import said

ROOT = "PTO_ISA_ROOT"
"""Environment variable: a checkout of the headers."""

SANITIZE = "PTO_ISA_SANITIZE"
"""Environment variable: `address` builds with AddressSanitizer; not set or empty, without."""

OLDEST = 19
"""The oldest clang++ that is known to build the headers; 14 does not, nor does g++ 12."""

_COMPILERS = ("clang++", *(f"clang++-{version}" for version in range(OLDEST, OLDEST + 6)))
_ENTRY, _SIMULATOR = Path("include/pto/pto-inst.hpp"), Path("include/pto/cpu")
_VERSION = re.compile(r"clang version (\d+)[.\d]*")


@dataclass(frozen=True)
class Toolchain:
    """Headers and compiler: the checkout's folder, the compiler's path and version, and what identifies both.

    `revision` is the checkout's commit, or empty; `digest` a SHA-256 over all files that can be included.
    """

    root: Path
    revision: str
    digest: str
    compiler: str
    version: str
    sanitize: bool = False

    @property
    def flags(self) -> tuple[str, ...]:
        """How everything is compiled. Assertions stay on, and sums and products are never fused."""
        sanitizer = ("-fsanitize=address", "-g", "-fno-omit-frame-pointer") if self.sanitize else ()
        return (
            *("-std=c++20", "-O2", "-w", "-ffp-contract=off", "-UNDEBUG"),
            *("-D__CPU_SIM", "-DPTO_CPU_MAX_THREADS=1u", *sanitizer),
            f"-I{self.root / 'include'}",
        )

    @property
    def key(self) -> str:
        """Identifies all that a build depends on beside its source."""
        return "\n".join((self.digest, self.version, *self.flags))

    @property
    def headers(self) -> str:
        """The headers, as reports name them."""
        return self.revision or f"no commit, SHA-256 {self.digest[:12]}"

    @property
    def facts(self) -> dict[str, str]:
        """What a result ran with."""
        here = {"pto_isa": self.headers, "compiler": self.version}
        return here | ({"sanitizer": "address"} if self.sanitize else {})


def find(environment: Mapping[str, str]) -> Toolchain | Availability:
    """The toolchain of a host; if it lacks something, why and what to do."""
    root = environment.get(ROOT, "")
    if not root:
        return Availability(
            f"{ROOT} is not set: there are no headers of the vendor's ISA",
            f"set {ROOT} to a checkout of pto-isa (docs/isa.md)",
        )
    sanitize = environment.get(SANITIZE, "")
    if sanitize not in ("", "address"):
        return Availability(f"{SANITIZE} is {sanitize!r}", "set it to address, or leave it out")
    folder = Path(root).absolute()
    if not ((folder / _ENTRY).is_file() and (folder / _SIMULATOR).is_dir()):
        return Availability(
            f"{ROOT} is {root}: there is no {_ENTRY}, or no {_SIMULATOR}", "name a checkout of pto-isa"
        )
    return _found(folder, environment.get("PATH", ""), bool(sanitize))


def versions(environment: Mapping[str, str]) -> Mapping[str, str]:
    """What identifies the toolchain of a host, by name; empty if it lacks something."""
    found = find(environment)
    return {} if isinstance(found, Availability) else found.facts


@lru_cache(maxsize=4)
def _found(root: Path, path: str, sanitize: bool) -> Toolchain | Availability:
    remedy = f"install clang++ {OLDEST} or newer"
    seen = []
    for name in _COMPILERS:
        compiler = shutil.which(name, path=path)
        if compiler is None:
            continue
        printed = said([compiler, "--version"])
        version = _VERSION.search(printed)
        if version and int(version[1]) >= OLDEST:
            try:
                return Toolchain(
                    root, _revision(root), _digest(root), compiler, printed.splitlines()[0], sanitize
                )
            except OSError as error:
                return Availability(f"{ROOT} is {root}: {error}", "name a checkout that can be read")
        seen.append(f"{compiler} is {version[0] if version else 'no clang'}")
    return Availability("; ".join(seen) or "there is no clang++ on PATH", remedy)


def _revision(root: Path) -> str:
    """The commit of a checkout, marked if files differ from it; empty where git knows none."""
    top = said(["git", "-C", str(root), "rev-parse", "--show-toplevel"])
    if not top or Path(top).resolve() != root.resolve():  # a folder inside another project's checkout
        return ""
    return said(["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"])


def _digest(root: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted((root / "include").rglob("*")):
        if path.is_file():
            digest.update(f"{path.relative_to(root)}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
