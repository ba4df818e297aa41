"""`notify`: others are told how an earlier run went."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path

from pipeline.commands.settings import refuse_loop
from pipeline.ground.files import destination
from pipeline.history.named import located, results_named
from pipeline.history.past import HistoryError, may_exist, place
from pipeline.matrix.select import FilterError
from pipeline.notify import webhook
from pipeline.notify.checks import annotated
from pipeline.notify.news import Moves, markdown
from pipeline.report.document import writing
from pipeline.report.files import check_writable
from pipeline.report.results import NAME, RunResults, beside
from pipeline.run.folders import JOURNAL
from pipeline.run.messages import write_atomically


def notify(arguments: Namespace, environment: Mapping[str, str]) -> int:
    """`notify`: an earlier run as Markdown, as annotations, to a webhook; 0 if all of it was told.

    The Markdown is printed if nothing else is asked for.

    Raises:
        DeliveryError: the webhook did not take it.
    """
    if arguments.markdown is not None:
        refuse_loop("markdown", arguments.markdown)
        check_writable(arguments.markdown)
    url = webhook.address(arguments.webhook, environment)
    root = arguments.output.absolute() / "runs"
    name, where = located(arguments.run, root), place(arguments.output, environment)
    if arguments.markdown is not None:
        _refuse_input(arguments.markdown, [root / name, arguments.webhook, where])
    results = results_named(name, root)
    text = markdown(results, _moves(results, where))
    if arguments.markdown is not None:
        with writing(arguments.markdown):
            arguments.markdown.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(arguments.markdown, text.encode())
    elif not arguments.annotations and url is None:
        sys.stdout.write(text)
    if arguments.annotations:
        checkout = Path(environment.get("GITHUB_WORKSPACE") or Path.cwd())
        sys.stdout.writelines(f"{line}\n" for line in annotated(results.jobs, checkout))
    if url is not None:
        webhook.deliver(url, webhook.body_of(results, text))
    return 0


def _refuse_input(path: Path, read: Sequence[Path | str | None]) -> None:
    """Raise `FilterError` if the Markdown would replace a file that is read, also in a run's folder."""
    for each in (one for one in read if isinstance(one, Path) and one.name):
        files = [each, beside(each), *(each / name for name in (JOURNAL, NAME, "junit.xml"))]
        if destination(path) in map(destination, files):
            raise FilterError(f"--markdown {path}: this file is read here; name another")


def _moves(results: RunResults, where: str | Path) -> Moves:
    """What the history says that this run changed; if it cannot, why."""
    if not may_exist(where):
        return Moves(unknown="there is no history here")
    from pipeline.history.questions import fixed, run_named, slower
    from pipeline.history.store import open_history

    try:
        with open_history(where) as history:
            run = run_named(history, results.run)
            passing = {one.job: one.before.run for one in fixed(history, run) if one.before}
            return Moves(passing, tuple(slower(history, run)))
    except HistoryError as error:
        return Moves(unknown=str(error))
