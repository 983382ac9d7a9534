"""What runs on machines, as pages and the status command read it."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime

from django.db.models import F, Q, Window
from django.db.models.functions import RowNumber

from control.fleet.placing import Placing, placing_of
from control.fleet.scaling import Scaling, scaling_of
from control.models import Deployment, Replica, Reservation, StateChange
from control.states import (
    REPLICA_BEFORE_READY,
    REPLICA_FINAL,
    REPLICA_MOVES,
    DeploymentState,
    ReplicaState,
    ReservationState,
)

ROWS_MAX = 1000
ENDED_SHOWN = 5  # ended launches of one deployment that lists still show
CHANGES_SHOWN = 30
_FURTHEST = tuple(REPLICA_MOVES)  # from pending to lost, in the order of a life


@dataclass(frozen=True)
class ReplicaFacts:
    id: int
    deployment: str
    generation: int
    node: str
    state: str
    reason: str
    cause: str
    phase: str
    progress_percent: int
    address: str
    slots: int
    kv_tokens: int | None
    created_at: datetime
    state_at: datetime
    ready_at: datetime | None
    ended_at: datetime | None
    devices: tuple[str, ...]
    booked_bytes: int
    calls: int = 0  # that it has served
    host_memory_bytes: int | None = None  # of its processes alone; None: not read yet

    @property
    def is_starting(self) -> bool:
        return self.state in REPLICA_BEFORE_READY

    @property
    def is_final(self) -> bool:
        return self.state in REPLICA_FINAL


@dataclass(frozen=True)
class Standing:
    """How a deployment is doing, in one adjective, and why."""

    state: str
    reason: str


@dataclass(frozen=True)
class DeploymentFacts:
    name: str
    model: str
    version: str
    engine_kind: str
    engine_version: str
    state: str
    wanted: int
    replicas_min: int
    replicas_max: int
    node: str
    bucket: dict[str, float] | None
    placing: Placing
    note: str
    launch_after: datetime | None
    created_at: datetime
    replicas: tuple[ReplicaFacts, ...]  # live ones, then the last that ended; newest first
    recycle: dict[str, float] | None = None
    scaling: Scaling = Scaling()
    allow_shorter_context: bool = False
    guarded_until: datetime | None = None
    hindrance: str = ""
    hindered_at: datetime | None = None

    @property
    def ready(self) -> int:
        return sum(replica.state == ReplicaState.READY for replica in self.replicas)

    @property
    def standing(self) -> Standing:
        return standing(self)


@dataclass(frozen=True)
class ChangeFacts:
    at: datetime
    old: str
    new: str
    reason: str
    by: str


@dataclass(frozen=True)
class ReplicaLog:
    replica: ReplicaFacts
    lines: tuple[str, ...]
    changes: tuple[ChangeFacts, ...]


def standing(deployment: DeploymentFacts) -> Standing:
    """Ready, or the furthest that its replicas have come; the reason is theirs, else its own."""
    if deployment.state != DeploymentState.ACTIVE:
        return Standing(deployment.state, deployment.note or f"is {deployment.state}")
    if not deployment.wanted and (slept := _asleep(deployment)):
        return Standing("asleep", f"{slept.reason}; the next call wakes it")
    if deployment.ready >= deployment.wanted:
        return Standing("ready", f"{deployment.ready} of {deployment.wanted} replicas are ready")
    live = [replica for replica in deployment.replicas if not replica.is_final]
    coming = [replica for replica in live if replica.is_starting]
    if deployment.ready:
        why = deployment.note or next((replica.reason for replica in coming), "")
        return Standing("degraded", why or f"{deployment.ready} of {deployment.wanted} are ready")
    if live:
        best = max(coming or live, key=lambda replica: _FURTHEST.index(ReplicaState(replica.state)))
        return Standing(best.state, best.reason or deployment.note)
    last = next(iter(deployment.replicas), None)
    if last and last.state == ReplicaState.FAILED:
        return Standing("failed", deployment.note or last.reason)
    return Standing("pending", deployment.note or "waits for the reconciler")


def _asleep(deployment: DeploymentFacts) -> ReplicaFacts | None:
    asleep = (it for it in deployment.replicas if it.state == ReplicaState.ASLEEP)
    return next(asleep, None)


def deployments(
    *, name: str | None = None, archived: bool = False, first: int = 0, count: int = ROWS_MAX
) -> list[DeploymentFacts]:
    rows = Deployment.objects.select_related("version__model", "project__tenant").order_by("name")
    if name is not None:
        rows = rows.filter(name=name)
    if not archived:
        rows = rows.exclude(state=DeploymentState.ARCHIVED)
    found = list(rows[first : first + min(count, ROWS_MAX)])
    launches = _replicas([deployment.pk for deployment in found])
    return [_deployment(row, tuple(launches[row.name])) for row in found]


def deployment(name: str) -> DeploymentFacts | None:
    return next(iter(deployments(name=name, archived=True, count=1)), None)


def deployment_count() -> int:
    return Deployment.objects.exclude(state=DeploymentState.ARCHIVED).count()


def replica_log(replica_id: int) -> ReplicaLog | None:
    """The last lines the engine said, and how the launch came to its state."""
    row = Replica.objects.filter(pk=replica_id).select_related("deployment", "node").first()
    if row is None:
        return None
    changes = StateChange.objects.filter(replica=row).order_by("-at", "-pk")[:CHANGES_SHOWN]
    return ReplicaLog(
        replica=_replica(row, _held([row.pk])[row.pk]),
        lines=tuple(row.log_tail.splitlines()),
        changes=tuple(
            ChangeFacts(change.at, change.old, change.new, change.reason, change.by)
            for change in changes
        ),
    )


def _replicas(deployment_ids: list[int]) -> dict[str, list[ReplicaFacts]]:
    """Deployment name → its live launches and the last few that ended."""
    final = Q(state__in=REPLICA_FINAL)
    newest = Window(RowNumber(), partition_by=F("deployment"), order_by=F("generation").desc())
    of_them = Replica.objects.filter(deployment__in=deployment_ids).defer("log_tail", "engine_key")
    of_them = of_them.select_related("deployment", "node")
    ended = of_them.filter(final).annotate(place=newest).filter(place__lte=ENDED_SHOWN)
    rows = list(of_them.exclude(final).order_by("-generation")[:ROWS_MAX])
    rows += ended.order_by("-generation")
    held = _held([row.pk for row in rows])
    found = defaultdict(list)
    for row in rows:
        found[row.deployment.name].append(_replica(row, held[row.pk]))
    return found


def _held(replica_ids: list[int]) -> dict[int, list[Reservation]]:
    rows = Reservation.objects.filter(replica__in=replica_ids, state=ReservationState.HELD)
    held = defaultdict(list)
    for row in rows.select_related("device").order_by("device__index"):
        held[row.replica_id].append(row)
    return held


def _replica(row: Replica, held: list[Reservation]) -> ReplicaFacts:
    return ReplicaFacts(
        id=row.pk,
        deployment=row.deployment.name,
        generation=row.generation,
        node=row.node.name if row.node else "",
        state=row.state,
        reason=row.reason,
        cause=row.cause,
        phase=row.phase,
        progress_percent=row.progress_percent,
        address=f"{row.host}:{row.port}" if row.port else "",
        slots=row.slots,
        kv_tokens=row.kv_tokens,
        calls=row.calls,
        host_memory_bytes=row.host_memory_bytes,
        created_at=row.created_at,
        state_at=row.state_at,
        ready_at=row.ready_at,
        ended_at=row.ended_at,
        devices=tuple(dict.fromkeys(booking.device.name for booking in held)),
        booked_bytes=sum(booking.memory_bytes for booking in held),
    )


def _deployment(row: Deployment, replicas: tuple[ReplicaFacts, ...]) -> DeploymentFacts:
    return DeploymentFacts(
        name=row.name,
        model=row.version.model.name,
        version=row.version.name,
        engine_kind=row.version.engine.get("kind", ""),
        engine_version=row.version.engine.get("version", ""),
        state=row.state,
        wanted=row.replicas_wanted,
        replicas_min=row.replicas_min,
        replicas_max=row.replicas_max,
        node=row.node,
        bucket=row.bucket,
        placing=placing_of(row),
        recycle=row.recycle,
        scaling=scaling_of(row.scaling),
        allow_shorter_context=row.allow_shorter_context,
        guarded_until=row.guarded_until,
        note=row.note,
        hindrance=row.hindrance,
        hindered_at=row.hindered_at,
        launch_after=row.launch_after,
        created_at=row.created_at,
        replicas=replicas,
    )
