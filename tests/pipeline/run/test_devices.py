from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.ground.jobs import Platform, PlatformKind
from pipeline.run import devices, processes
from pipeline.run.devices import DeviceError, DevicePool, choose_ids, lock_folder, lock_name, parse_ids

CARD = Platform("a2a3", "pypto", "a2a3", devices=(0, 1, 2), kind=PlatformKind.CARD)
EMULATED = Platform("emu-a2a3", "emulator", "a2a3", devices=(0, 1))


def test_ids_are_read() -> None:
    assert parse_ids("0", "--devices") == (0,)
    assert parse_ids(" 2, 0", "TASK_DEVICE") == (2, 0)


@pytest.mark.parametrize("text", ["", ",", "0,", "-1", "1.0", "zero", "٣", "0x1", "1 2", "9" * 5000])
def test_ids_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(DeviceError, match="is not a device id; give ids such as 0 or 0,2"):
        parse_ids(text, "TASK_DEVICE")


def test_id_given_twice_is_refused() -> None:
    with pytest.raises(DeviceError, match="--devices='0,1,0': device 0 is named twice"):
        parse_ids("0,1,0", "--devices")


def test_pool_is_what_was_asked_for_else_lent_else_in_the_matrix_else_found() -> None:
    anything = Platform("a2a3", "pypto", "a2a3", kind=PlatformKind.CARD)
    assert choose_ids(CARD, requested=[2], lent=[1, 2], discovered=[0, 1, 2]) == (2,)
    assert choose_ids(CARD, lent=[1]) == (1,)
    assert choose_ids(CARD, discovered=[0, 1, 2, 3]) == (0, 1, 2)
    assert choose_ids(anything, discovered=[4, 5]) == (4, 5)
    assert choose_ids(anything) == ()


def test_lent_cards_do_not_bind_emulated_devices() -> None:
    assert choose_ids(EMULATED, lent=[7]) == (0, 1)
    assert choose_ids(EMULATED, requested=[1], lent=[7]) == (1,)


@pytest.mark.parametrize(
    "platform",
    [
        Platform("a2a3sim", "pypto", "a2a3", kind=PlatformKind.SIMULATOR),
        Platform("cann-a2a3", "cann", "a2a3"),
    ],
)
def test_what_needs_no_card_holds_none(platform: Platform) -> None:
    assert choose_ids(platform, requested=[1], lent=[1], discovered=[0, 1]) == ()


@pytest.mark.parametrize(
    ("platform", "sources", "message"),
    [
        (CARD, {"requested": [0], "lent": [1]}, "--devices: device 0 is not among what TASK_DEVICE lent (1)"),
        (CARD, {"requested": [3]}, "--devices: device 3 is not among the devices of platform a2a3 (0, 1, 2)"),
        (CARD, {"lent": [9]}, "TASK_DEVICE: device 9 is not among the devices of platform a2a3 (0, 1, 2)"),
        (CARD, {"requested": [1], "discovered": [0]}, "device 1 is not among the cards of this host (0)"),
        (CARD, {"discovered": []}, "matrix.yaml: device 0 is not among the cards of this host (none)"),
        (EMULATED, {"requested": [2]}, "--devices: device 2 is not among the devices of platform emu-a2a3"),
    ],
)
def test_unknown_id_is_an_error(platform: Platform, sources: dict[str, list[int]], message: str) -> None:
    with pytest.raises(DeviceError) as caught:
        choose_ids(platform, **sources)
    assert message in str(caught.value)


def test_a_card_has_one_lock_whatever_platform_drives_it() -> None:
    assert lock_name(CARD, 0) == lock_name(Platform("a2a3-trial", "pypto", "a2a3", kind=PlatformKind.CARD), 0)
    assert lock_name(CARD, 0) != lock_name(EMULATED, 0)


def test_lock_folder_is_fixed_unless_the_environment_names_one() -> None:
    assert lock_folder({}) == lock_folder({"PIPELINE_LOCKS": "", "TMPDIR": "/elsewhere"})
    assert lock_folder({"PIPELINE_LOCKS": "/shared/locks"}) == Path("/shared/locks")
    with pytest.raises(DeviceError, match="PIPELINE_LOCKS=locks: must be an absolute path"):
        lock_folder({"PIPELINE_LOCKS": "locks"})


def test_lock_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DeviceError, match="set PIPELINE_LOCKS"):
        DevicePool(tmp_path / "file" / "locks")


def test_a_lock_folder_that_takes_no_files_is_one_line() -> None:
    with pytest.raises(DeviceError) as caught:
        DevicePool(Path("/proc"))
    assert str(caught.value) == (
        "lock folder /proc: no files can be made there; "
        "set PIPELINE_LOCKS to a local folder, the same for all runs on this host"
    )


def test_locks_are_open_to_other_users(tmp_path: Path) -> None:
    pool = DevicePool(tmp_path / "locks")
    assert pool.acquire(CARD, [0])
    modes = [
        stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "locks", tmp_path / "locks" / "npu-0.lock")
    ]
    assert modes == [0o1777, 0o666]
    pool.close()


def test_two_pools_never_hold_the_same_device(tmp_path: Path) -> None:
    mine, other = DevicePool(tmp_path), DevicePool(tmp_path)
    first = mine.acquire(CARD, [0, 1])
    second = other.acquire(CARD, [0, 1])
    assert first is not None
    assert second is not None
    assert (first.number, second.number) == (0, 1)
    assert mine.acquire(CARD, [0, 1]) is None
    other.release(second)
    assert mine.acquire(CARD, [0, 1]) == second
    mine.close()
    assert other.acquire(CARD, [0]) == first
    other.close()


def test_stale_holder_blocks_nobody(tmp_path: Path) -> None:
    hold = (
        "import sys, os, signal; from pathlib import Path;"
        "from pipeline.ground.jobs import Platform, PlatformKind;"
        "from pipeline.run.devices import DevicePool;"
        "pool = DevicePool(Path(sys.argv[1]));"
        "pool.acquire(Platform('a2a3', 'pypto', 'a2a3', kind=PlatformKind.CARD), [0]);"
        "print('held', flush=True);"
        "os.kill(os.getpid(), signal.SIGSTOP)"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", hold, str(tmp_path)], stdout=subprocess.PIPE, cwd=Path(__file__).parents[3]
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    pool = DevicePool(tmp_path)
    assert pool.acquire(CARD, [0]) is None
    holder.kill()
    holder.wait()
    holder.stdout.close()
    assert pool.acquire(CARD, [0]) is not None
    pool.close()


def test_what_another_run_left_is_ended_although_this_one_had_the_device_before(tmp_path: Path) -> None:
    mine, other = DevicePool(tmp_path), DevicePool(tmp_path)
    device = mine.acquire(CARD, [0])
    mine.release(device)
    assert other.acquire(CARD, [0]) == device
    mark = f"{other.mark_prefix(device)}a-run/1/"
    left = subprocess.Popen(["sleep", "600"], env={**os.environ, processes.MARK: mark})
    other.close()  # as when it is killed
    assert mine.acquire(CARD, [0]) == device
    assert left.wait(10) == -signal.SIGKILL
    mine.close()


def test_a_device_that_is_set_aside_is_no_longer_used(tmp_path: Path) -> None:
    pool = DevicePool(tmp_path)
    pool.set_aside["npu-1"] = "it hangs"
    assert pool.usable(CARD, [0, 1]) == (0,)
    assert pool.acquire(CARD, [1]) is None


def test_quarantined_device_stays_locked_until_the_run_ends(tmp_path: Path) -> None:
    pool, other = DevicePool(tmp_path), DevicePool(tmp_path)
    device = pool.acquire(CARD, [0])
    assert device is not None
    pool.release(device, ["pid 7 (disk-sleep): kernel"])
    assert other.acquire(CARD, [0]) is None
    assert "pid 7 (disk-sleep): kernel" in pool.set_aside["npu-0"]
    pool.close()
    assert other.acquire(CARD, [0]) == device
    other.close()


def test_network_file_system_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Mount:
        def __init__(self, mountpoint: str, fstype: str) -> None:
            self.mountpoint, self.fstype = mountpoint, fstype

    mounts = [Mount("/", "ext4"), Mount("/shared", "nfs4"), Mount("/shared/local", "tmpfs")]
    monkeypatch.setattr(devices.psutil, "disk_partitions", lambda all: mounts)
    assert "are on nfs4" in devices.network_warning(Path("/shared/locks"))
    assert devices.network_warning(Path("/shared/local/locks")) == ""
    assert devices.network_warning(Path(os.sep) / "tmp" / "locks") == ""


def test_a_device_whose_lock_cannot_be_held_is_set_aside(tmp_path: Path) -> None:
    (tmp_path / "emulated-0.lock").mkdir()
    pool = DevicePool(tmp_path)
    device = pool.acquire(EMULATED, (0, 1))
    assert device is not None
    assert device.number == 1
    assert set(pool.set_aside) == {"emulated-0"}
    assert f"its lock {tmp_path / 'emulated-0.lock'} cannot be held: " in pool.set_aside["emulated-0"]
    pool.close()


def test_a_cleared_lock_folder_is_made_again(tmp_path: Path) -> None:
    pool = DevicePool(tmp_path / "locks")
    shutil.rmtree(tmp_path / "locks")
    assert pool.acquire(EMULATED, (0,)) is not None
    assert not pool.set_aside
    assert stat.S_IMODE((tmp_path / "locks").stat().st_mode) == 0o1777
    pool.close()


def test_a_lock_is_never_made_where_a_link_leads(tmp_path: Path) -> None:
    (tmp_path / "emulated-0.lock").symlink_to(tmp_path / "elsewhere")
    pool = DevicePool(tmp_path)
    assert pool.acquire(EMULATED, (0,)) is None
    assert set(pool.set_aside) == {"emulated-0"}
    assert not (tmp_path / "elsewhere").exists()


def test_a_program_that_is_started_does_not_keep_a_lock(tmp_path: Path) -> None:
    mine, other = DevicePool(tmp_path), DevicePool(tmp_path)
    device = mine.acquire(EMULATED, (0,))
    program = subprocess.Popen(["sleep", "600"], close_fds=False)
    mine.release(device)
    assert other.acquire(EMULATED, (0,)) == device
    program.kill()
    program.wait()
    other.close()
