"""`dashboard`: the pages of an earlier run, written again."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping

from pipeline.dashboard.site import NAME, dashboard_of
from pipeline.ground.words import unbroken
from pipeline.history.named import located, results_named
from pipeline.history.past import place


def dashboard(arguments: Namespace, environment: Mapping[str, str]) -> int:
    """`dashboard`: write it and say where its first page is. How the run ended is no failure of this command.

    That of a run lies in the run's folder, that of a file beside the file, unless `--site` names a folder.
    """
    root = arguments.output.absolute() / "runs"
    name = located(arguments.run, root)
    results = results_named(name, root)
    folder = root / name
    kept = folder if folder.is_dir() else folder.parent
    target = arguments.site or (kept / NAME if folder.is_dir() else folder.with_name(f"{folder.stem}.{NAME}"))
    dashboard_of(results, target.absolute(), kept, place(arguments.output, environment))
    sys.stdout.write(f"{unbroken(f'run {results.run}: {target}')}/index.html\n")
    return 0
