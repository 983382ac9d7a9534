"""An operator who is signed in, and a fleet to look at."""

from datetime import UTC, datetime

import pytest
from django.contrib.auth import get_user_model
from django.db.backends.postgresql.psycopg_any import NumericRange

from control.models import Reservation, Route, Target
from control.states import ReplicaState
from control.tenancy import actions
from control.tenancy.rules import TenantWanted
from tests.fleet.rows import a_deployment, a_device, a_node, a_replica

AT = datetime(2026, 11, 29, 12, tzinfo=UTC)
BY = {"by": "test", "reason": "for a test", "at": AT}
GIB = 2**30


@pytest.fixture
def operator(db):
    return get_user_model().objects.create_user("ann", is_staff=True)


@pytest.fixture
def console(client, operator):
    """A browser in which an operator is signed in."""
    client.force_login(operator)
    return client


@pytest.fixture
def fleet(db):
    """One more of everything at each call: node, device, deployment, two replicas, route, key."""

    def more(number: int) -> None:
        node = a_node(f"node-{number}", at=AT)
        device = a_device(node, 64 * GIB, at=AT)
        deployment = a_deployment(f"dep-{number}", wanted=2)
        ready = a_replica(deployment, node, at=AT, port=18000, host="127.0.0.1", slots=8)
        a_replica(
            deployment,
            node,
            at=AT,
            generation=2,
            state=ReplicaState.LOADING,
            phase="loading weights",
            progress_percent=40,
            reason="has weights",
        )
        span = NumericRange(0, 2 * GIB)
        Reservation.objects.create(device=device, replica=ready, memory=span)
        route = Route.objects.create(name=f"route-{number}")
        Target.objects.create(route=route, deployment=deployment)
        actions.save_tenant(TenantWanted(f"tenant-{number}"), **BY)
        actions.create_key(tenant=f"tenant-{number}", name="ci", **BY)

    return more
