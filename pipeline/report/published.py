"""Publishes a report only after it was written, read back and checked."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from pipeline.report.document import ReportError, Totals, check, read


def publish(path: Path, data: bytes, totals: Totals) -> None:
    """Write a JUnit document beside its path, parse it back, compare its totals, and only then rename it.

    Args:
        path: where the report goes; an older one there stays until the new one is checked.
        data: the serialised document.
        totals: what the run itself counted.

    Raises:
        ReportError: in one line, where it cannot be written (a full disk) or does not say what the run said;
            nothing half-written is left.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            temporary = Path(file.name)
            try:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                _prove(temporary, path, totals)
                temporary.chmod(0o644)
                temporary.replace(path)
            except BaseException:
                temporary.unlink()
                raise
        _sync_folder(path.parent)
    except OSError as error:
        raise ReportError(f"{path}: the report cannot be written: {error.strerror}") from None


def _prove(temporary: Path, path: Path, totals: Totals) -> None:
    try:
        written = check(read(temporary))
    except ReportError as error:
        raise ReportError(f"{path}: not published: {error}") from None
    if written != totals:
        raise ReportError(f"{path}: not published: it says {written}; the run says {totals}")


def _sync_folder(folder: Path) -> None:
    """Make the rename itself survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
