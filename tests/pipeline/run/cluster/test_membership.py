"""Whether this host is a node of a cluster, with servers here in the place of its node."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest

from pipeline.run.cluster import membership
from pipeline.run.cluster.membership import Raylet

SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""With this frame a server of HTTP/2 begins."""

HEAD = "10.0.0.1:6380"
START = f"run `ray start --address={HEAD}` here (docs/cluster.md)"
ELSEWHERE = Raylet("192.0.2.1", 1, "/nowhere")
"""A node at an address that no host has."""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Raylet]:
    """A node of this host: its port answers one connection, and its socket takes some."""
    with socket.create_server(("127.0.0.1", 0)) as port, socket.socket(socket.AF_UNIX) as own:
        own.bind(str(tmp_path / "raylet"))
        own.listen()
        Thread(target=_answer, args=(port,), daemon=True).start()
        yield Raylet("127.0.0.1", port.getsockname()[1], str(tmp_path / "raylet"))


def _answer(port: socket.socket) -> None:
    with suppress(OSError):  # a test that does not ask has ended
        connection, _ = port.accept()
        connection.sendall(SETTINGS)


def test_a_node_of_this_host_that_answers_is_enough(node: Raylet) -> None:
    assert membership.refusal([ELSEWHERE, node], HEAD, {}) == ""


@pytest.mark.parametrize("nodes", [[], [ELSEWHERE]])
def test_a_host_that_is_no_node_is_told_how_it_becomes_one(nodes: list[Raylet]) -> None:
    assert membership.refusal(nodes, HEAD, {}) == f"this host is no node of the cluster; {START}"


def test_a_node_whose_socket_is_not_there_is_told(node: Raylet) -> None:
    """It has ended and the head does not know yet, or its folder is another container's."""
    Path(node.socket).unlink()
    assert membership.refusal([node], HEAD, {}) == (
        f"the node of this host cannot be reached at {node.socket} (No such file or directory);"
        " end it by `ray stop`, and start it again (docs/cluster.md)"
    )


def test_a_node_that_hangs_is_told(node: Raylet, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel takes connections for it, and nobody answers."""
    monkeypatch.setattr(membership, "_PATIENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hung = Raylet(node.address, silent.getsockname()[1], node.socket)
        said = membership.refusal([hung], HEAD, {})
    assert said.startswith("the node of this host does not answer within 0.2 s; end it by `ray stop`")
