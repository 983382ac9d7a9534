"""Listening sockets, which outlive the workers that accept from them.

The parent opens them, or was handed them by whoever started it, and every worker is given one.
A worker that ends leaves its queue of connections to the one that follows.
"""

import os
import socket
from collections.abc import Sequence

BACKLOG = 4096
_FIRST_HANDED = 3  # by the convention of systemd


def handed(environment: dict[str, str]) -> list[socket.socket]:
    """Those of a socket unit, which last from one start to the next; most often none."""
    if environment.get("LISTEN_PID") != str(os.getpid()):
        return []
    count = int(environment.get("LISTEN_FDS") or 0)
    return [socket.socket(fileno=_FIRST_HANDED + number) for number in range(count)]


def inherited(files: str) -> list[socket.socket]:
    """Those of our own supervisor, which names their numbers."""
    return [socket.socket(fileno=int(number)) for number in files.split(",") if number]


def listening(
    bind: str, port: int, count: int, given: Sequence[socket.socket] = ()
) -> list[socket.socket]:
    """One for each worker. The kernel shares new connections out between those of one port."""
    if given:
        return [given[number % len(given)] for number in range(count)]
    return [_opened(bind, port) for _ in range(count)]


def _opened(bind: str, port: int) -> socket.socket:
    passive = socket.AI_PASSIVE
    [(family, *_), *_] = socket.getaddrinfo(bind, port, type=socket.SOCK_STREAM, flags=passive)
    address = (bind, port)
    return socket.create_server(address, family=family, backlog=BACKLOG, reuse_port=True)
