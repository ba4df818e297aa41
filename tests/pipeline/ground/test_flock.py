"""A folder whose files cannot be locked; flock's refusals are provoked, as no such file system is here."""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
from pathlib import Path

import pytest

from pipeline.ground.flock import require_flock, try_flock


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP])
def test_a_folder_without_locks_is_refused_and_nothing_is_left_in_it(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, "not here")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(OSError, match="files there cannot be locked: flock fails with 'not here'") as caught:
        require_flock(tmp_path)
    assert caught.value.errno == number
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_locks_is_not(tmp_path: Path) -> None:
    require_flock(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_one_that_takes_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no files can be made there"):
        require_flock(tmp_path / "nowhere")


def test_one_that_only_others_may_write_to_is_not_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> None:
        raise PermissionError(errno.EACCES, "not yours")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    require_flock(tmp_path)


def test_a_lock_lasts_until_its_descriptor_is_closed(tmp_path: Path) -> None:
    held = try_flock(tmp_path / "device.lock")
    assert held is not None
    assert try_flock(tmp_path / "device.lock") is None
    os.close(held)
    again = try_flock(tmp_path / "device.lock")
    assert again is not None
    os.close(again)


def test_no_lock_is_followed_to_another_file(tmp_path: Path) -> None:
    (tmp_path / "device.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic link"):
        try_flock(tmp_path / "device.lock")
    assert not (tmp_path / "elsewhere").exists()
