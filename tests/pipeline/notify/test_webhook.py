from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest
from urllib3.util import parse_url

from golden.errors import UserError
from pipeline.ground.jobs import State
from pipeline.ground.results import Result
from pipeline.notify.news import LIMIT as MARKDOWN
from pipeline.notify.webhook import LIMIT, RETRIES, VARIABLE, DeliveryError, address, body_of, deliver
from pipeline.report.results import RunResults

SECRET = "/services/T0/s3cret-word?token=s3cret-word"
DROPPED = 0
"""Stands for a connection that is closed without an answer."""


class Server:
    """Answers with these states one after another, the last one for ever; keeps what it was sent."""

    def __init__(self, *states: int, location: str = "") -> None:
        outer = self
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        left = list(states)

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:  # the name that the library asks for
                outer.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
                outer.headers.append(dict(self.headers))
                outer.paths.append(self.path)
                state = left.pop(0) if len(left) > 1 else left[0]
                self.close_connection = True
                if state == DROPPED:
                    return
                self.send_response(state)
                self.send_header("Location", location)
                self.send_header("Retry-After", "3600")
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_GET = do_POST  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}{SECRET}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


Serve = Callable[..., Server]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Starts servers on this machine."""
    servers: list[Server] = []

    def start(*states: int, **of: str) -> Server:
        servers.append(Server(*states, **of))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture(autouse=True)
def no_secret_is_told(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Whatever happens, the address is nowhere to be read."""
    caplog.set_level(logging.DEBUG)
    yield
    said, logged = capfd.readouterr(), [record.getMessage() for record in caplog.get_records("call")]
    assert "s3cret" not in f"{logged}{said.out}{said.err}"


def refused(url: str, deadline: float = 60) -> str:
    with pytest.raises(DeliveryError) as failure:
        deliver(parse_url(url), b"{}", backoff=0, deadline=deadline)
    assert failure.value.exit_code == 6
    assert "s3cret" not in str(failure.value)
    assert "\n" not in str(failure.value)
    assert failure.value.__cause__ is None
    return str(failure.value)


@pytest.mark.parametrize("states", [(200,), (503, 204), (429, 500, 502, 201), (DROPPED, 200)])
def test_it_is_delivered_also_if_the_server_is_busy_at_first(states: tuple[int, ...], serve: Serve) -> None:
    server = serve(*states)
    deliver(parse_url(server.url), b'{"text": "x"}', backoff=0)
    assert server.bodies == [b'{"text": "x"}'] * len(states)
    assert server.headers[0]["Content-Type"] == "application/json"


@pytest.mark.parametrize("state", [429, 500, 599, DROPPED])
def test_it_gives_up_in_the_end(state: int, serve: Serve) -> None:
    server = serve(state)
    said = refused(server.url)
    assert "the webhook at 127.0.0.1 did not take the notification: " in said
    assert "the run's own result stands" in said
    assert len(server.bodies) == 1 + RETRIES


@pytest.mark.parametrize("state", [400, 401, 404, 410])
def test_a_refusal_is_not_tried_again(state: int, serve: Serve) -> None:
    server = serve(state)
    assert f"it answered {state}" in refused(server.url)
    assert len(server.bodies) == 1


@pytest.mark.parametrize("state", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(state: int, serve: Serve) -> None:
    other = serve(200)
    server = serve(state, location=other.url)
    assert f"it answered {state}, a redirect, which is not followed" in refused(server.url)
    assert (len(server.bodies), len(other.bodies)) == (1, 0)


def test_a_server_that_is_not_there_is_one_line(serve: Serve) -> None:
    server = serve(200)
    server.close()
    assert "did not take the notification: Connection refused" in refused(server.url)


@pytest.mark.parametrize("drop", [b"X: y\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_a_server_that_drips_is_given_up(drop: bytes) -> None:
    over = threading.Event()

    def drip(listener: socket.socket) -> None:
        connection = listener.accept()[0]
        with connection, suppress(OSError):
            connection.sendall(b"HTTP/1.1 200 OK\r\n" if drop.startswith(b"X") else drop)
            while not over.wait(0.01):
                connection.sendall(drop)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=[listener], daemon=True)
        thread.start()
        said = refused(f"http://127.0.0.1:{listener.getsockname()[1]}{SECRET}", deadline=0.2)
        over.set()
        thread.join()
    assert "the webhook at 127.0.0.1 did not take the notification: no answer within 0.2 s" in said


def test_a_password_in_the_address_goes_into_a_header(serve: Serve) -> None:
    server = serve(200)
    url = parse_url(server.url.replace("http://", "http://ann:s3cret@") + "#part")
    deliver(url, b"{}", backoff=0)
    assert server.headers[0]["authorization"] == "Basic YW5uOnMzY3JldA=="
    assert server.paths == [SECRET]
    assert "ann" not in server.headers[0]["Host"]


def test_the_address_comes_from_a_file_or_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "webhook"
    file.write_text("https://hooks.example/file\n")
    environment = {VARIABLE: " https://hooks.example/environment\n"}
    assert str(address(file, environment)) == "https://hooks.example/file"
    assert str(address(None, environment)) == "https://hooks.example/environment"
    assert address(None, {}) is None
    assert address(None, {VARIABLE: ""}) is None


@pytest.mark.parametrize(
    "written",
    [
        "",
        "s3cret",
        "ftp://s3cret.example/",
        "https://",
        "https://a/s3cret\nhttps://b/",
        "https://[s3cret/",
        "\udcff",
    ],
)
def test_an_address_that_is_none_is_refused_and_not_told(written: str, tmp_path: Path) -> None:
    (tmp_path / "webhook").write_bytes(written.encode(errors="surrogateescape"))
    for file, environment in ((tmp_path / "webhook", {}), (None, {VARIABLE: written or " s3cret"})):
        with pytest.raises(UserError, match="holds no web address: write one line") as refusal:
            address(file, environment)
        assert "s3cret" not in str(refusal.value)
        assert refusal.value.exit_code == 4


def test_an_address_on_the_command_line_is_refused_and_not_told() -> None:
    with pytest.raises(UserError, match="can be seen by every user of the host") as refusal:
        address(Path("HTTPS://hooks.example/s3cret"), {})
    assert "s3cret" not in str(refusal.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"--webhook {tmp_path}/none: cannot be read: No such file.*; name "):
        address(tmp_path / "none", {})


def test_the_body_is_json_of_bounded_size(
    told: Callable[..., RunResults], result_of: Callable[..., Result]
) -> None:
    results = told(result_of("device/emu/g/fused/small", State.CRASHED))
    body = json.loads(body_of(results, "## Failed\n"))
    assert {name: body[name] for name in ("version", "exit_code", "text", "commit")} == {
        "version": 1,
        "exit_code": 1,
        "text": "## Failed\n",
        "commit": "abc",
    }
    assert body["run"] == results.run
    assert body["verdict"] == "1 of 1 job is red: 1 crashed; 1.0 s, exit code 1"
    for widest in ('"', "\n", "\\", "é"):
        text = widest * (MARKDOWN // len(widest.encode()))
        long = msgspec.structs.replace(results, branch=widest * 10**6, verdict=chr(0x1F600) * 10**6)
        assert len(body_of(long, text)) <= LIMIT
