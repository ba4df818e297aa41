"""Devices: which ids a run may use, and the locks that let only one job on the whole host use a device.

A lock is a file in one folder that every run on the host uses, locked by `flock`. The kernel releases it when
its holder dies, so no stale lock remains. Processes that a dead holder left running are found by their mark
and killed before another run uses the device.
"""

from __future__ import annotations

import os
import re
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

import psutil
from filelock import FileLock, Timeout

from golden.errors import UserError
from pipeline.ground.files import destination
from pipeline.ground.flock import require_flock
from pipeline.ground.jobs import Platform
from pipeline.run import processes

LOCKS_VARIABLE = "PIPELINE_LOCKS"
"""Environment variable that names another lock folder; it must be the same for every run on the host."""

LENT = "TASK_DEVICE"
"""Environment variable in which a scheduler gives the physical ids of the cards it lends."""

HOST = "host"
"""What a place on a node is called that is no device."""

_DEVICE_ID = re.compile("[0-9]{1,5}")
_LOCKS = "/tmp/conv-pair-device-locks"
_NETWORK_FILESYSTEMS = ("nfs", "cifs", "smb", "lustre", "gpfs", "fuse", "9p", "afs", "beegfs", "ceph")
_KILL_PATIENCE = 5.0


class DeviceError(UserError):
    """The devices asked for cannot be used; the message is one line: what, where, remedy."""


def parse_ids(text: str, source: str) -> tuple[int, ...]:
    """Read device ids such as `0,2`. `source` names where they stand (`--devices`).

    Raises:
        DeviceError: an id is missing, not a decimal number, or given twice.
    """
    ids = []
    for part in (piece.strip() for piece in text.split(",")):
        if not _DEVICE_ID.fullmatch(part):
            raise DeviceError(f"{source}={text!r}: {part!r} is not a device id; give ids such as 0 or 0,2")
        ids.append(int(part))
    twice = [number for number, count in Counter(ids).items() if count > 1]
    if twice:
        raise DeviceError(f"{source}={text!r}: device {twice[0]} is named twice; name it once")
    return tuple(ids)


def choose_ids(
    platform: Platform,
    *,
    requested: Sequence[int] | None = None,
    lent: Sequence[int] | None = None,
    discovered: Sequence[int] | None = None,
) -> tuple[int, ...]:
    """The devices a run may use for `platform`, in the order asked for; empty if it needs none.

    `requested` are the ids of `--devices`, `lent` those of `TASK_DEVICE` and `discovered` the cards that this
    host has for the platform; None if they are not given or not known. What is lent are physical cards: a
    platform that does not run on cards ignores them.

    Raises:
        DeviceError: an id is unknown, or outside what was lent.
    """
    if not platform.on_cards:
        lent = discovered = None
        if not platform.devices:
            return ()
    known = platform.devices or discovered
    sources = (("--devices", requested), (LENT, lent), ("matrix.yaml", platform.devices or None))
    source, chosen = next(((name, ids) for name, ids in sources if ids is not None), ("", discovered or ()))
    limits = (
        (f"what {LENT} lent", lent),
        (f"the devices of platform {platform.name}", known),
        ("the cards of this host", discovered),
    )
    for number in chosen:
        for name, allowed in limits:
            if allowed is not None and number not in allowed:
                listed = ", ".join(map(str, allowed)) or "none"
                raise DeviceError(f"{source}: device {number} is not among {name} ({listed})")
    return tuple(chosen)


@cache  # so that the results of thousands of jobs hold one text
def lock_name(platform: Platform, number: int) -> str:
    """Name of a device's lock. All platforms share the lock of a card; emulated devices have other locks."""
    return f"{'npu' if platform.on_cards else 'emulated'}-{number}"


@cache
def lock_names(platform: Platform, numbers: tuple[int, ...]) -> tuple[str, ...]:
    """The names of the locks of devices; the same tuple for all jobs."""
    return tuple(lock_name(platform, number) for number in numbers)


def on_node(node: str, name: str) -> str:
    """The name of a device of a node, or of the node itself if `name` is `HOST`."""
    return f"{node}:{name}"


def node_of(place: str) -> str:
    """The node that a place is on; empty if this host is the only one."""
    return place.rpartition(":")[0]


def lock_of(place: str) -> str:
    """The name that a place has on its own host: that of a device's lock, or `HOST`."""
    return place.rpartition(":")[2]


def number_of(place: str) -> int | None:
    """The physical id of a device; None if the place is a whole host."""
    lock = lock_of(place)
    return None if lock == HOST else int(lock.rpartition("-")[2])


def in_words(place: str) -> str:
    """A place for people: `device 1`, `device 1 of 10.0.0.3`, or `node 10.0.0.3`."""
    node, number = node_of(place), number_of(place)
    if number is None:
        return f"node {node}"
    return f"device {number}" + (f" of {node}" if node else "")


def lock_folder(environment: Mapping[str, str]) -> Path:
    """The host's folder of device locks. Raises `DeviceError` if `PIPELINE_LOCKS` is a relative path."""
    folder = Path(environment.get(LOCKS_VARIABLE) or _LOCKS)
    if not folder.is_absolute():
        raise DeviceError(
            f"{LOCKS_VARIABLE}={folder}: must be an absolute path, the same for all runs on this host"
        )
    return folder


def network_warning(folder: Path) -> str:
    """A warning if `folder` is on a network file system, whose locks may not work; else empty."""
    mounts = {Path(part.mountpoint): part.fstype for part in psutil.disk_partitions(all=True)}
    home = next((parent for parent in (folder, *folder.parents) if parent in mounts), None)
    kind = mounts[home] if home is not None else ""
    if not kind.startswith(_NETWORK_FILESYSTEMS):
        return ""
    return f"device locks in {folder} are on {kind} and may not work; set {LOCKS_VARIABLE} to a local folder"


@dataclass(frozen=True)
class Device:
    """What a process of this run holds: a device, by its physical id and its lock's name.

    If several hosts take part, the name begins with the host's (`on_node`), and a process that needs no
    device holds a part of a host, without a number.
    """

    number: int | None
    name: str


class DevicePool:
    """The devices of one run. Each run on the host has its own pool; the locks prevent sharing."""

    def __init__(self, folder: Path) -> None:
        """Use the locks in `folder`, created if missing. Raises `DeviceError` if that is not possible."""
        self._folder = destination(folder)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with suppress(PermissionError):  # it belongs to another user, who has opened it to all
                self._folder.chmod(0o1777)
            require_flock(self._folder)
        except OSError as error:
            remedy = f"set {LOCKS_VARIABLE} to a local folder, the same for all runs on this host"
            raise DeviceError(f"lock folder {folder}: {error.strerror}; {remedy}") from error
        # Distinguishes the marks of runs that have different lock folders.
        self._key = sha256(os.fsencode(self._folder)).hexdigest()[:8]
        self._name = secrets.token_bytes(16)
        self._locks: dict[str, FileLock] = {}
        self.set_aside: dict[str, str] = {}
        """Why this run has stopped using devices, by the names of their locks."""

    def mark_prefix(self, device: Device | None) -> str:
        """The start of the marks of all jobs that hold `device`, in any run."""
        return f"{self._key}/{device.name if device is not None else 'none'}/"

    def usable(self, platform: Platform, ids: Sequence[int]) -> tuple[int, ...]:
        """Those of `ids` that were not set aside."""
        return tuple(number for number in ids if lock_name(platform, number) not in self.set_aside)

    def acquire(self, platform: Platform, ids: Sequence[int]) -> Device | None:
        """Lock one of `ids`. None if all are set aside or busy, in this or another run."""
        for number in self.usable(platform, ids):
            name = lock_name(platform, number)
            if self._holds(name) or not self._lock(name):
                continue
            device = Device(number, name)
            alive = self._sweep(device)
            if not alive:
                return device
            self.release(device, alive)
        return None

    def _sweep(self, device: Device) -> Sequence[str]:
        """Kill what a killed run left on a device whose lock we hold. Returns what cannot be killed.

        Each pool writes its name to the lock's file before its first job. If ours is still there, nobody else
        has had the device since we gave it back with no process on it, and we need not look at all processes
        of the host.
        """
        file = self.lock_file(device.name)
        with suppress(OSError):
            if file.read_bytes() == self._name:
                return ()
        _, alive = processes.kill_marked(self.mark_prefix(device), _KILL_PATIENCE)
        with suppress(OSError):  # without our name there (a full disk) we look each time
            file.write_bytes(self._name)
        return alive

    def _holds(self, name: str) -> bool:
        return name in self._locks and self._locks[name].is_locked

    def held_elsewhere(self, names: Iterable[str]) -> tuple[str, ...]:
        """Of locks that could not be acquired just now, those that another process holds."""
        return tuple(name for name in names if not self._holds(name) and name not in self.set_aside)

    def lock_file(self, name: str) -> Path:
        """The file of a lock."""
        return self._folder / f"{name}.lock"

    def _lock(self, name: str) -> bool:
        path = self.lock_file(name)
        if name not in self._locks:
            self._locks[name] = FileLock(path, mode=0o666, thread_local=False)
        try:
            self._locks[name].acquire(timeout=0)
        except Timeout:
            return False
        except OSError as error:  # another user's file, a folder, a full disk: without a lock, no device
            self.set_aside[name] = f"its lock {path} cannot be held: {error.strerror or error}"
            return False
        return True

    def release(self, device: Device | None, alive: Sequence[str] = ()) -> None:
        """Give a device back, if there is one.

        If processes that use it cannot be killed (`alive` describes them), it is set aside instead, and its
        lock is held until the run ends.
        """
        if device is not None and alive:
            self.set_aside[device.name] = f"in use by processes that cannot be killed: {'; '.join(alive)}"
        elif device is not None:
            self._locks[device.name].release()

    def close(self) -> None:
        """Release whatever is still held."""
        for lock in self._locks.values():
            lock.release()
        self._locks.clear()
