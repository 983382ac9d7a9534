"""Which port a launch of this node takes, and another one if something was faster."""

import logging
import socket
from collections.abc import Iterator
from datetime import datetime
from zlib import crc32

from django.conf import settings
from django.db import IntegrityError, transaction

from control.models import Replica, StateChange
from control.states import REPLICA_FINAL, ReplicaState

TRIES_MAX = 3  # other ports, of one launch

log = logging.getLogger(__name__)


class NoPort(Exception):
    """Every port of the range is taken."""


def take_another(replica: Replica, *, by: str, at: datetime) -> bool:
    """Something was faster than the engine (E04): the same launch begins again elsewhere."""
    state, taken = ReplicaState.STARTING, replica.port
    tries = StateChange.objects.filter(replica=replica, old=state, new=state).count()
    rows = Replica.objects.filter(pk=replica.pk, state=state, port=taken)
    for port in free(replica) if tries < TRIES_MAX else ():
        reason = f"port {taken} was taken by another process: begins again at {port}"
        try:
            with transaction.atomic():
                if not rows.update(port=port, reason=reason, progress_at=at, pid=None):
                    return False
                StateChange.objects.create(
                    replica=replica, old=state, new=state, reason=reason, by=by, at=at
                )
        except IntegrityError:
            continue
        log.warning("%s: %s", replica, reason)
        replica.port = port
        return True
    return False


def free(replica: Replica) -> Iterator[int]:
    """Not booked by a live launch of this node, and nothing listens there or has it as its own."""
    live = Replica.objects.filter(node_id=replica.node_id).exclude(state__in=REPLICA_FINAL)
    booked = set(live.exclude(port=None).values_list("port", flat=True))
    ports = settings.WEIR_ENGINE_PORTS
    # Launches begin at different places, so that a port just left is not taken at once (T08), and
    # homes on one machine at others: until an engine listens, its port looks free to the next.
    first = (replica.pk * 7 + crc32(str(settings.WEIR_HOME).encode())) % len(ports)
    for offset in range(len(ports)):
        port = ports[(first + offset) % len(ports)]
        if port not in booked and _can_bind(settings.WEIR_NODE_ADDRESS, port):
            yield port


def _can_bind(address: str, port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True
