"""What a launch is made of: ports, keys, memory, and the measure of its files."""

import json
import socket
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from control.fleet import launch, ports
from control.management.local.ports import free_port
from control.models import Replica, VersionMeasure
from control.models.sealing import unseal
from control.placement import actions as placement
from control.placement import facts, memory
from control.placement.memory import GIB
from control.placement.world import Placed, Share
from control.states import ReplicaState
from tests.at_once import at_once
from tests.fleet.rows import a_deployment, a_device, a_node, a_replica, a_version
from tests.placement.files import write_headers
from tests.placement.test_memory import GEMMA_270M

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)
VLLM = {"kind": "vllm", "version": "0.32.0"}


@pytest.fixture
def node(db):
    node = a_node(at=AT)
    a_device(node, 64 * GIB, at=AT)
    return node


def preparing(node, name="d", booked=4 * GIB, first=0, **version):
    deployment = a_deployment(name, version=a_version(model=f"m-{name}", **version))
    replica = a_replica(deployment, node, at=AT, state=ReplicaState.PREPARING)
    share = Share(node.devices.get().pk, ((first, first + booked),))
    placement.book(replica, (share,))
    return replica


def claim(replica):
    return launch.claim(replica, by="test", reason="test", at=AT)


def test_a_claim_gives_port_key_and_slots(node):
    replica = preparing(node)
    assert claim(replica)
    replica.refresh_from_db()
    assert replica.state == "starting"
    assert replica.port in range(18000, 20000)
    assert replica.slots == memory.CALLS_DEFAULT
    assert len(unseal(replica.engine_key)) > 30


def test_a_second_claim_of_the_same_launch_does_nothing(node):
    replica = preparing(node)
    twin = Replica.objects.get(pk=replica.pk)
    assert claim(replica)
    assert not claim(twin)
    assert Replica.objects.get().port == replica.port


def test_e04_a_port_that_somebody_has_is_passed_over(node, settings):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        taken = other.getsockname()[1]
        settings.WEIR_ENGINE_PORTS = range(taken, taken + 3)
        replica = preparing(node)
        assert claim(replica)
    assert replica.port != taken


def test_two_homes_on_one_machine_do_not_begin_at_the_same_port(node, settings):
    replica = preparing(node)
    first = {}
    for home in ("/srv/weir-a", "/srv/weir-b", "/srv/weir-c"):
        settings.WEIR_HOME = Path(home)
        first[home] = next(ports.free(replica))
    assert len(set(first.values())) == len(first)


def test_e04_no_port_left_is_told(node, settings):
    port = free_port()
    settings.WEIR_ENGINE_PORTS = range(port, port + 1)
    assert claim(preparing(node))
    with pytest.raises(ports.NoPort, match="no free port"):
        claim(preparing(node, "e", first=8 * GIB))


@pytest.mark.django_db(transaction=True)
def test_e04_launches_at_once_get_distinct_ports(settings):
    settings.WEIR_ENGINE_PORTS = range(18500, 18530)
    node = a_node(at=AT)
    a_device(node, 64 * GIB, at=AT)
    replicas = [preparing(node, f"d{n}", GIB, n * GIB) for n in range(20)]
    at_once(*[partial(claim, replica) for replica in replicas])
    ports = Replica.objects.values_list("port", flat=True)
    assert len(set(ports)) == len(replicas)
    assert None not in ports


@pytest.fixture
def files(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(GEMMA_270M))
    write_headers(tmp_path / "model.safetensors", {"model.norm.weight": ("BF16", (500,))})
    (tmp_path / "pytorch_model.bin").write_bytes(b"0" * 5000)
    return tmp_path


def test_files_are_measured_once_for_all_launches(node, files):
    replica = preparing(node, engine=VLLM)
    launch.measure(replica.version, files, at=AT)
    launch.measure(replica.version, files, at=AT)
    measure = VersionMeasure.objects.get()
    assert measure.weights_bytes == 1000
    need = facts.need(replica.version, replica.deployment)
    assert need.stated == ""


def test_the_booking_follows_the_measure_and_the_cache_gets_the_rest(node, files):
    arguments = {"max_model_len": 2048}
    replica = preparing(node, engine=VLLM, arguments=arguments, booked=20 * GIB)
    launch.measure(replica.version, files, at=AT)
    assert isinstance(launch.book_what_was_measured(replica, at=AT), Placed)
    assert launch.book_what_was_measured(replica, at=AT) is None
    assert claim(replica)
    spec = launch.specification(replica, str(files))
    one_call = 101 * 384 * 1024
    assert spec.kv_cache_bytes == pytest.approx(16 * one_call, rel=0.02)
    assert spec.slots == 32
    assert spec.device_kind == "cpu"
    assert spec.served_name == "m-d"
