"""What is at an address: a server that answers as the test says."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import pytest

from pipeline.run.cluster import head
from tests.pipeline.run.cluster.conftest import certificate

Serve = Callable[..., str]
SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


def frame(kind: int, flags: int, content: bytes) -> bytes:
    return len(content).to_bytes(3, "big") + bytes([kind, flags, 0, 0, 0, 1]) + content


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Starts a server that gives an answer and leaves the connection open; gives its address."""
    monkeypatch.setattr(head, "_PATIENCE", 0.2)
    kept: list[socket.socket] = []

    def start(answer: bytes, heard: list[bytes] | None = None) -> str:
        listening = socket.create_server(("127.0.0.1", 0))
        kept.append(listening)

        def serve_one() -> None:
            connection, _ = listening.accept()
            kept.append(connection)
            if heard is not None:
                heard.append(connection.recv(65536))
            connection.sendall(answer)

        Thread(target=serve_one, daemon=True).start()
        return f"127.0.0.1:{listening.getsockname()[1]}"

    yield start
    for one in kept:
        one.close()


def test_a_head_gives_the_id_of_its_cluster(serve: Serve) -> None:
    assert head.refusal(serve(SETTINGS + frame(1, 4, b"...") + frame(0, 0, b"an id")), {}) == ""


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"", "nothing answers there (within "),
        (SETTINGS, "nothing answers there (within "),
        (SETTINGS + b"\0\0\0\6", "nothing answers there (within "),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "what answers there is no head of Ray"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "what answers there is no head of Ray"),
        (SETTINGS + frame(1, 5, b"grpc-status 12"), "what answers there is no head of Ray"),
    ],
)
def test_whatever_else_answers_or_hangs_is_told_in_one_line(serve: Serve, answer: bytes, told: str) -> None:
    said = head.refusal(serve(answer), {})
    assert said.startswith(told)
    assert "ray start" in said
    assert "\n" not in said


def test_a_port_at_which_nothing_listens_is_told(serve: Serve) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    assert head.refusal(address, {}).startswith("nothing answers there (")


def test_looking_up_a_name_may_hang(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    known = Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: known.wait() and [])
    assert head.refusal("host:1", {}).startswith("nothing answers there (within ")
    known.set()


def test_a_wrong_token_is_told_with_its_own_remedy(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{'ab' * 100}\n")
    heard: list[bytes] = []
    address = serve(SETTINGS + frame(1, 5, b"grpc-status 16 InvalidAuthToken: incorrect"), heard)
    environment = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(tmp_path / "token")}
    said = head.refusal(address, environment)
    assert said.startswith("the cluster does not take this token; set RAY_AUTH_MODE=token")
    # 207 bytes of a value: seven bits that say 127, and 80 more.
    assert bytes([127, 80]) + b"Bearer " + b"ab" * 100 in heard[0]


@pytest.mark.parametrize(
    "address", ["local", "ray://127.0.0.1:10001", "10.0.0.1", ":1", "a:x", "a:70000", "a:b:1", ""]
)
def test_an_address_has_a_host_and_a_port(address: str) -> None:
    """Ray itself would start a cluster of its own for `local`, and take `ray://` for another protocol."""
    said = head.refusal(address, {})
    assert said == "no address of a head; give HOST:PORT, such as 10.0.0.1:6380, or auto"


def test_a_server_that_speaks_tls_is_told_from_one_that_is_no_head(tmp_path: Path) -> None:
    """It ends the first connection, since the question is no handshake, and gets one in the second."""
    variables = certificate(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(variables["RAY_TLS_SERVER_CERT"], variables["RAY_TLS_SERVER_KEY"])
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve_two() -> None:
            for _ in range(2):
                with suppress(OSError), listening.accept()[0] as connection:
                    context.wrap_socket(connection, server_side=True).close()

        Thread(target=serve_two, daemon=True).start()
        said = head.refusal(f"127.0.0.1:{listening.getsockname()[1]}", {})
    assert said.startswith(
        "it speaks TLS, and this host is not told to do so; set RAY_USE_TLS, RAY_TLS_CA_CERT, "
    )


def test_with_tls_a_server_without_it_is_told(serve: Serve, tmp_path: Path) -> None:
    said = head.refusal(serve(SETTINGS), certificate(tmp_path))
    assert said.startswith("what answers there does not speak TLS as this host does (")
    assert "\n" not in said


def test_files_of_tls_that_cannot_be_used_are_told(tmp_path: Path) -> None:
    variables = {"RAY_USE_TLS": "1", "RAY_TLS_CA_CERT": str(tmp_path / "none")}
    assert head.refusal("a:1", variables).startswith("RAY_TLS_SERVER_CERT is not set; set RAY_USE_TLS, ")
    variables |= dict.fromkeys(("RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY"), str(tmp_path / "none"))
    said = head.refusal("a:1", variables)
    assert said.startswith(
        f"its files of TLS cannot be used ([Errno 2] No such file or directory: '{tmp_path}"
    )
    (tmp_path / "none").write_text("nonsense")
    assert head.refusal("a:1", variables).startswith("its files of TLS cannot be used (")


def test_an_address_of_ipv6_is_in_brackets() -> None:
    assert head.split("[::1]:6380") == ("::1", 6380)
