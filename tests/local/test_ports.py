"""Ports: free ones, and who sits on a taken one."""

import os
import socket
from pathlib import Path

from control.management.local import ports
from control.management.local.ports import free_port, holder, is_free

RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def test_a_taken_port_is_not_free_and_its_holder_is_named():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert not is_free(port)
        assert f"(pid {os.getpid()})" in holder(port)
    assert is_free(port)
    assert holder(port) == ""


def test_a_free_port_is_not_one_of_those_given():
    port = free_port()
    assert is_free(port)
    assert free_port(besides={port}) != port


def test_a_free_port_is_given_once_while_nobody_listens_there_yet(monkeypatch):
    monkeypatch.setattr(ports, "CHOICE", range(20000, 20000 + 2 * ports.GIVEN_MAX))
    given = [free_port() for _ in range(ports.GIVEN_MAX)]
    assert len(set(given)) == ports.GIVEN_MAX


def test_free_ports_lie_below_those_of_outgoing_connections():
    first = int(RANGE.read_text().split()[0])
    assert free_port() < first
