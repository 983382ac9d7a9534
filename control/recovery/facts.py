"""Failures that may be cured, and the overrides that were made of them."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import F

from control.models import Deployment, Override, Replica, Reservation
from control.placement import changes, memory, overrides
from control.recovery import rules
from control.recovery.blame import facts as blame_facts
from control.recovery.blame import rules as blame
from control.recovery.rules import Failure
from control.states import REPLICA_LIVE, DeploymentState, ReplicaState
from engines.kinds import KINDS

LOOKED_BACK = timedelta(hours=1)
SHOWN_MAX = 20


@dataclass(frozen=True)
class OverrideFacts:
    id: int
    cause: str
    changes: str
    reason: str
    node: str
    created_at: datetime


def failed(at: datetime) -> list[Replica]:
    """Launches of wanted versions whose failure has a cure that has not been decided yet."""
    rows = Replica.objects.filter(
        state=ReplicaState.FAILED,
        cause__in=rules.CURABLE,
        override=None,
        version=F("deployment__version"),
        deployment__state=DeploymentState.ACTIVE,
        ended_at__gt=at - LOOKED_BACK,
    )
    found = rows.select_related("deployment", "version", "node").defer("log_tail", "engine_key")
    return list(found.order_by("pk"))


def failure(replica: Replica) -> Failure:
    deployment, version = replica.deployment, replica.version
    cured = overrides.in_force(version, deployment)
    demand = memory.demand_of({**version.arguments, **cured.arguments()}, version.memory)
    booked = Reservation.objects.filter(replica=replica).values_list("device_id", "device__kind")
    devices = sorted(set(booked))
    read = KINDS[version.engine["kind"]].context_that_fits
    return Failure(
        cause=replica.cause,
        slots=replica.slots or demand.calls_at_once,
        step_tokens=demand.step(devices[0][1] if devices else "cpu"),
        context_fits=read(replica.reason),
        shorter_allowed=deployment.allow_shorter_context,
        memory_percent=cured.memory_percent,
        cured=_in_force(deployment).filter(cause=replica.cause).count(),
        in_a_row=_in_a_row(replica),
        devices=tuple(device for device, _ in devices),
        host_engines=1 + Replica.objects.filter(node=replica.node, state__in=REPLICA_LIVE).count(),
    )


def of_deployment(name: str) -> list[OverrideFacts]:
    """In force, newest first."""
    deployment = Deployment.objects.filter(name=name).first()
    if deployment is None:
        return []
    rows = _in_force(deployment).select_related("node").order_by("-created_at", "-pk")
    return [
        OverrideFacts(
            id=row.pk,
            cause=row.cause,
            changes=str(changes.read(row.changes)),
            reason=row.reason,
            node=row.node.name if row.node else "",
            created_at=row.created_at,
        )
        for row in rows[:SHOWN_MAX]
    ]


def blamed(name: str, at: datetime) -> str:
    """Why the deployment's version is to blame for deaths of its engines; empty if it is not."""
    row = Deployment.objects.filter(name=name).values_list("version_id", flat=True).first()
    return blame.at_fault(blame_facts.deaths(at)).get(row, "") if row else ""


def _in_force(deployment: Deployment):
    return Override.objects.filter(
        deployment=deployment, version=deployment.version_id, dropped_at=None
    )


def _in_a_row(replica: Replica) -> int:
    """Failures of this cause, back to one of another."""
    earlier = Replica.objects.filter(
        deployment=replica.deployment_id,
        version=replica.version_id,
        generation__lt=replica.generation,
    ).order_by("-generation")
    row = 1
    for cause in earlier.values_list("cause", flat=True)[: rules.OCCUPIED_BEFORE_AVOIDED]:
        if cause != replica.cause:
            break
        row += 1
    return row
