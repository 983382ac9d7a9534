"""One tick: read, plan, carry out. Any number may run; one at a time does anything."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from django.db import DatabaseError, connection

from control.reconcile import actions, facts, rules
from control.reconcile.world import Action, Note
from control.recovery import actions as recovery
from control.telemetry.outages import DATABASE_AWAY

LOCK = 0x57656972  # "Weir"; of reconcile alone
BY = "reconcile"

log = logging.getLogger(__name__)


def tick(at: datetime | None = None) -> list[Action]:
    """What was done; empty when another process is at it, or nothing was to do."""
    with _single_flight() as ours:
        if not ours:
            return []
        at = at or facts.database_now()
        recovery.recover(by=BY, at=at)
        world = facts.world(at)
        seen = {one.id: one.state for row in world.deployments for one in row.replicas}
        return [action for action in rules.plan(world) if _done(action, at, seen)]


def _done(action: Action, at: datetime, seen: actions.Seen) -> bool:
    """One step that cannot be taken must not keep all others waiting."""
    try:
        done = actions.carry_out(action, by=BY, at=at, seen=seen)
    except DATABASE_AWAY as error:
        if not connection.is_usable():
            raise  # nor is any other step to be taken
        log.warning("a step of reconcile waits for the next tick: %s: %s", action, error)
        return False
    except DatabaseError:
        log.exception("a step of reconcile failed: %s", action)
        return False
    if done and not isinstance(action, Note):
        log.info("reconcile: %s", action)
    return done


@contextmanager
def _single_flight() -> Iterator[bool]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [LOCK])
        ours = cursor.fetchone()[0]
    try:
        yield ours
    finally:
        if ours:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [LOCK])
