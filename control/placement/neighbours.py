"""Which launches share a card, and how calls fared there lately: read for the guard."""

from collections import defaultdict
from datetime import datetime, timedelta

from control.models import Point, Replica, Reservation
from control.placement import wanted
from control.placement.guard import Latency, Neighbour
from control.placement.world import Room
from control.states import ReplicaState, ReservationState

LATELY_SECONDS = 120
RESOLUTION_SECONDS = 10
POINTS_READ_MAX = 50_000


def on_shared_cards(at: datetime) -> dict[str, list[Neighbour]]:
    """Card (its name and node) → its ready replicas, of cards that have several."""
    rows = Reservation.objects.filter(
        state=ReservationState.HELD,
        replica__room=Room.SHARED,
        replica__state=ReplicaState.READY,
    ).select_related("device__node", "replica__deployment")
    by_card: dict[str, dict[int, Replica]] = defaultdict(dict)
    for row in rows.order_by("pk"):
        by_card[str(row.device)][row.replica_id] = row.replica
    shared = {card: found for card, found in by_card.items() if len(found) > 1}
    lately = _lately({pk for found in shared.values() for pk in found}, at)
    return {
        card: [_neighbour(replica, lately[replica.pk]) for replica in found.values()]
        for card, found in shared.items()
    }


def _neighbour(row: Replica, lately: list[Latency]) -> Neighbour:
    return Neighbour(
        replica_id=row.pk,
        name=str(row),
        ready_at_seconds=row.ready_at.timestamp() if row.ready_at else 0.0,
        objective=wanted.objective(row.deployment.objective),
        lately=tuple(lately),
        leaving=row.leaving,
    )


def _lately(replica_ids: set[int], at: datetime) -> dict[int, list[Latency]]:
    found: dict[int, list[Latency]] = defaultdict(list)
    if not replica_ids:
        return found
    points = Point.objects.filter(
        subject__in=[f"replica:{pk}" for pk in replica_ids],
        resolution_seconds=RESOLUTION_SECONDS,
        at__gte=at - timedelta(seconds=LATELY_SECONDS),
    )
    for subject, values in points.values_list("subject", "values")[:POINTS_READ_MAX]:
        latency = Latency(_ms(values.get("ttft_seconds")), _ms(values.get("tpot_seconds")))
        found[int(subject.partition(":")[2])].append(latency)
    return found


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000
