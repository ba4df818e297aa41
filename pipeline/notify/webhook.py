"""Delivers a notification to a webhook. Its address is a secret: whoever knows it can post there."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from pathlib import Path
from queue import Empty, SimpleQueue

import msgspec
import urllib3
from urllib3.exceptions import HTTPError, LocationParseError, MaxRetryError
from urllib3.util import Retry, Timeout, Url, make_headers, parse_url

from golden.errors import UserError
from pipeline.ground.files import read_file
from pipeline.ground.words import counted
from pipeline.report.results import RunResults
from pipeline.report.text import one_line

VARIABLE = "PIPELINE_WEBHOOK"
"""The environment variable that has the address."""

LIMIT = 40_000
"""Bytes of a body, at most."""

RETRIES = 4
"""How often a delivery is tried again."""

BACKOFF = 1.0
"""The retries come after 0, 2, 4 and 8 times as many seconds."""

DEADLINE = 120.0
"""Seconds for all attempts together, however slowly a server answers."""

_FACT = 200
_SECONDS = Timeout(connect=5.0, read=15.0)
_AGAIN = frozenset({429, *range(500, 600)})


class AddressError(UserError):
    """The address of a webhook cannot be used; the line does not tell it."""


class DeliveryError(UserError):
    """A webhook did not take the notification; one line, without the address. It says nothing of the run."""

    exit_code = 6


def address(file: Path | None, environment: Mapping[str, str]) -> Url | None:
    """The address in a file, else in the environment; None if neither has one.

    Raises:
        AddressError: the file cannot be read, or there is no web address in it.
    """
    where = f"--webhook {file}" if file else VARIABLE
    if str(file).lower().startswith(("http:", "https:")):
        raise AddressError(
            "--webhook: an address on a command line can be seen by every user of the host: write it into a "
            f"file and name that, or set {VARIABLE}"
        )
    try:
        written = (read_file(file).decode() if file else environment.get(VARIABLE, "")).strip()
        if not written and file is None:
            return None
        url = parse_url(written)
    except OSError as error:
        raise AddressError(f"{where}: cannot be read: {error.strerror}; name another file") from None
    except (LocationParseError, UnicodeError):
        url = Url()
    if url.scheme not in ("https", "http") or not url.host or len(written.split()) != 1:
        raise AddressError(f"{where}: holds no web address: write one line, https://...")
    return url


def body_of(results: RunResults, text: str) -> bytes:
    """The notification as JSON: facts of the run, and `text`, its Markdown."""
    names = ("run", "commit", "branch", "verdict")
    facts = {name: one_line(getattr(results, name), _FACT) for name in names}
    return msgspec.json.encode({"version": 1, **facts, "exit_code": results.exit_code, "text": text})


def deliver(url: Url, body: bytes, backoff: float = BACKOFF, deadline: float = DEADLINE) -> None:
    """Post a body; try again after an error of the connection or the server, or if it asks us to wait.

    No redirect is followed, because it could lead to another host. After `deadline` seconds it is given up.

    Raises:
        DeliveryError: it was not taken.
    """
    ended: SimpleQueue[Exception | None] = SimpleQueue()

    def attempt() -> None:
        try:
            _post(url, body, backoff)
        except Exception as error:
            ended.put(error)
        else:
            ended.put(None)

    # A server that sends a little now and then never lets a timeout of the socket pass.
    threading.Thread(target=attempt, daemon=True).start()
    try:
        error = ended.get(timeout=deadline)
    except Empty:
        error = _not_taken(url, f"no answer within {deadline:g} s")
    if error is not None:
        raise error from None


def _post(url: Url, body: bytes, backoff: float) -> None:
    logging.getLogger("urllib3").setLevel(logging.CRITICAL)  # its warnings tell the address
    retry = Retry(
        RETRIES,
        redirect=0,
        status_forcelist=_AGAIN,
        allowed_methods={"POST"},
        backoff_factor=backoff,
        raise_on_status=False,
        respect_retry_after_header=False,  # it could ask for hours
    )
    headers = {"Content-Type": "application/json", **(make_headers(basic_auth=url.auth) if url.auth else {})}
    try:
        with urllib3.PoolManager(retries=retry, timeout=_SECONDS) as pool:
            # Of the address it sends the path and the query alone.
            answer = pool.request(
                "POST", url.url, body=body, headers=headers, redirect=False, preload_content=False
            )
            answer.release_conn()
    except MaxRetryError as error:
        cause = getattr(error.reason, "__cause__", None)
        why = getattr(cause, "strerror", None) or type(error.reason).__name__
    except HTTPError as error:
        why = type(error).__name__
    else:
        if 200 <= answer.status < 300:
            return
        moved = ", a redirect, which is not followed" if 300 <= answer.status < 400 else ""
        why = f"it answered {answer.status}{moved}"
    raise _not_taken(url, why)


def _not_taken(url: Url, why: str) -> DeliveryError:
    return DeliveryError(
        f"the webhook at {url.host} did not take the notification: {why} "
        f"({counted(RETRIES, 'retry', 'retries')} at most); the run's own result stands"
    )
