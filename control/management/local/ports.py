"""Ports on this machine: which are free, and what listens on one."""

import random
import socket
from collections import deque
from collections.abc import Container

import psutil

# Below ip_local_port_range (no outgoing connection sits on one), above the engines' range.
CHOICE = range(20000, 32000)
TRIES_MAX = 200
GIVEN_MAX = 100

_given: deque[int] = deque(maxlen=GIVEN_MAX)  # by this process; perhaps nobody listens there yet


class NoFreePort(Exception):
    """None of the ports tried could be bound."""


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    return not why_not(port, host)


def why_not(port: int, host: str = "127.0.0.1") -> str:
    """What the system says against listening there; empty if one may."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        # As servers do: a port with old connections in TIME_WAIT is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error.strerror or str(error)
    return ""


def free_port(besides: Container[int] = ()) -> int:
    """Picked at random, so that instances starting at the same moment do not race for one."""
    for port in random.sample(CHOICE, TRIES_MAX):
        if port not in besides and port not in _given and is_free(port):
            _given.append(port)
            return port
    raise NoFreePort(f"tried {TRIES_MAX} ports between {CHOICE.start} and {CHOICE.stop - 1}")


def holder(port: int) -> str:
    """What listens there, as far as this account may see: "nginx (pid 812)", else ""."""
    try:
        sockets = psutil.net_connections(kind="tcp")
        pids = {s.pid for s in sockets if s.laddr and s.laddr.port == port and s.status == "LISTEN"}
        names = [f"{psutil.Process(pid).name()} (pid {pid})" for pid in sorted(pids - {None})]
    except (psutil.Error, OSError):
        return ""
    return ", ".join(names)
