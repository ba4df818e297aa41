"""The verifier's calculator: a torch library that CANN PyPTO ships as source and builds in every process.

Built here once, with the sources and flags of the package, and kept under a key of all that determines it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from importlib import metadata
from pathlib import Path

from filelock import FileLock

from pipeline.engines.base import InfrastructureError

COMPILER = "g++"

_LIBRARY = "libtile_fwk_calculator.so"


def calculator(cache: Path) -> Path:
    """The calculator's library in `cache`, built first where it is not there (about 40 s).

    Any number of processes may ask at once: one builds, the others wait for it.

    Raises:
        InfrastructureError: where there is no compiler or it fails.
    """
    compiler = shutil.which(COMPILER)
    if compiler is None:
        raise InfrastructureError(f"{COMPILER} is not on PATH: the verifier's calculator cannot be built")
    package, torch = (Path(str(metadata.distribution(name).locate_file(name))) for name in ("pypto", "torch"))
    sources = sorted((package / "lib" / "calculator" / "src").iterdir())
    folder = cache / f"calculator-{_key(compiler, sources)}"
    library = folder / _LIBRARY
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "building.lock"):
        if not library.exists():
            _build(compiler, package, torch, [path for path in sources if path.suffix == ".cpp"], library)
    return library


def _key(compiler: str, sources: list[Path]) -> str:
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
    digest = hashlib.sha256(version.encode())
    for name in ("pypto", "torch"):
        digest.update(f"\n{name} {metadata.version(name)}".encode())
    for path in sources:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _build(compiler: str, package: Path, torch: Path, sources: list[Path], library: Path) -> None:
    includes = [
        torch / "include",
        torch / "include" / "torch" / "csrc" / "api" / "include",
        package / "lib" / "calculator" / "include",
    ]
    handle, unfinished = tempfile.mkstemp(dir=library.parent, suffix=".so")
    os.close(handle)
    command = [
        # The ABI is that of torch's own builds.
        *(compiler, "-std=c++17", "-O2", "-fPIC", "-shared", "-D_GLIBCXX_USE_CXX11_ABI=1", "-D__DEVICE__"),
        *(f"-isystem{path}" for path in includes),
        *map(str, sources),
        *(f"-L{path}" for path in (torch / "lib", package / "lib")),
        *("-Wl,--no-as-needed", "-ltorch_cpu", "-lc10", "-ltorch", "-Wl,--as-needed", "-lc_sec"),
        *("-o", unfinished),
    ]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode:
        Path(unfinished).unlink()
        reason = next((line for line in built.stderr.splitlines() if "error" in line), built.stderr[-300:])
        raise InfrastructureError(f"{COMPILER} cannot build the verifier's calculator: {reason}")
    Path(unfinished).replace(library)
