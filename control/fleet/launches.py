"""A node's launches, asked for each second: read anew only when one of their rows was written."""

from copy import copy
from datetime import datetime, timedelta
from threading import Lock

from django.db import connection
from django.db.models import Exists, OuterRef, Q

from control.models import Node, Replica, Reservation
from control.states import REPLICA_LIVE, ReplicaState, ReservationState

READ_EVERY = timedelta(seconds=10)  # for what hangs on the rows and has no mark here
# xmin and ctid are another pair for each version of a row. Not through the ORM: what it takes to
# build a question each second is most of what an idle node costs.
_MARKS = (
    "SELECT r.id, r.xmin::text, r.ctid::text, d.xmin::text, d.ctid::text, v.xmin::text,"
    " v.ctid::text FROM control_replica r JOIN control_deployment d ON d.id = r.deployment_id"
    " JOIN control_version v ON v.id = r.version_id WHERE r.node_id = %s AND (r.state = ANY(%s)"
    " OR EXISTS (SELECT 1 FROM control_reservation b WHERE b.replica_id = r.id AND b.state = %s))"
    " ORDER BY r.id"
)
_LIVE = sorted(map(str, REPLICA_LIVE))


class Launches:
    """For any thread. What it remembers may be lost at any time."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._lock = Lock()
        self._marks: list[tuple] = []
        self._rows: list[Replica] = []
        self._read_at: datetime | None = None

    def rows(self, at: datetime) -> list[Replica]:
        """All that may have a process or a booking here, each the caller's own to change."""
        with self._lock:
            marks = _marks(self._node)
            old = self._read_at is None or at - self._read_at >= READ_EVERY
            if marks != self._marks or (marks and old):
                self._rows = read(self._node)
                # As they were before: what was written meanwhile is seen as new the next time.
                self._marks, self._read_at = marks, at
            return [copy(row) for row in self._rows]

    def serving(self) -> list[Replica]:
        """Of those read last."""
        with self._lock:
            return [copy(row) for row in self._rows if row.state == ReplicaState.READY]


def read(node: Node) -> list[Replica]:
    """In one question for all of them: what each look needs of its launch."""
    booked = Reservation.objects.filter(replica=OuterRef("pk"), state=ReservationState.HELD)
    rows = Replica.objects.filter(Q(state__in=REPLICA_LIVE) | Exists(booked), node=node)
    found = rows.select_related("node", "deployment", "version__model").order_by("pk")
    return list(found.defer("log_tail"))


def _marks(node: Node) -> list[tuple]:
    with connection.cursor() as cursor:
        cursor.execute(_MARKS, [node.pk, _LIVE, ReservationState.HELD])
        return cursor.fetchall()
