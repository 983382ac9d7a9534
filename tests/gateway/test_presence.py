"""A running gateway tells by which replicas it serves: a drain waits for that."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.utils import timezone

from control.fleet.draining import facts
from control.models import GatewayProcess, Replica
from control.states import ReplicaState
from tests.gateway.place import chat
from tests.gateway.running import Running, build_all, until
from tests.gateway.upstream import answered

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def gateway(environment, key):
    running = Running(environment)
    try:
        until(lambda: running.status() == 200, "the gateway is ready")
        yield running
    finally:
        running.stop()


def test_it_acknowledges_that_a_replica_drains_and_tells_what_still_runs_there(gateway, engine):
    replica = Replica.objects.get()
    GatewayProcess.objects.create(owner="gone", seen_at=timezone.now() - timedelta(hours=2))
    engine.play(answered("fine", 7, 3, hold=True))
    with ThreadPoolExecutor() as pool:
        call = pool.submit(gateway.post, chat())
        until(lambda: any(one.body for one in engine.seen), "the call is at its engine")
        drain(replica)

        def told():
            return [(f.replicas_version, f.calls) for f in facts.gateways(replica.pk)]

        until(lambda: told() == [(replica.unrouted_version, 1)], "it knows, and says what runs")
        engine.go_on()
        assert call.result().status_code == 200
        until(lambda: told() == [(replica.unrouted_version, 0)], "the call has ended")


def drain(replica):
    replica.move(ReplicaState.DRAINING, reason="a test", by="test", at=timezone.now())
    build_all()
