"""What gateways know, compiled from the tables: identities, routes, replicas, a version each."""

from collections import defaultdict
from datetime import datetime

import msgspec
from django.db import connection, transaction

from control.models import QUOTA_FIELDS, Key, Quota, Replica, Route, SnapshotPart, Target
from control.states import DeploymentState, KeyState, Part, ReplicaState

FORMAT = 1  # raised with an incompatible change; gateways accept this and the one before


class Scope(msgspec.Struct, frozen=True):
    """A ceiling of its own: `t:1`, `p:4` or `k:9`, with the limits it names (None is no limit)."""

    id: str
    limits: dict[str, int]


class Identity(msgspec.Struct, frozen=True):
    """Whom a key digest speaks for. Times are epoch seconds."""

    key_id: int
    tenant_id: int
    project_id: int
    tenant: str
    project: str
    key: str
    priority: str
    scopes: tuple[str, ...]
    routes: tuple[str, ...] | None  # None is every route
    expires_at: float | None
    endpoints: tuple[str, ...] | None = None  # as `Ask.endpoint` names them; None is every one
    networks: tuple[str, ...] = ()  # CIDR ranges it may call from; none named is anywhere
    account_id: int | None = None  # of the money it may spend; None is no budget


class Identities(msgspec.Struct, frozen=True):
    format: int
    version: int
    keys: dict[str, Identity]  # digest, hex
    scopes: dict[str, Scope]


class TargetInfo(msgspec.Struct, frozen=True):
    deployment: str
    weight: int
    context_tokens: int | None


class RuleInfo(msgspec.Struct, frozen=True):
    """Where calls go that match all that it names; the first rule that matches decides."""

    targets: tuple[TargetInfo, ...]
    tenants: tuple[str, ...] = ()
    priorities: tuple[str, ...] = ()
    input_tokens_min: int | None = None
    input_tokens_max: int | None = None
    hours: tuple[int, int] | None = None  # from, until (excluded), of the day in UTC; may wrap
    header: tuple[str, str] | None = None  # name in lower case, value


class BucketInfo(msgspec.Struct, frozen=True):
    """What may be asked of a route or deployment, whoever asks; None is what its engines can."""

    calls_per_second: float | None = None
    tokens_per_second: float | None = None
    burst_seconds: float = 5.0


class ModerationInfo(msgspec.Struct, frozen=True):
    """A judge asked over HTTP: of the prompt, of the answer, or of both."""

    url: str
    before: bool = True
    after: bool = False
    timeout_ms: int = 500
    fail_open: bool = True


class RouteInfo(msgspec.Struct, frozen=True):
    name: str
    created_at: int
    stop: tuple[str, ...]
    output_tokens_default: int | None
    output_tokens_max: int | None
    targets: tuple[TargetInfo, ...]
    rules: tuple[RuleInfo, ...] = ()
    fallback: str | None = None  # deployment, when no target can serve
    policy: str = "load_aware"  # one of states.RoutingPolicy
    on_replica_loss: str = "continue"  # or `end`
    priority: str = "interactive"  # the most urgent that its calls may be
    deadline_ms: int | None = None  # of calls that name none
    waiting_seconds: float | None = None
    cold_start_seconds: float | None = None  # how long a call waits for a model that loads
    commit_after_seconds: float | None = None  # how long headers are held back
    progress: bool = False  # comments while waiting, also to those who do not ask
    shared_prefix: bool = False  # the prompt's beginning is the operator's: one salt for all
    media_hosts: tuple[str, ...] = ()
    members: tuple[str, ...] = ()  # of a body, allowed beyond the table's
    bucket: BucketInfo | None = None
    moderation: ModerationInfo | None = None
    sample: float = 0.01  # share of calls whose trace is kept though nothing was wrong


class DeploymentInfo(msgspec.Struct, frozen=True):
    """What holds for all replicas of one deployment."""

    name: str
    bucket: BucketInfo | None = None


class Routes(msgspec.Struct, frozen=True):
    format: int
    version: int
    routes: dict[str, RouteInfo]
    deployments: dict[str, DeploymentInfo] = {}


class ReplicaInfo(msgspec.Struct, frozen=True):
    """An address bound to one launch; `sealed_key` is Fernet text, empty without a key."""

    id: int
    generation: int
    deployment: str
    version_id: int
    host: str
    port: int
    path: str  # prefix of an external engine's URL, usually empty
    tls: bool
    served_name: str
    slots: int
    state: str  # ready | unhealthy | draining | a state before ready
    sealed_key: str
    engine: str = "external"  # its kind
    model: str = ""  # and version, by name: what an answer may be continued on
    version: str = ""
    kv_tokens: int | None = None  # that its cache holds, as it reported


class Replicas(msgspec.Struct, frozen=True):
    format: int
    version: int
    replicas: tuple[ReplicaInfo, ...]


PARTS: dict[Part, type] = {
    Part.IDENTITIES: Identities,
    Part.ROUTES: Routes,
    Part.REPLICAS: Replicas,
}


def decode(part: Part, payload: bytes) -> Identities | Routes | Replicas:
    return msgspec.json.decode(payload, type=PARTS[part])


def compile_part(part: Part, version: int) -> Identities | Routes | Replicas:
    """Read the tables; what comes back is at least as new as `version`."""
    compilers = {
        Part.IDENTITIES: _identities,
        Part.ROUTES: _routes,
        Part.REPLICAS: _replicas,
    }
    return compilers[part](version)


def build(part: Part, *, at: datetime) -> bool:
    """Compile and store the part if it is behind; False if another builder was first."""
    with transaction.atomic(), connection.cursor() as cursor:
        row = SnapshotPart.objects.select_for_update().get(pk=part)
        if row.built >= row.version:
            return False
        payload = msgspec.json.encode(compile_part(part, row.version))
        SnapshotPart.objects.filter(pk=part).update(payload=payload, built=row.version, built_at=at)
        cursor.execute("SELECT pg_notify(%s, %s)", [SnapshotPart.CHANNEL_BUILT, str(part)])
    return True


def _identities(version: int) -> Identities:
    scopes = {}
    for quota in Quota.objects.order_by("pk"):
        limits = {name: getattr(quota, name) for name in QUOTA_FIELDS}
        named = {name: value for name, value in limits.items() if value is not None}
        if named:
            scopes[_scope_id(quota)] = Scope(_scope_id(quota), named)
    keys = {}
    active = Key.objects.filter(
        state=KeyState.ACTIVE, tenant__archived_at=None, project__archived_at=None
    ).select_related("tenant", "project")
    for key in active:
        ids = (f"t:{key.tenant_id}", f"p:{key.project_id}", f"k:{key.pk}")
        own = tuple(scope for scope in ids if scope in scopes)
        keys[key.digest] = _identity(key, own, _seconds(key.expires_at))
        if key.previous_digest and key.previous_valid_until:
            until = _earliest(key.expires_at, key.previous_valid_until)
            keys[key.previous_digest] = _identity(key, own, _seconds(until))
    return Identities(FORMAT, version, keys, scopes)


def _identity(key: Key, scopes: tuple[str, ...], expires_at: float | None) -> Identity:
    return Identity(
        key_id=key.pk,
        tenant_id=key.tenant_id,
        project_id=key.project_id,
        tenant=key.tenant.name,
        project=key.project.name,
        key=key.name,
        priority=key.tenant.priority,
        scopes=scopes,
        routes=None if key.routes is None else tuple(key.routes),
        expires_at=expires_at,
    )


def _scope_id(quota: Quota) -> str:
    if quota.tenant_id:
        return f"t:{quota.tenant_id}"
    return f"p:{quota.project_id}" if quota.project_id else f"k:{quota.key_id}"


def _seconds(at: datetime | None) -> float | None:
    return at.timestamp() if at else None


def _earliest(one: datetime | None, other: datetime) -> datetime:
    return other if one is None else min(one, other)


def _routes(version: int) -> Routes:
    targets = defaultdict(list)
    rows = Target.objects.select_related("deployment__version").order_by("pk")
    for target in rows.filter(deployment__state=DeploymentState.ACTIVE):
        wanted = target.deployment.version
        targets[target.route_id].append(
            TargetInfo(
                deployment=target.deployment.name,
                weight=target.weight,
                context_tokens=wanted.arguments.get("max_model_len"),
            )
        )
    routes = {
        route.name: RouteInfo(
            name=route.name,
            created_at=int(route.created_at.timestamp()),
            stop=tuple(route.stop),
            output_tokens_default=route.output_tokens_default,
            output_tokens_max=route.output_tokens_max,
            targets=tuple(targets[route.pk]),
        )
        for route in Route.objects.filter(archived_at=None)
    }
    return Routes(FORMAT, version, routes)


_ROUTABLE = (ReplicaState.READY, ReplicaState.UNHEALTHY, ReplicaState.DRAINING)


def _replicas(version: int) -> Replicas:
    rows = (
        Replica.objects.filter(state__in=_ROUTABLE)
        .select_related("deployment__version__model", "version__model")
        .order_by("pk")
    )
    return Replicas(FORMAT, version, tuple(_replica(row) for row in rows if row.port))


def _replica(row: Replica) -> ReplicaInfo:
    launched = row.version or row.deployment.version  # the deployment may want another by now
    upstream = launched.upstream if launched.is_external else None
    sealed = launched.upstream_key if upstream else row.engine_key
    return ReplicaInfo(
        id=row.pk,
        generation=row.generation,
        deployment=row.deployment.name,
        version_id=launched.pk,
        host=row.host,
        port=row.port,
        path=upstream.path if upstream else "",
        tls=upstream is not None and upstream.scheme == "https",
        served_name=launched.served_name,
        slots=row.slots,
        state=row.state,
        sealed_key=bytes(sealed).decode() if sealed else "",
    )
