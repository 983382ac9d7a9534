"""The firewall of deploy/ lets gateways and control reach engines, and nobody else."""

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from control.management.local.death import dies_with_us
from tests.flows.namespaces import (
    FIREWALL,
    Network,
    firewall_for,
    why_no_firewall,
)
from tests.servers import ROOT

ENGINE, BESIDE = 18000, 20000  # the last one of the range is 19999
DROPPED_SECONDS = 0.5  # a packet that is dropped has no answer: so long one is waited for
HANG_SECONDS = 60
# What a host offers: an engine, something beside it, and a service over UDP.
HOST = """
import socket, sys
address, *ports = sys.argv[1], *map(int, sys.argv[2:])
listening = [socket.create_server((address, port)) for port in ports]
echo = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
echo.bind((address, ports[0]))
print("listens", flush=True)
while True:
    said, whom = echo.recvfrom(100)
    if said == b"call yourself":
        with socket.create_connection((address, ports[0]), timeout=30):
            said = b"answered"
    echo.sendto(said, whom)
"""

pytestmark = pytest.mark.skipif(bool(why_no_firewall()), reason=why_no_firewall())


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    made = Network()
    argv = made.inside(sys.executable, "-c", HOST, made.addresses.host, str(ENGINE), str(BESIDE))
    host = subprocess.Popen(
        argv, stdout=subprocess.PIPE, cwd=ROOT, preexec_fn=dies_with_us(signal.SIGKILL)
    )
    try:
        assert host.stdout.readline() == b"listens\n"
        made.guard()
        yield made
    finally:
        host.kill()
        host.wait()
        host.stdout.close()
        made.close()


def connects(network: Network, port: int, source: str, seconds: float = HANG_SECONDS) -> bool:
    try:
        with socket.create_connection((network.addresses.host, port), seconds, (source, 0)):
            return True
    except TimeoutError:
        return False


def echoes(network: Network, said: bytes) -> bytes:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(HANG_SECONDS)
        asking.bind((network.addresses.other, 0))
        asking.sendto(said, (network.addresses.host, ENGINE))
        return asking.recv(100)


def test_an_engine_is_reached_from_the_gateways_address_and_from_no_other(network):
    assert connects(network, ENGINE, network.addresses.gateway)
    assert not connects(network, ENGINE, network.addresses.other, DROPPED_SECONDS)


def test_what_is_no_engine_is_nobodys_business(network):
    assert connects(network, BESIDE, network.addresses.other)
    assert echoes(network, b"ping") == b"ping"


def test_a_host_reaches_its_own_engines(network):
    assert echoes(network, b"call yourself") == b"answered"


def test_loading_it_again_replaces_it(network):
    once = network.run("nft", "--stateless", "list", "ruleset")
    network.guard()
    assert network.run("nft", "--stateless", "list", "ruleset") == once


def test_it_loads_as_it_is_shipped(network):
    network.run("nft", "--check", "--file", str(FIREWALL))
    assert "10.0.0.10" not in firewall_for("192.0.2.7")
