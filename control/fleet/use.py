"""What a serving launch has done and holds of its host: read seldom, kept on its row."""

from datetime import datetime

from control.models import Replica, Reservation
from control.states import ReservationState
from engines.spec import EngineLoad

EVERY_SECONDS = 60.0


class Use:
    """Remembers when it looked last; a node that starts anew looks a minute later."""

    def __init__(self) -> None:
        self._noted_at: dict[int, datetime] = {}

    def keep_only(self, replica_ids: set[int]) -> None:
        for gone in set(self._noted_at) - replica_ids:
            self._noted_at.pop(gone, None)

    def is_due(self, replica_id: int, at: datetime) -> bool:
        """A minute after it became ready at the earliest: until then its memory still settles."""
        last = self._noted_at.setdefault(replica_id, at)
        if (at - last).total_seconds() < EVERY_SECONDS:
            return False
        self._noted_at[replica_id] = at
        return True


def write(replica: Replica, load: EngineLoad, memory_bytes: int) -> None:
    """Its calls are those of which a first token came: the engine's own count of them."""
    fields = {"calls": load.ttft_count, "host_memory_bytes": memory_bytes}
    if replica.host_memory_ready_bytes is None:
        # On a host's RAM it may fill all that it has booked: that is no growth.
        fields["host_memory_ready_bytes"] = max(memory_bytes, _booked_host_bytes(replica))
    Replica.objects.filter(pk=replica.pk, state=replica.state).update(**fields)


def _booked_host_bytes(replica: Replica) -> int:
    held = Reservation.objects.filter(
        replica=replica, state=ReservationState.HELD, device__kind="cpu"
    )
    return sum(row.memory_bytes for row in held)
