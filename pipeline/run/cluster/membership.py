"""Whether the host of a run is a node of the cluster: Ray's driver works only beside a node.

On another host Ray itself would abort, or wait for a node that hangs.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from pipeline.run.cluster import head

_PATIENCE = 5.0
"""Seconds within which a node of this host answers if it lives: a thread of its own answers there."""

_PAGE = "docs/cluster.md"


@dataclass(frozen=True)
class Raylet:
    """The process of a node by which Ray is spoken with, as the head knows it.

    Attributes:
        address: of the node's host.
        port: where it answers other hosts.
        socket: the file of the socket at which it answers its own host.
    """

    address: str
    port: int
    socket: str


def refusal(raylets: Iterable[Raylet], cluster: str, environment: Mapping[str, str]) -> str:
    """Why no driver can work on this host, and what helps; empty if one of the nodes is here and answers.

    Args:
        raylets: those of all nodes that live, as far as the head knows.
        cluster: the address of the head.
        environment: see `head.refusal`.
    """
    why = f"this host is no node of the cluster; run `ray start --address={cluster}` here ({_PAGE})"
    again = f"end it by `ray stop`, and start it again ({_PAGE})"
    for one in raylets:
        if not _is_here(one.address):
            continue
        if fault := _fault(one.socket):
            why = f"the node of this host cannot be reached at {one.socket} ({fault}); {again}"
        elif not head.speaks((one.address, one.port), environment, _PATIENCE):
            why = f"the node of this host does not answer within {_PATIENCE:g} s; {again}"
        else:
            return ""
    return why


def _is_here(address: str) -> bool:
    """Whether an address is one of this host's: only those can be given to a socket."""
    with suppress(OSError), socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as one:
        one.bind((address, 0))
        return True
    return False


def _fault(path: str) -> str:
    """Why nothing listens at the file of a socket; empty if something does."""
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.settimeout(_PATIENCE)
            one.connect(path)
    except OSError as error:
        return error.strerror or str(error)
    return ""
