"""Device time, hour by hour and line by line: whatever a device does, each second is on a line."""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Lock

from django.db import connection, transaction

from control.metering.cost.lines import Holder, Line, split, whole_parts
from control.metering.cost.rules import HOUR, hour_of
from control.models import Node
from control.states import ReplicaState, ReservationState

FLUSH_SECONDS = 10.0
GAP_SECONDS_MAX = 60.0  # a longer silence is on no line: nobody saw what happened in it
MICROSECOND = timedelta(microseconds=1)
# A row for each device and each that holds of it; asked each second, so in words made once.
SEEN = (
    "SELECT d.uuid, d.name, d.kind, d.parent_uuid, n.name, n.pool,"
    " d.quarantined_at IS NOT NULL OR d.lost OR d.error <> '', b.replica_id, r.state,"
    " sum(upper(b.memory) - lower(b.memory))::bigint FROM control_device d"
    " JOIN control_node n ON n.id = d.node_id"
    " LEFT JOIN control_reservation b ON b.device_id = d.id AND b.state = %s"
    " LEFT JOIN control_replica r ON r.id = b.replica_id"
    " WHERE d.node_id = %s AND d.uuid = ANY(%s)"
    " GROUP BY d.id, n.id, b.replica_id, r.state ORDER BY d.index, d.uuid, b.replica_id"
)
ADD_USE = (
    "INSERT INTO control_deviceuse (device_uuid, hour, line, replica_id, microseconds)"
    " VALUES (%s, %s, %s, %s, %s) ON CONFLICT (hour, device_uuid, line, replica_id)"
    " DO UPDATE SET microseconds = control_deviceuse.microseconds + excluded.microseconds"
)
ADD_HOUR = (
    "INSERT INTO control_devicehour AS kept (device_uuid, hour, node, pool, name, kind, first_at,"
    " last_at, millijoules, energy_microseconds) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
    " ON CONFLICT (device_uuid, hour) DO UPDATE SET node = excluded.node, pool = excluded.pool,"
    " first_at = least(kept.first_at, excluded.first_at),"
    " last_at = greatest(kept.last_at, excluded.last_at),"
    " millijoules = kept.millijoules + excluded.millijoules,"
    " energy_microseconds = kept.energy_microseconds + excluded.energy_microseconds"
)


@dataclass(frozen=True)
class DeviceSeen:
    """One device at one instant."""

    uuid: str
    name: str
    kind: str
    node: str
    pool: str
    out_of_order: bool = False  # in quarantine, or its driver tells an error
    joules: float | None = None  # since its driver started, where it tells
    holders: tuple[Holder, ...] = ()


@dataclass
class _Hour:
    """What has added up of one device in one hour and is not written yet."""

    device: DeviceSeen
    first_at: datetime
    last_at: datetime
    millijoules: int = 0
    energy_microseconds: int = 0
    lines: dict[tuple[Line, int], int] = field(default_factory=lambda: defaultdict(int))


def look(
    node: Node, joules: Mapping[str, float | None], busy_ratio: Callable[[int], float]
) -> list[DeviceSeen]:
    """Those devices of a node that its driver names now, and which launches hold them.

    A card in slices is not one of them: its slices are. One that was taken out is paid no more.
    """
    with connection.cursor() as cursor:
        cursor.execute(SEEN, [ReservationState.HELD, node.pk, list(joules)])
        rows = cursor.fetchall()
    sliced = {row[3] for row in rows}
    holders: dict[str, list[Holder]] = defaultdict(list)
    for uuid, *_, replica, state, size in rows:
        if replica is not None:
            holders[uuid].append(Holder(replica, ReplicaState(state), size, busy_ratio(replica)))
    named = {row[0]: row[1:7] for row in rows if row[0] not in sliced}
    return [
        DeviceSeen(
            uuid=uuid,
            name=name,
            kind=kind,
            node=of,
            pool=pool,
            out_of_order=out_of_order,
            joules=joules[uuid],
            holders=tuple(holders[uuid]),
        )
        for uuid, (name, kind, _, of, pool, out_of_order) in named.items()
    ]


class UseMeter:
    """Adds up in memory and writes every 10 s; kill -9 loses at most those. For any thread.

    A node's watch, once a second: `note` for each device of `look`, then `flush`.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._seen: dict[str, tuple[datetime, float | None]] = {}
        self._hours: dict[tuple[str, datetime], _Hour] = {}
        self._flushed_at: datetime | None = None

    def note(self, device: DeviceSeen, at: datetime) -> None:
        """Since it was noted before, the device did what it does now."""
        with self._lock:
            before, joules = self._seen.get(device.uuid, (at, None))
            self._seen[device.uuid] = (at, device.joules)
            if not 0 <= (at - before).total_seconds() <= GAP_SECONDS_MAX:
                before, joules = at, None
            self._add(device, before, at)
            if joules is not None and device.joules is not None and device.joules >= joules:
                self._add_energy(device, before, at, round((device.joules - joules) * 1000))

    def keep_only(self, uuids: Collection[str]) -> None:
        """Forget devices that are no longer there."""
        with self._lock:
            self._seen = {name: self._seen[name] for name in self._seen if name in uuids}

    def flush(self, at: datetime, *, now: bool = False) -> None:
        """Write what has added up, whole or not at all; then it is kept for the next time."""
        with self._lock:
            if self._flushed_at is None:
                self._flushed_at = at
            if not now and (at - self._flushed_at).total_seconds() < FLUSH_SECONDS:
                return
            self._flushed_at = at
            if self._hours:
                _write(self._hours)
                self._hours = {}

    def _add(self, device: DeviceSeen, begin: datetime, end: datetime) -> None:
        for hour, first, last in _by_hour(begin, end):
            kept = self._hours.setdefault((device.uuid, hour), _Hour(device, first, last))
            kept.device, kept.last_at = device, last
            microseconds = (last - first) // MICROSECOND
            parts = split(microseconds, device.holders, quarantined=device.out_of_order)
            for key, part in parts.items():
                if part:
                    kept.lines[key] += part

    def _add_energy(
        self, device: DeviceSeen, begin: datetime, end: datetime, millijoules: int
    ) -> None:
        spans = {hour: (last - first) // MICROSECOND for hour, first, last in _by_hour(begin, end)}
        for hour, part in whole_parts(millijoules, spans).items():
            kept = self._hours[device.uuid, hour]
            kept.millijoules += part
            kept.energy_microseconds += spans[hour]


def _write(hours: Mapping[tuple[str, datetime], _Hour]) -> None:
    uses, rows = [], []
    for (uuid, hour), kept in sorted(hours.items()):
        one = kept.device
        named = (uuid, hour, one.node, one.pool, one.name, one.kind)
        rows.append(
            (*named, kept.first_at, kept.last_at, kept.millijoules, kept.energy_microseconds)
        )
        lines = sorted((str(line), replica, part) for (line, replica), part in kept.lines.items())
        uses += [(uuid, hour, *line) for line in lines]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.executemany(ADD_HOUR, rows)
        cursor.executemany(ADD_USE, uses)


def _by_hour(begin: datetime, end: datetime) -> list[tuple[datetime, datetime, datetime]]:
    """(hour, from, until) of a span; one of no length is in its hour too."""
    parts = []
    while True:
        hour = hour_of(begin)
        until = min(end, hour + HOUR)
        parts.append((hour, begin, until))
        if until >= end:
            return parts
        begin = until
