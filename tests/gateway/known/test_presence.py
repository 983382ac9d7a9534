"""A running gateway tells by which replicas it serves, and which prompts it refuses."""

from datetime import timedelta

import psycopg
import pytest
from django.utils import timezone

from control.fleet.draining import facts
from control.fleet.incidents import actions as incidents
from control.fleet.incidents.rules import GONE_FOR
from control.fleet.troubles import facts as troubles
from control.gateway.known.presence import Presence
from control.gateway.routing.strikes import Death, Strikes
from control.models import GatewayProcess, Incident, Replica
from control.states import ReplicaState
from tests.gateway.place import chat
from tests.gateway.running import Running, build_all, until
from tests.gateway.upstream import answered
from tests.threads import Threads

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
    with Threads() as pool:
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


class NoReplicas:
    draining = ()


def test_a_prompt_of_death_is_an_incident_while_any_gateway_refuses_it(environment):
    strikes = Strikes(10, seconds=3600, together_seconds=10)
    now = timezone.now()
    for number in (7, 12):
        strikes.add("5eed" * 8, Death(f"{number}:1", f"host {number}", 0.0, now.timestamp()))
    gateways = [Presence(owner) for owner in ("one", "other")]
    with psycopg.connect(environment["WEIR_DATABASE_URL"], autocommit=True) as database:

        def told(known: Strikes) -> None:
            for gateway in gateways:
                gateway.serve(1, NoReplicas())
                gateway.keep(NoReplicas(), known)
                gateway.tell(database)

        told(strikes)
        assert incidents.watch(now) == 1
        [opened] = Incident.objects.all()
        assert (opened.kind, opened.key, opened.is_urgent) == ("deadly prompt", "5eed" * 8, True)
        assert opened.about == "5eed5eed5eed"
        assert opened.what.startswith("replicas #7 and #12 died while they worked on it;")
        until = now + timedelta(hours=1)
        assert opened.what.endswith(f"is refused until {until:%H:%M} UTC")
        [shown] = troubles.troubles(now)
        assert shown.what == opened.what
        strikes.forget(until.timestamp())
        told(strikes)
        assert incidents.watch(until) == 0
        assert incidents.watch(until + GONE_FOR) == 1
    opened.refresh_from_db()
    assert opened.ended_at == until + GONE_FOR
