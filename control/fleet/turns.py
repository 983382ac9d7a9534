"""Launches on one card start one after the other: each profiles what memory the others leave."""

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q

from control.models import Device, Replica, Reservation
from control.placement.world import Room
from control.states import ReplicaState, ReservationState
from engines.spec import PROFILED_PERCENT

TOLD_SECONDS = 60  # so often a wait is written down: it is no stall
_UNPROFILED = Q(replica__state__in=(ReplicaState.STARTING, ReplicaState.LOADING)) | Q(
    replica__state=ReplicaState.WARMING, replica__progress_percent__lt=PROFILED_PERCENT
)


def is_awaited(replica: Replica, *, at: datetime) -> str:
    """Whose memory profile is awaited before this engine sleeps or wakes beside it."""
    with transaction.atomic():
        return waits_for(replica, at=at)


def waits_for(replica: Replica, *, at: datetime) -> str:
    """Whose memory profile is awaited, in the transaction that would start this launch."""
    if replica.room != Room.SHARED:
        return ""
    held = Reservation.objects.filter(state=ReservationState.HELD)
    ids = set(held.filter(replica=replica).values_list("device_id", flat=True))
    # Two that start in the same moment meet here.
    list(Device.objects.select_for_update().filter(pk__in=ids).order_by("pk"))
    others = held.filter(_UNPROFILED, device__in=ids).exclude(replica=replica)
    first = others.select_related("replica__deployment").order_by("replica").first()
    if first is None:
        return ""
    phase = f"waits for the memory profile of {first.replica}"[:64]
    old = Q(progress_at=None) | Q(progress_at__lt=at - timedelta(seconds=TOLD_SECONDS))
    rows = Replica.objects.filter(pk=replica.pk).filter(~Q(phase=phase) | old)
    rows.update(phase=phase, progress_at=at)
    return str(first.replica)
