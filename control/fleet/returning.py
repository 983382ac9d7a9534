"""An engine whose node was thought lost: it serves on, sleeps on, or is ended."""

from datetime import datetime, timedelta

from django.conf import settings

from control.fleet import node_tasks
from control.fleet.sleeping import rules as sleeping
from control.models import Replica
from control.states import ReplicaState

ANSWER_SECONDS = 60  # for it to answer again


def returned(replica: Replica, at: datetime, *, well: bool) -> None:
    slept = sleeping.returns_to(ReplicaState(replica.state), replica.awake, replica.sleep_level)
    if slept:
        _move(replica, slept, "its node is back, and it had been put to sleep", at)
    elif well:
        _move(replica, ReplicaState.READY, "its node is back and it ran on", at)
    elif (at - replica.state_at).total_seconds() > ANSWER_SECONDS:
        _move(replica, ReplicaState.DRAINING, "its node is back, but it does not answer", at)


def _move(replica: Replica, to: ReplicaState, reason: str, at: datetime) -> None:
    fields = {}
    if to is ReplicaState.DRAINING:  # one that says nothing of its calls would drain without end
        fields["drain_by"] = at + timedelta(seconds=settings.WEIR_DRAIN_SECONDS)
    replica.move(to, reason=reason, by=node_tasks.by(), at=at, **fields)
