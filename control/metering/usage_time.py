"""Device time of replicas, hour by hour: what was held, and what of it had a running call."""

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime
from threading import Lock

from django.db import connection

from control.metering.cost import rules
from control.models import Reservation
from control.states import ReservationState

FLUSH_SECONDS = 10.0
GAP_SECONDS_MAX = 60.0  # a longer silence is not counted: nobody saw what happened in it
ADD = (
    "INSERT INTO control_replicause (replica_id, hour, device_seconds, busy_seconds)"
    " VALUES (%s, %s, %s, %s) ON CONFLICT (replica_id, hour) DO UPDATE SET"
    " device_seconds = control_replicause.device_seconds + excluded.device_seconds,"
    " busy_seconds = control_replicause.busy_seconds + excluded.busy_seconds"
)


def add_use(replica_id: int, hour: datetime, device_seconds: float, busy_seconds: float) -> None:
    """Add to what is counted of this hour already."""
    busy = min(max(busy_seconds, 0.0), device_seconds)
    with connection.cursor() as cursor:
        cursor.execute(ADD, [replica_id, rules.hour_of(hour), max(device_seconds, 0.0), busy])


def held_devices(node_id: int) -> dict[int, float]:
    """Replica -> how many devices of the node are its own: 2.0 for two cards, 0.5 for half."""
    rows = Reservation.objects.filter(device__node=node_id, state=ReservationState.HELD)
    bookings = [
        (replica_id, device_id, memory.upper - memory.lower)
        for replica_id, device_id, memory in rows.values_list("replica_id", "device_id", "memory")
    ]
    return {name: float(share) for name, share in rules.device_shares(bookings).items()}


class UseMeter:
    """Adds up in memory and writes every 10 s; kill -9 loses at most those. For any thread.

    A node's watch, once a second: `note` for each of `held_devices`, then `flush`.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._seen: dict[int, datetime] = {}
        self._held: dict[tuple[int, datetime], list[float]] = defaultdict(lambda: [0.0, 0.0])
        self._flushed_at: datetime | None = None

    def note(self, replica_id: int, devices: float, busy_ratio: float, at: datetime) -> None:
        """The replica held these devices since it was noted before, and worked for a part of it."""
        with self._lock:
            before = self._seen.get(replica_id)
            self._seen[replica_id] = at
            if before is None or not 0 < (at - before).total_seconds() <= GAP_SECONDS_MAX:
                return
            for hour, seconds in _by_hour(before, at):
                held = self._held[replica_id, hour]
                held[0] += seconds * devices
                held[1] += seconds * devices * busy_ratio

    def keep_only(self, replica_ids: Collection[int]) -> None:
        """Forget replicas that gave their devices back."""
        with self._lock:
            self._seen = {name: self._seen[name] for name in self._seen if name in replica_ids}

    def flush(self, at: datetime, *, now: bool = False) -> None:
        """Write what has added up. What cannot be written is kept for the next time."""
        with self._lock:
            if self._flushed_at is None:
                self._flushed_at = at
            if not now and (at - self._flushed_at).total_seconds() < FLUSH_SECONDS:
                return
            self._flushed_at = at
            for key in sorted(self._held):
                add_use(*key, *self._held[key])
                del self._held[key]


def _by_hour(begin: datetime, end: datetime) -> list[tuple[datetime, float]]:
    parts = []
    while begin < end:
        hour = rules.hour_of(begin)
        until = min(end, hour + rules.HOUR)
        parts.append((hour, (until - begin).total_seconds()))
        begin = until
    return parts
