"""How others are told of a run, whatever of it they have: its folder, its results or a report."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("torch_installed", "recorded")

SMALL = (
    "run",
    "--platform",
    "emu-a2a3",
    "--geometry",
    "pair-24x16",
    "--kernel",
    "fused",
    "--profile",
    "small",
)
JOB = "device/emu-a2a3/pair-24x16/fused/small"

Pipeline = Callable[..., Any]


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """What a webhook, whose address is in the environment, is sent; it answers 500 if it has something."""
    sent: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200 if len(sent) == 1 else 410)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("PIPELINE_WEBHOOK", f"http://127.0.0.1:{server.server_port}/s3cret")
    yield sent
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_fault_and_its_end_are_told(
    pipeline: Pipeline,
    last_run: Callable[[], Path],
    workspace: Path,
    monkeypatch: pytest.MonkeyPatch,
    hook: list[Any],
) -> None:
    monkeypatch.delenv("PIPELINE_WEBHOOK")
    assert pipeline(*SMALL, "--inject", "bias-missing-2").code == 1
    red = last_run()

    # Its folder, its results and its report tell the same; a clean exit says that it was told.
    shutil.copy(red / "results.json", workspace / "results.json")
    shutil.copy(red / "junit.xml", workspace / "night.xml")
    told = [pipeline("notify", run) for run in ("last", red.name, red, "results.json", "night.xml")]
    assert {each.code for each in told} == {0}
    assert len({each.out for each in told}) == 1
    assert told[0].out.startswith("## Failed (exit code 1): 1 of 1 job is red: 1 mismatch\n")
    assert "### New\n" in told[0].out

    annotated = pipeline("notify", "last", "--annotations", "--markdown", "news.md")
    assert annotated.out.startswith(
        "::error title=1 job%2C one cause%3A bias-missing-2%2C platform emu-a2a3::y: "
    )
    assert (workspace / "news.md").read_text() == told[0].out

    # It passes, but an entry expects a failure; without the entry it is good again.
    known = f"{{jobs: {JOB}, reason: known, link: 'https://issues.example/1'}}"
    (workspace / "known.yaml").write_text(f"expected_failures: [{known}]\n")
    assert pipeline(*SMALL, "--matrix", "known.yaml").code == 1
    red = last_run()
    assert "### Fixed" not in pipeline("notify", "last").out
    assert pipeline(*SMALL).code == 0
    assert f"### Fixed\n\n- `{JOB}`: failed in run `{red.name}`\n" in pipeline("notify", "last").out
    assert "### Fixed" not in pipeline("notify", red.name).out  # what came later is no news there
    (workspace / "out" / "history.sqlite").unlink()
    assert "is not known: `there is no history here`" in pipeline("notify", "last").out


def test_a_webhook_that_fails_changes_no_verdict(pipeline: Pipeline, hook: list[Any]) -> None:
    assert pipeline("compile", *SMALL[1:-2]).code == 0
    delivered = pipeline("notify", "last")
    assert (delivered.code, delivered.out, delivered.err) == (0, "", "")
    (body,) = hook
    assert body["exit_code"] == 0
    assert body["text"].startswith("## Passed: no job is red: 1 passed")
    gone = pipeline("notify", "last", "--markdown", "news.md")
    assert (gone.code, gone.out) == (6, "")
    assert gone.err.count("\n") == 1
    assert "it answered 410" in gone.err
    assert "s3cret" not in gone.err
    assert Path("news.md").exists()  # what could be told was told
    assert pipeline("report", "show", "last").code == 0


def test_a_run_that_is_not_there_is_one_line(refused: Callable[..., str]) -> None:
    assert "there is no run yet" in refused("notify", "last")
    assert "nowhere: is no run, file or folder here" in refused("notify", "nowhere")
    assert "is a device or a pipe" in refused("notify", "last", "--markdown", "/dev/null")
