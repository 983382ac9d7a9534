"""E08: what a driver cannot say is unknown and never zero, and what runs there runs on."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from rest_framework.test import APIClient

from control.fleet import devices
from control.models import Deployment, Device, Replica, SnapshotPart
from control.reconcile import loop
from control.routes import compiler
from control.states import Part, ReplicaState
from engines.spec import GpuReading
from tests.placement.world import AT, a_host, a_launch, wants

MISMATCH = "NVML: Driver/library version mismatch"
GIB = 2**30


@pytest.fixture
def card(db):
    a_host()
    return Device.objects.get()


@pytest.fixture
def api(db):
    client = APIClient()
    client.force_authenticate(get_user_model().objects.create_user("ann", is_staff=True))
    return client


def reading(card, **fields):
    plain = GpuReading(card.uuid, 0, "gpu", card.name, 80 * GIB, 60 * GIB, 0.5, 300.0, 60.0)
    return replace(plain, **fields)


def routed():
    """Launches that gateways send calls to."""
    part = SnapshotPart.objects.get(pk=Part.REPLICAS)
    return [one.id for one in compiler.compile_part(Part.REPLICAS, part.version).replicas]


def test_e08_under_a_driver_that_does_not_match_what_runs_is_routed_and_nothing_is_placed(card):
    serving = a_launch(wants("d"), card, host="127.0.0.1", port=18000, slots=4)
    assert routed() == [serving.pk]
    later = AT + timedelta(minutes=2)
    broken = reading(card, error=MISMATCH, memory_free_bytes=None, utilisation_ratio=None)
    devices.Recorder(card.node).record([broken], set(), later)
    wants("new")
    card.node.heartbeat_at = later
    card.node.save()
    loop.tick(later)
    serving.refresh_from_db()
    assert serving.state == ReplicaState.READY
    assert routed() == [serving.pk]
    note = Deployment.objects.get(name="new").note
    assert f"cannot be read: {MISMATCH}" in note
    devices.Recorder(card.node).record([reading(card)], set(), later + timedelta(minutes=1))
    loop.tick(later + timedelta(minutes=1))
    assert Replica.objects.get(deployment__name="new").state == ReplicaState.PLACED


def test_e08_the_api_says_null_and_why_and_never_zero(card, api):
    unsaid = ("utilisation_ratio", "power_watts", "temperature_celsius")
    fields = dict.fromkeys((*unsaid, "memory_free_bytes"))
    devices.Recorder(card.node).record([reading(card, **fields)], set(), AT)
    [shown] = api.get("/api/nodes/n1/").json()["devices"]
    assert {name: shown[name] for name in fields} == dict.fromkeys(fields)
    devices.Recorder(card.node).record([reading(card, error=MISMATCH, **fields)], set(), AT)
    [shown] = api.get("/api/nodes/n1/").json()["devices"]
    assert shown["error"] == MISMATCH
    assert shown["memory_free_bytes"] is None
