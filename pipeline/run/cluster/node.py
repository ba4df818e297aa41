"""The actor on a node: starts the steward there, carries its lines, and brings the files of processes home.

Ray is sent this module by its content, since the node may have no sources of ours: it imports nothing of
ours, and nothing but the standard library. It runs in a worker of Ray, which has many threads, so it starts
the steward as a fresh interpreter and forks nothing.
"""

from __future__ import annotations

import io
import math
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from contextlib import suppress
from pathlib import Path

LIMIT = 256 * 1024**2
"""Bytes of one process's files that are brought home, at most."""

Packed = tuple[bytes | None, list[tuple[str, bytes]], tuple[str, ...]]
"""The result that a process wrote; its files by name; the names of those that were left behind."""

_BOOT = (
    "import sys; sys.path[:0] = [{sources!r}]; from pipeline.run.cluster.steward import serve;"
    " serve(int(sys.argv[1]), sys.argv[2])"
)
_OLD = 7 * 24 * 3600.0
_PATIENCE = 20.0
_ABANDONED = 60.0
"""Seconds without a call of `listen` after which this node takes itself to be cut off, as the run does."""
_SHOWN = 2000
_LOGGED = 1024**2


class Node:
    """See the module. Several of its methods may run at the same time, each in a thread of its own."""

    def __init__(self, archive: bytes, digest: str, name: str) -> None:
        """Unpack the sources, unless they are here, and start the steward."""
        home = Path(tempfile.gettempdir()) / f"conv-pair-node-{os.getuid()}"
        home.mkdir(mode=0o700, exist_ok=True)
        if home.is_symlink() or home.stat().st_uid != os.getuid():
            raise PermissionError(f"{home} belongs to another user; remove it")
        _remove_old(home)
        self._sources = _unpacked(archive, home / "sources", digest)
        runs = home / "runs"
        runs.mkdir(exist_ok=True)
        self._folder = Path(tempfile.mkdtemp(prefix=f"{name[:40]}-", dir=runs))
        self._goldens = home / "goldens"
        self._goldens.mkdir(exist_ok=True)
        self._log = self._folder / "steward.log"
        self._steward = self._start()
        self._rest = b""
        self._sending = threading.Lock()
        self._left = math.inf
        threading.Thread(target=self._watch, daemon=True).start()

    def places(self) -> tuple[str, str, str]:
        """The folders of sources, goldens and this run."""
        return str(self._sources), str(self._goldens), str(self._folder)

    def listen(self) -> list[tuple[bytes, int, Packed | None]]:
        """Wait for lines of the steward. Those about a process come with its number and its files."""
        self._left = math.inf
        try:
            return self._heard()
        finally:
            self._left = time.monotonic()

    def tell(self, line: bytes, names: tuple[str, ...], *goldens: bytes) -> None:
        """Tell the steward a line, after goldens were put into their folder under these names."""
        for name, content in zip(names, goldens, strict=True):
            written = self._goldens / f".{name}.{threading.get_ident()}.partial"
            written.write_bytes(content)
            written.replace(self._goldens / name)
        with self._sending, suppress(ConnectionError):
            self._socket.sendall(line + b"\n")

    def end(self) -> bytes:
        """Let the steward end its processes and itself. Gives what its nursery had to say of errors."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        try:
            self._steward.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._steward.kill()
            self._steward.wait()
        said = b""
        with suppress(OSError), (self._folder / "nursery.log").open("rb") as log:
            said = log.read(_LOGGED)
        shutil.rmtree(self._folder, ignore_errors=True)
        return said

    def _heard(self) -> list[tuple[bytes, int, Packed | None]]:
        while b"\n" not in self._rest:
            data = b""
            with suppress(ConnectionError):
                data = self._socket.recv(1 << 20)
            if not data:
                raise RuntimeError(self._epitaph())
            self._rest += data
        *lines, self._rest = self._rest.split(b"\n")
        said: list[tuple[bytes, int, Packed | None]] = []
        for line in lines:
            text, number, folder, result = (*line.split(b"\t"), b"", b"", b"")[:4]
            packed = _packed(Path(os.fsdecode(folder)), Path(os.fsdecode(result))) if number else None
            said.append((text, int(number or 0), packed))
        return said

    def _watch(self) -> None:
        """End everything here once nobody listens any more: Ray notices a network that is cut much later.

        A steward says something every few seconds, so that the run has to call `listen` again and again.
        """
        while time.monotonic() - self._left < _ABANDONED:
            time.sleep(_ABANDONED / 20)
        self.end()
        os._exit(1)

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        for name in ("ASCEND_RT_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
            if environment.get(name) == "":  # Ray hides all cards from a process that asked for none
                del environment[name]
        self._socket, theirs = socket.socketpair()
        command = [sys.executable, "-c", _BOOT.format(sources=str(self._sources))]
        with theirs, self._log.open("ab") as log:
            steward = subprocess.Popen(
                [*command, str(theirs.fileno()), str(self._folder)],
                pass_fds=[theirs.fileno()],
                env=environment,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        with suppress(PermissionError):  # Ray makes its workers give way to everything else on the host
            os.setpriority(os.PRIO_PROCESS, steward.pid, 0)
        return steward

    def _epitaph(self) -> str:
        try:
            status = self._steward.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            return "its steward does not answer"
        last = self._log.read_bytes()[-_SHOWN:].decode("utf-8", "backslashreplace").strip().splitlines()
        return f"its steward ended with {status}" + (f": {last[-1]}" if last else "")


def _unpacked(archive: bytes, folder: Path, digest: str) -> Path:
    """The folder of the sources with this digest, unpacked from `archive` if it is not there."""
    found = folder / digest
    if not found.exists():
        folder.mkdir(exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=folder))
        with zipfile.ZipFile(io.BytesIO(archive)) as packed:
            packed.extractall(made)
        try:
            made.rename(found)
        except OSError:  # another node of this host was faster
            shutil.rmtree(made, ignore_errors=True)
    os.utime(found)
    return found


def _remove_old(home: Path) -> None:
    """Remove what earlier runs left: sources, and folders of runs whose steward was killed."""
    for path in [*home.glob("sources/*"), *home.glob("runs/*")]:
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _OLD:
                shutil.rmtree(path, ignore_errors=True)


def _packed(folder: Path, result: Path) -> Packed:
    """The result and the files of a process, which are then removed."""
    files: list[tuple[str, bytes]] = []
    left: list[str] = []
    room = LIMIT
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        name = str(path.relative_to(folder))
        room -= (size := path.stat().st_size)
        if room < 0:
            room += size
            left.append(name)
        else:
            files.append((name, path.read_bytes()))
    written = None
    with suppress(FileNotFoundError):
        written = result.read_bytes()
        result.unlink()
    shutil.rmtree(folder, ignore_errors=True)
    return written, files, tuple(left)
