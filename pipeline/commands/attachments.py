"""What the paths of attachments in a report are relative to: `--attachments`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pipeline.commands.options import RELATIVE

CHECKOUT = "CI_PROJECT_DIR"
"""Environment variable in which GitLab names the checkout of a job; paths in its reports start there."""


def relative_to(paths: str, environment: Mapping[str, str]) -> Path | None:
    """GitLab's checkout or else the current folder; None where `--attachments` asks for absolute paths."""
    return Path(environment.get(CHECKOUT) or Path.cwd()) if paths == RELATIVE else None
