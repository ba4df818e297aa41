"""`notify`: others are told how an earlier run went."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

from pipeline.commands.settings import refuse_loop
from pipeline.ground.jobs import State
from pipeline.notify import webhook
from pipeline.notify.checks import annotated
from pipeline.notify.news import markdown
from pipeline.report.document import writing
from pipeline.report.earlier import located, read_earlier
from pipeline.report.files import clear
from pipeline.results.review import History
from pipeline.run.messages import write_atomically


def notify(arguments: Namespace, environment: Mapping[str, str]) -> int:
    """`notify`: an earlier run as Markdown, as annotations, to a webhook; 0 if all of it was told.

    The Markdown is printed if nothing else is asked for.

    Raises:
        DeliveryError: the webhook did not take it.
    """
    if arguments.markdown is not None:
        refuse_loop("markdown", arguments.markdown)
        clear(arguments.markdown)
    url = webhook.address(arguments.webhook, environment)
    root = arguments.output.absolute() / "runs"
    results = read_earlier(located(arguments.run, root), root)
    history = History(root, before=results.run)
    passed = (one.job.id for one in results.jobs if one.state is State.PASSED)
    before = {job: history.failed_in(job, results.settings) for job in passed}
    text = markdown(results, {job: run for job, run in before.items() if run})
    if arguments.markdown is not None:
        with writing(arguments.markdown):
            write_atomically(arguments.markdown, text.encode())
    elif not arguments.annotations and url is None:
        sys.stdout.write(text)
    if arguments.annotations:
        checkout = Path(environment.get("GITHUB_WORKSPACE") or Path.cwd())
        sys.stdout.writelines(f"{line}\n" for line in annotated(results.jobs, checkout))
    if url is not None:
        webhook.deliver(url, webhook.body_of(results, text))
    return 0
