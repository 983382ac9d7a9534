"""How a deployment is doing, in one adjective and a reason."""

from datetime import UTC, datetime

import pytest

from control.fleet.facts import DeploymentFacts, ReplicaFacts, Standing, standing
from control.fleet.placing import Placing
from control.placement.wanted import PlacementWanted

AT = datetime(2026, 11, 29, 12, tzinfo=UTC)


def a_replica(state: str, reason: str = "") -> ReplicaFacts:
    return ReplicaFacts(
        id=1,
        deployment="d",
        generation=1,
        node="n1",
        state=state,
        reason=reason or f"is {state}",
        cause="",
        phase="",
        progress_percent=0,
        address="",
        slots=0,
        kv_tokens=None,
        created_at=AT,
        state_at=AT,
        ready_at=None,
        ended_at=None,
        devices=(),
        booked_bytes=0,
    )


def a_deployment(*replicas: ReplicaFacts, wanted=1, state="active", note="") -> DeploymentFacts:
    return DeploymentFacts(
        name="d",
        model="m",
        version="v1",
        engine_kind="vllm",
        engine_version="0.32.0",
        state=state,
        wanted=wanted,
        replicas_min=wanted,
        replicas_max=wanted,
        node="",
        bucket=None,
        placing=Placing("standard", "", PlacementWanted(), None),
        note=note,
        launch_after=None,
        created_at=AT,
        replicas=replicas,
    )


@pytest.mark.parametrize(
    ("deployment", "says"),
    [
        (a_deployment(a_replica("ready")), Standing("ready", "1 of 1 replicas are ready")),
        (a_deployment(wanted=0), Standing("ready", "0 of 0 replicas are ready")),
        (a_deployment(state="draining"), Standing("draining", "is draining")),
        (a_deployment(a_replica("loading")), Standing("loading", "is loading")),
        (
            a_deployment(a_replica("placed"), a_replica("warming"), wanted=2),
            Standing("warming", "is warming"),
        ),
        (
            a_deployment(a_replica("ready"), a_replica("loading"), wanted=2),
            Standing("degraded", "is loading"),
        ),
        (
            a_deployment(a_replica("lost"), a_replica("starting")),
            Standing("starting", "is starting"),
        ),
        (a_deployment(a_replica("unhealthy")), Standing("unhealthy", "is unhealthy")),
        (a_deployment(a_replica("failed")), Standing("failed", "is failed")),
        (
            a_deployment(a_replica("failed"), note="waits 8 s after a failure"),
            Standing("failed", "waits 8 s after a failure"),
        ),
        (a_deployment(a_replica("stopped")), Standing("pending", "waits for the reconciler")),
        (
            a_deployment(note="no device has 60 GiB free"),
            Standing("pending", "no device has 60 GiB free"),
        ),
    ],
)
def test_a_deployment_stands_where_its_replicas_do(deployment, says):
    assert standing(deployment) == says
