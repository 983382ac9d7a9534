"""Device time of a launch, as a node's watch would have written it."""

from datetime import datetime

from control.metering.cost import hours
from control.metering.cost.lines import Line
from control.metering.cost.rules import HOUR, hour_of
from control.models import DeviceHour, DeviceUse, Replica, Reservation

SECOND = 10**6


def seen(
    uuid: str, at: datetime, lines: dict[tuple[str, int], float], *, name="NVIDIA H200", **fields
) -> None:
    """A device in one hour: (line, replica) → seconds."""
    hour = hour_of(at)
    whole = sum(lines.values())
    values = {"node": "n1", "pool": "default", "kind": "gpu", "first_at": hour}
    values |= {"last_at": hour + HOUR * (whole / 3600)}
    DeviceHour.objects.create(device_uuid=uuid, hour=hour, name=name, **values | fields)
    DeviceUse.objects.bulk_create(
        DeviceUse(
            device_uuid=uuid,
            hour=hour,
            line=line,
            replica_id=replica_id,
            microseconds=round(seconds * SECOND),
        )
        for (line, replica_id), seconds in lines.items()
        if seconds
    )


def served(replica: Replica, at: datetime, seconds: float, busy: float) -> None:
    """Each of its devices held for so long and busy for so much of it; the hour's cost is made."""
    for row in Reservation.objects.filter(replica=replica).select_related("device"):
        lines = {(Line.BUSY, replica.pk): busy, (Line.IDLE, replica.pk): seconds - busy}
        seen(row.device.uuid, at, lines, name=row.device.name, kind=row.device.kind)
    hours.make(hour_of(at), at)
