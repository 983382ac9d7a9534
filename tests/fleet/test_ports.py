"""Ports of engines: none twice, outside those of outgoing connections, another one if taken."""

import socket
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from control.fleet import ports
from control.models import Replica, StateChange
from control.states import ReplicaState
from tests.fleet.rows import a_deployment, a_node, a_replica

AT = datetime(2026, 11, 30, 12, tzinfo=UTC)
WHO = {"by": "test", "at": AT}

pytestmark = pytest.mark.django_db


@pytest.fixture
def node(settings):
    settings.WEIR_ENGINE_PORTS = range(17000, 17400)  # where no engine of another test begins
    return a_node(settings.WEIR_NODE_NAME, at=AT)


def starting(node, generation=1, **fields):
    return a_replica(
        Replica.objects.count() and a_deployment(f"d{generation}") or a_deployment(),
        node,
        at=AT,
        state=ReplicaState.STARTING,
        generation=generation,
        **fields,
    )


def test_e04_the_range_lies_outside_that_of_outgoing_connections(settings):
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert max(settings.WEIR_ENGINE_PORTS) < low


def test_e04_twenty_launches_have_twenty_ports_though_some_are_taken(node, settings):
    taken = [port for port in settings.WEIR_ENGINE_PORTS[:40:2] if listens(port)]
    found = []
    for number in range(1, 21):
        replica = starting(node, number)
        replica.port = next(ports.free(replica))
        replica.save()
        found.append(replica.port)
    assert len(set(found)) == 20
    assert not set(found) & {one.getsockname()[1] for one in _OPEN}
    assert taken
    close_all()
    left = Replica.objects.order_by("pk")[4]
    assert left.port not in set(ports.free(left))
    Replica.objects.filter(pk=left.pk).update(state=ReplicaState.STOPPED)  # its group is gone
    assert left.port in set(ports.free(left))


def test_e04_a_port_from_which_a_connection_goes_out_is_passed_over(node, settings):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = next(ports.free(starting(node)))
        with socket.create_connection(server.getsockname(), source_address=("127.0.0.1", port)):
            assert port not in set(ports.free(Replica.objects.get()))


def test_e04_a_launch_whose_port_was_taken_begins_again_at_another_and_says_so(node, settings):
    replica = starting(node, port=settings.WEIR_ENGINE_PORTS[3], pid=7)
    assert ports.take_another(replica, **WHO)
    after = Replica.objects.get()
    assert after.state == "starting"
    assert after.port not in (None, settings.WEIR_ENGINE_PORTS[3])
    [change] = StateChange.objects.all()
    assert change.reason == (
        f"port {settings.WEIR_ENGINE_PORTS[3]} was taken by another process:"
        f" begins again at {after.port}"
    )


def test_after_three_other_ports_it_is_given_up(node, settings):
    replica = starting(node, port=settings.WEIR_ENGINE_PORTS[3])
    taken = [ports.take_another(Replica.objects.get(pk=replica.pk), **WHO) for _ in range(4)]
    assert taken == [True, True, True, False]


def test_whoever_looked_before_another_did_changes_nothing(node, settings):
    replica = starting(node, port=settings.WEIR_ENGINE_PORTS[3])
    Replica.objects.update(state=ReplicaState.FAILED)
    assert not ports.take_another(replica, **WHO)
    assert not StateChange.objects.exists()


_OPEN: list[socket.socket] = []


def listens(port):
    one = socket.socket()
    try:
        one.bind(("127.0.0.1", port))
    except OSError:
        one.close()
        return False
    one.listen()
    _OPEN.append(one)
    return True


def close_all():
    while _OPEN:
        with closing(_OPEN.pop()):
            pass
