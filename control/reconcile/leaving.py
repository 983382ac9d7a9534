"""What has to leave a node, and when: the successor first where there is time for one. Pure."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from control.reconcile.world import Drain, ReplicaFacts
from control.states import ReplicaState

END_SECONDS = 20.0  # of a host's last moments: an engine is ended, its memory seen gone
DRAIN_RATIO = 0.5  # of the notice: so long a lone replica waits for its successor, no longer
_GOING = frozenset({ReplicaState.DRAINING, ReplicaState.LOST})


def departure(replicas: Sequence[ReplicaFacts], at: datetime) -> Drain | None:
    """The next replica that leaves a host that goes, without waiting for its successor.

    What is drained without a deadline waits for one: see `rules`, as for another version.
    """
    elsewhere = any(_serves_on(replica) for replica in replicas)
    for replica in sorted(replicas, key=_urgency):
        if replica.leaves_by is None or replica.state in _GOING:
            continue
        if why := _may_leave(replica, elsewhere, at):
            return Drain(replica.id, f"{replica.leaving}: {why}", by=drain_by(replica))
    return None


def drain_by(replica: ReplicaFacts) -> datetime | None:
    """Before its host goes, with a moment to end it properly."""
    return replica.leaves_by and replica.leaves_by - timedelta(seconds=END_SECONDS)


def is_spare(replicas: Sequence[ReplicaFacts], replicas_min: int) -> bool:
    """Whether the next replica is above `min` on hosts that stay: it may be lost at any time."""
    steady = [one for one in replicas if _stays(one) and not one.on_preemptible]
    return len(steady) >= replicas_min


def _may_leave(replica: ReplicaFacts, elsewhere: bool, at: datetime) -> str:
    """Why it may go now; empty if its calls would have nowhere to go."""
    if replica.state is not ReplicaState.READY:
        return "it serves nobody"
    if elsewhere:
        return "others serve on"
    since = replica.leaves_since or at
    latest = since + (replica.leaves_by - since) * DRAIN_RATIO
    return "its successor is not ready in time" if at >= latest else ""


def _serves_on(replica: ReplicaFacts) -> bool:
    return replica.state is ReplicaState.READY and replica.leaves_by is None


def _stays(replica: ReplicaFacts) -> bool:
    away = replica.state in _GOING or replica.state is ReplicaState.ASLEEP
    return not away and not replica.leaving


def _urgency(replica: ReplicaFacts) -> tuple:
    """Which goes first: by deadline, then what serves nobody, then the oldest launch."""
    by = replica.leaves_by.timestamp() if replica.leaves_by else 0.0
    return by, replica.state is ReplicaState.READY, replica.generation
