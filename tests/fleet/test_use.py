"""What a serving replica has done and holds is written once a minute, cheaply."""

from datetime import UTC, datetime, timedelta

import pytest

from control.fleet import use
from control.models import Replica
from control.placement import actions as placement
from control.placement.world import Share
from engines.spec import EngineLoad
from tests.fleet.rows import a_deployment, a_device, a_node, a_replica

AT = datetime(2026, 11, 30, 12, tzinfo=UTC)
GIB = 1 << 30


def test_it_is_read_a_minute_after_the_first_look_and_each_minute_then():
    looked = use.Use()
    due = [second for second in range(200) if looked.is_due(1, AT + timedelta(seconds=second))]
    assert due == [60, 120, 180]
    looked.keep_only(set())
    assert not looked.is_due(1, AT + timedelta(seconds=300))


@pytest.mark.django_db
@pytest.mark.parametrize(("kind", "ready_bytes"), [("gpu", 2 * GIB), ("cpu", 4 * GIB)])
def test_growth_counts_from_ready_and_on_a_host_from_all_that_is_booked(kind, ready_bytes):
    node = a_node(at=AT)
    device = a_device(node, 8 * GIB, at=AT, kind=kind)
    replica = a_replica(a_deployment(), node, at=AT)
    placement.book(replica, (Share(device.pk, ((0, 4 * GIB),)),))
    use.write(replica, EngineLoad(ttft_count=7), 2 * GIB)
    use.write(Replica.objects.get(), EngineLoad(ttft_count=9), 5 * GIB)
    after = Replica.objects.get()
    assert (after.calls, after.host_memory_bytes) == (9, 5 * GIB)
    assert after.host_memory_ready_bytes == ready_bytes
