"""A stand-in for matplotlib whose pictures are empty files, for jobs whose pictures nobody looks at.

To import matplotlib and to draw takes longer than the rest of a small job.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any


class Anything:
    """Has every attribute, and whatever is called gives it again; a picture that it saves is empty."""

    def __getattr__(self, name: str) -> Any:
        return self

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self

    def __enter__(self) -> None: ...

    def __exit__(self, *raised: object) -> None: ...

    def savefig(self, path: Path, **options: Any) -> None:
        path.touch()


_ANYTHING = Anything()
for module in ("backends", "backends.backend_agg", "backends.backend_svg", "colors", "figure", "ticker"):
    sys.modules[f"{__name__}.{module}"] = _ANYTHING  # type: ignore[assignment]
rc_context = rcdefaults = _ANYTHING
rcParams: dict[str, Any] = {}  # noqa: N816
