"""Whether there is a head of a Ray cluster at an address. Ray itself would go on trying for a minute.

The head is asked for its cluster's id, by gRPC over HTTP/2, as Ray's own programs do first of all.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import BinaryIO

START = "start it with `ray start` as docs/cluster.md says, or leave --executor ray out"
"""What helps where there is no head."""

AUTO = "auto"
"""The address that means the cluster of this host."""

_PATIENCE = 10.0
"""Seconds that the answer of a head may take: it may be busy."""

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS = 0, 1, 4
_END_STREAM, _END_HEADERS = 1, 4
_NOTHING = bytes(5)  # a message of gRPC without a field
_LONGEST = 100
"""Frames are looked at, at most."""

_TLS_FILES = ("RAY_TLS_CA_CERT", "RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY")
_TLS = f"set RAY_USE_TLS, {', '.join(_TLS_FILES)} as on the cluster's hosts (docs/cluster.md)"
_NO_HEAD = f"what answers there is no head of Ray; {START}"
_TOKEN = "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH as on the cluster's hosts (docs/cluster.md)"


def split(address: str) -> tuple[str, int] | None:
    """Host and port of an address; None if it has another form."""
    host, _, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        return None
    return (host, int(port)) if host and port.isdecimal() and int(port) < 1 << 16 else None


def started_here(environment: Mapping[str, str]) -> Path:
    """The file in which `ray start` leaves the address of the cluster that it started or joined last.

    Ray itself would sooner take the address of any head in the list of processes, also of one in a container.
    """
    default = environment.get("TMPDIR") or "/tmp"
    return Path(environment.get("RAY_TMPDIR") or default, "ray", "ray_current_cluster")


def refusal(address: str, environment: Mapping[str, str]) -> str:
    """Why there can be no run on the cluster of a head, and what helps; empty if it answers as one does.

    `environment` has the token of the cluster and the files of its TLS, as Ray reads them.
    """
    place = split(address)
    if place is None:
        return f"no address of a head; give HOST:PORT, such as 10.0.0.1:6380, or {AUTO}"
    try:
        secured = _tls(environment)
    except KeyError as error:
        return f"{error.args[0]} is not set; {_TLS}"
    except OSError as error:  # that of a file which is no certificate as well
        return f"its files of TLS cannot be used ({error}); {_TLS}"
    said = [_silence()]
    # Looking up a name can hang, and so can each of its addresses: a thread of its own can be left alone.
    asking = Thread(target=lambda: said.append(_asked(place, environment, secured)), daemon=True)
    asking.start()
    asking.join(_PATIENCE)
    return said[-1]


def speaks(place: tuple[str, int], environment: Mapping[str, str], patience: float) -> bool:
    """Whether a server of gRPC, as a head and a node are, says anything at an address within some seconds."""
    with suppress(OSError, KeyError), _answer(place, environment, _tls(environment), patience) as answer:
        return answer.read(9)[3:4] == bytes([_SETTINGS])
    return False


def _silence() -> str:
    return f"nothing answers there (within {_PATIENCE:g} s); {START}"


def _tls(environment: Mapping[str, str]) -> ssl.SSLContext | None:
    """What secures a connection, with the certificates that Ray uses; None if Ray is to use no TLS.

    Raises:
        KeyError, OSError: a variable is not set, or its file cannot be used.
    """
    if environment.get("RAY_USE_TLS", "0").lower() not in ("1", "true"):
        return None
    files = [environment[name] for name in _TLS_FILES]
    for file in files:
        Path(file).open("rb").close()  # the errors of the functions below do not say which file it is
    authority, certificate, key = files
    context = ssl.create_default_context(cafile=authority)
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["h2"])
    return context


def _asked(place: tuple[str, int], environment: Mapping[str, str], secured: ssl.SSLContext | None) -> str:
    try:
        with _answer(place, environment, secured, _PATIENCE) as answer:
            return _judged(answer)
    except TimeoutError:
        return _silence()
    except ssl.SSLError as error:
        return f"what answers there does not speak TLS as this host does ({error.reason or error}); {_TLS}"
    except ConnectionResetError:
        speaks = secured is None and _speaks_tls(place)
        return f"it speaks TLS, and this host is not told to do so; {_TLS}" if speaks else _NO_HEAD
    except (OSError, UnicodeError) as error:
        return f"nothing answers there ({error}); {START}"


@contextmanager
def _answer(
    place: tuple[str, int],
    environment: Mapping[str, str],
    secured: ssl.SSLContext | None,
    patience: float,
) -> Iterator[BinaryIO]:
    """What a server says to the question."""
    with ExitStack() as stack:
        connection = stack.enter_context(socket.create_connection(place, patience))
        if secured is not None:
            connection = stack.enter_context(secured.wrap_socket(connection, server_hostname=place[0]))
        connection.sendall(_question(environment))
        yield stack.enter_context(connection.makefile("rb"))


def _speaks_tls(place: tuple[str, int]) -> bool:
    """Whether a server that did not understand the question shakes hands in TLS."""
    anything = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anything.check_hostname, anything.verify_mode = False, ssl.CERT_NONE
    anything.set_alpn_protocols(["h2"])
    try:
        with socket.create_connection(place, _PATIENCE) as connection, anything.wrap_socket(connection):
            return True
    except OSError:
        return False


def _question(environment: Mapping[str, str]) -> bytes:
    headers = {
        ":method": "POST",
        ":scheme": "http",
        ":path": "/ray.rpc.NodeInfoGcsService/GetClusterId",
        ":authority": "head",
        "content-type": "application/grpc",
        "te": "trailers",
    }
    if token := _token(environment):
        headers["authorization"] = f"Bearer {token}"
    block = b"".join(b"\0" + _text(name) + _text(value) for name, value in headers.items())
    frames = (
        _frame(_SETTINGS, 0, 0, b""),
        _frame(_HEADERS, _END_HEADERS, 1, block),
        _frame(_DATA, _END_STREAM, 1, _NOTHING),
    )
    return _PREFACE + b"".join(frames)


def _frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    return len(content).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + content


def _text(text: str) -> bytes:
    """A string of HPACK, as it is: its length takes seven bits of a byte, and of more bytes if it is long."""
    raw = text.encode()
    length, rest = [min(len(raw), 127)], len(raw) - 127
    while rest >= 0:
        length.append(rest % 128 + (128 if rest >= 128 else 0))
        rest = rest // 128 if rest >= 128 else -1
    return bytes(length) + raw


def _token(environment: Mapping[str, str]) -> str:
    if environment.get("RAY_AUTH_MODE", "").lower() != "token":
        return ""
    if token := environment.get("RAY_AUTH_TOKEN", "").strip():
        return token
    with suppress(OSError, UnicodeError):
        return (
            Path(environment.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray/auth_token")
            .read_text()
            .strip()
        )
    return ""


def _judged(answer: BinaryIO) -> str:
    """What the frames of an answer say: a head gives the id, or refuses the token.

    Raises `ConnectionResetError` if there is none.
    """
    for number in range(_LONGEST):
        head = answer.read(9)
        if number == 0 and not head:
            raise ConnectionResetError
        if len(head) < 9 or (number == 0 and head[3] != _SETTINGS):
            break
        content = answer.read(int.from_bytes(head[:3], "big"))
        if head[3] == _DATA and content:
            return ""
        if head[3] == _HEADERS and b"InvalidAuthToken" in content:
            return f"the cluster does not take this token; {_TOKEN}"
        if head[3] == _HEADERS and head[4] & _END_STREAM:
            break
    return _NO_HEAD
