"""The folder in which engines keep what takes long to build."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache(engine: str) -> Path | None:
    """An engine's folder in the user's cache folder, if there is one.

    By the XDG Base Directory Specification, a relative path counts as not set.
    """
    folder = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not folder.is_absolute():
        try:
            folder = Path.home() / ".cache"
        except RuntimeError:
            return None
    return folder / "conv-pair-pipeline" / engine if folder.is_absolute() else None
