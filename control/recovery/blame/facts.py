"""What speaks against cards: deaths of engines on them, and what their drivers told."""

from datetime import datetime, timedelta

from django.db.models import F, Q

from control.models import Device, Replica, Reservation
from control.recovery.blame.rules import UNEXPLAINED, Card, Death
from control.states import NodeState, ReplicaState
from engines import xids

LOOKED_BACK = timedelta(hours=24)


def anything(at: datetime) -> bool:
    """Whether somebody may be to blame: at rest nobody asks for cards and deaths."""
    told = Q(xid_at__gt=at - LOOKED_BACK) | Q(ecc_uncorrected__gt=F("ecc_accepted"))
    if Device.objects.filter(told, kind="gpu", quarantined_at=None).exists():
        return True
    since = {"state": ReplicaState.FAILED, "ended_at__gt": at - LOOKED_BACK}
    return Replica.objects.filter(cause__in=UNEXPLAINED, **since).exists()


def cards(at: datetime) -> list[Card]:
    """Host memory is no card: it is not taken away."""
    rows = Device.objects.filter(kind="gpu").exclude(node__state=NodeState.REMOVED)
    return [
        Card(row.pk, row.node.pool, _evidence(row, at), row.quarantined_at is not None)
        for row in rows.select_related("node").order_by("pk")
    ]


def deaths(at: datetime) -> list[Death]:
    """Of engines whose end explains nothing, since the card was last released."""
    after = Q(device__released_at=None) | Q(replica__ended_at__gt=F("device__released_at"))
    rows = Reservation.objects.filter(
        after,
        device__kind="gpu",
        replica__state=ReplicaState.FAILED,
        replica__cause__in=UNEXPLAINED,
        replica__ended_at__gt=at - LOOKED_BACK,
    )
    fields = ("replica__version_id", "replica__version__model__name", "replica__version__name")
    return [
        Death(version_id, f"{model}:{version}", device_id)
        for version_id, model, version, device_id in rows.values_list(*fields, "device_id")
        if version_id
    ]


def _evidence(row: Device, at: datetime) -> str:
    code, when = row.xid_last, row.xid_at
    fresh = when is not None and when > max(row.released_at or at - LOOKED_BACK, at - LOOKED_BACK)
    if code is not None and fresh and xids.is_of_the_card(code):
        return f"Xid {code}: {xids.meaning(code)}"
    if (row.ecc_uncorrected or 0) > row.ecc_accepted:
        return f"{row.ecc_uncorrected} uncorrected memory errors"
    return ""
