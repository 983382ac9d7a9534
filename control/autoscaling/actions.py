"""Other sizes for deployments, as decided; only what is wanted is changed."""

import logging
from dataclasses import asdict, replace
from datetime import datetime, timedelta

from django.db import connection, transaction
from redis.exceptions import RedisError

from control.autoscaling import facts, rules
from control.autoscaling.facts import Look
from control.autoscaling.rules import Decision
from control.models import Deployment, ScalingState, SnapshotPart
from control.models.audit import record
from control.states import DeploymentState, Part
from control.telemetry.store import Store

BY = "autoscaling"
LOCK = 0x5765695363  # of this loop alone

log = logging.getLogger(__name__)


def tick(at: datetime, store: Store) -> list[tuple[str, int, str]]:
    """Deployment, its new size and why, of those that changed; nothing while another is at it."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [LOCK])
            if not cursor.fetchone()[0]:
                return []
        try:
            looks = facts.looks(at, store)
        except (RedisError, OSError) as error:
            log.warning("sizes stay as they are, for nothing is known of the load: %s", error)
            return []
        return [change for look in looks if (change := _scale(look, at))]


def _scale(look: Look, at: datetime) -> tuple[str, int, str] | None:
    look = _with_news(look, at)
    decision = rules.decide(look.fleet, look.signs, look.memory, look.scaling, look.bounds, at)
    row = look.deployment
    changed = decision.wanted != row.replicas_wanted and _want(row, decision, at)
    _remember(look, decision, at, changed=changed)
    if not changed:
        return None
    log.info("%s: %d replicas, for %s", row.name, decision.wanted, decision.reason)
    return row.name, decision.wanted, decision.reason


def _with_news(look: Look, at: datetime) -> Look:
    """Another version is wanted, or the one before again: its start is not held against it."""
    if look.state is None or look.state.version_id == look.deployment.version_id:
        return look
    held_until = at + timedelta(seconds=rules.SETTLE_SECONDS)
    return replace(look, memory=replace(look.memory, held_until=held_until))


def _want(row: Deployment, decision: Decision, at: datetime) -> bool:
    """False if an operator, or another process, has changed it since."""
    same = Deployment.objects.filter(
        pk=row.pk,
        state=DeploymentState.ACTIVE,
        replicas_wanted=row.replicas_wanted,
        replicas_max__gte=decision.wanted,
    )
    if not same.update(replicas_wanted=decision.wanted):
        return False
    change = ({"wanted": row.replicas_wanted}, {"wanted": decision.wanted})
    record("size deployment", row.name, by=BY, reason=decision.reason, at=at, change=change)
    SnapshotPart.raise_version(Part.ROUTES)  # reconcile hears of it, and need not wait
    return True


def _remember(look: Look, decision: Decision, at: datetime, *, changed: bool) -> None:
    signs = {name: value for name, value in asdict(look.signs).items() if value is not None}
    written = {
        **asdict(decision.memory),
        "version_id": look.deployment.version_id,
        "signs": signs,
        "at": at,
    }
    if changed or look.state is None:
        written["reason"] = decision.reason
    ScalingState.objects.update_or_create(deployment=look.deployment, defaults=written)
