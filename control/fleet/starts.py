"""What is written down of a launch: the parts of its cold start, and the memory it really held."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.db.models import F, Q

from control.fleet import launch
from control.models import (
    ColdStart,
    Device,
    Replica,
    Reservation,
    SnapshotPart,
    VersionMeasure,
    VersionPeak,
)
from control.placement import kv_cache, memory
from control.states import Part, ReplicaState, ReservationState
from engines.spec import Startup

NOTED_EVERY = timedelta(minutes=5)
_SAID = ("weights_bytes", "consumed_bytes", "activation_bytes", "graph_bytes", "kv_bytes")


def at_ready(replica: Replica, said: Startup, *, at: datetime) -> None:
    """Once for a launch, when it has become ready."""
    parts = parts_of_start(_instants(replica), replica.created_at, at, said.capture_seconds)
    start, made = ColdStart.objects.get_or_create(
        replica=replica, defaults={"version_id": replica.version_id, "at": at, **parts}
    )
    if not made:
        return
    SnapshotPart.raise_version(Part.ROUTES)  # held calls are told how long a start takes
    if device := _devices(replica).first():
        _note_said(replica, device, said, at)


def parts_of_start(
    reached: dict[str, datetime], created_at: datetime, ready_at: datetime, capture_seconds: float
) -> dict[str, float]:
    """`reached`: when each state came. One that was passed over took no time of its own."""
    at = created_at
    instants = []
    for state in (ReplicaState.PREPARING, ReplicaState.STARTING, ReplicaState.LOADING):
        at = max(at, reached.get(state, at))
        instants.append(at)
    preparing, starting, loading = instants
    warming = max(loading, min(ready_at, reached.get(ReplicaState.WARMING, ready_at)))
    if ReplicaState.LOADING not in reached:  # imported all the while, as far as was seen
        loading = warming
    rest = (ready_at - warming).total_seconds()
    capture = min(max(rest, 0.0), capture_seconds)
    return {
        "wait_seconds": (preparing - created_at).total_seconds(),
        "fetch_seconds": (starting - preparing).total_seconds(),
        "import_seconds": (loading - starting).total_seconds(),
        "load_seconds": (warming - loading).total_seconds(),
        "capture_seconds": capture,
        "warm_up_seconds": max(rest, 0.0) - capture,
    }


def note_use(replica: Replica, used_bytes: int, host_bytes: int, *, at: datetime) -> None:
    """`used_bytes`: what its processes hold of one of its devices, as driver or kernel say."""
    device, kv_bytes = _devices(replica).first(), kv_bytes_on_each(replica)
    if device is None or kv_bytes is None or not used_bytes:
        return
    peak = _peak(replica, device, at)
    beside = max(0, used_bytes - kv_bytes)
    rows = VersionPeak.objects.filter(pk=peak.pk)
    rows.filter(Q(beside_kv_bytes=None) | Q(beside_kv_bytes__lt=beside)).update(
        beside_kv_bytes=beside, measured_at=at
    )
    rows.filter(Q(host_bytes=None) | Q(host_bytes__lt=host_bytes)).update(host_bytes=host_bytes)


class Peaks:
    """Asks the tables only of a launch that holds more than it did; else now and then."""

    def __init__(self) -> None:
        self._uuids: dict[int, tuple[str, ...]] = {}
        self._noted: dict[int, tuple[int, int, datetime]] = {}

    def keep_only(self, replica_ids: set[int]) -> None:
        for known in (self._uuids, self._noted):
            for gone in set(known) - replica_ids:
                known.pop(gone, None)

    def note(
        self, replica: Replica, used: Mapping[str, int], host_bytes: int, *, at: datetime
    ) -> None:
        """`used`: bytes of its processes on each device; those of a serving launch are settled."""
        uuids = self._uuids.get(replica.pk)
        if uuids is None:
            uuids = self._uuids[replica.pk] = launch.device_uuids(replica)
        most = max((used.get(uuid, 0) for uuid in uuids), default=0)
        before, host_before, noted_at = self._noted.get(replica.pk, (0, 0, at))
        grown = most > before or host_bytes > host_before
        if not grown and at - noted_at < NOTED_EVERY:
            return
        note_use(replica, most, host_bytes, at=at)
        self._noted[replica.pk] = max(most, before), max(host_bytes, host_before), at


def kv_bytes_on_each(replica: Replica) -> int | None:
    """Bytes of its KV cache on each device, from the tokens that the engine said it holds."""
    version = replica.version
    measure = VersionMeasure.objects.filter(version=version).first()
    if measure is None or not replica.kv_tokens:
        return None
    cost = kv_cache.KvCost.from_dict(measure.kv_cost)
    demand = memory.demand_of(version.arguments, version.memory)
    device = _devices(replica).first()
    kind = device.kind if device else "cpu"
    length = demand.context_tokens or cost.context_tokens
    call = kv_cache.call_bytes(cost, length, demand.step(kind), memory.BLOCK_TOKENS[kind])
    return replica.kv_tokens * call // length // kv_cache.parts(cost, demand.devices)


def _note_said(replica: Replica, device: Device, said: Startup, at: datetime) -> None:
    peak = _peak(replica, device, at)
    known = {name: value for name in _SAID if (value := getattr(said, name)) is not None}
    grown = {
        name: max(value, getattr(peak, name) or 0) if name != "kv_bytes" else value
        for name, value in known.items()
    }
    if said.kv_tokens:
        grown["kv_tokens"] = said.kv_tokens
    VersionPeak.objects.filter(pk=peak.pk).update(
        launches=F("launches") + 1, measured_at=at, **grown
    )


def _peak(replica: Replica, device: Device, at: datetime) -> VersionPeak:
    """Engines of one version measure at once: the second takes the row of the first."""
    row = {"version_id": replica.version_id, "device_name": device.name}
    known = VersionPeak.objects.filter(**row)
    if (found := known.first()) is None:
        made = VersionPeak(**row, device_kind=device.kind, measured_at=at)
        VersionPeak.objects.bulk_create([made], ignore_conflicts=True)
        found = known.get()
    return found


def _devices(replica: Replica):
    held = Reservation.objects.filter(replica=replica, state=ReservationState.HELD)
    return Device.objects.filter(pk__in=held.values("device")).order_by("index", "pk")


def _instants(replica: Replica) -> dict[str, datetime]:
    return dict(replica.changes.order_by("-at", "-pk").values_list("new", "at"))
