"""A node's watch puts the time of its devices on lines, held or free."""

import pytest
from django.conf import settings as configured
from django.utils import timezone

from control.fleet import node
from control.fleet.watch import Watch
from control.models import DeviceHour, DeviceUse
from tests.fleet.rows import a_deployment, a_replica


@pytest.fixture
def watch(db, settings, tmp_path):
    settings.WEIR_HOME = tmp_path
    settings.WEIR_NODE_ENVIRONMENT = {**settings.WEIR_NODE_ENVIRONMENT, "WEIR_HOME": str(tmp_path)}
    return Watch(node.join(configured.WEIR_NODE_NAME))


def lines(watch: Watch) -> set[str]:
    """After two seconds' looks; stopping writes what has added up."""
    for _ in range(2):
        watch.count_use()
    watch.stop()
    return set(DeviceUse.objects.values_list("line", flat=True))


def test_a_device_that_nobody_holds_is_free_time(watch):
    watch.read_devices()
    assert lines(watch) == {"free"}
    seen = DeviceHour.objects.first()
    assert (seen.node, seen.pool) == (configured.WEIR_NODE_NAME, "default")


def test_before_the_driver_was_asked_nothing_is_counted(watch):
    assert lines(watch) == set()


def test_a_launch_that_holds_a_device_is_loading_until_it_serves(watch):
    watch.read_devices()
    device = watch.node.devices.first()
    replica = a_replica(a_deployment(), watch.node, at=timezone.now(), state="starting")
    replica.reservations.create(device=device, memory=(0, 1 << 20))
    assert lines(watch) == {"loading"}
    assert set(DeviceUse.objects.values_list("replica_id", flat=True)) == {replica.pk}
