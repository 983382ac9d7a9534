"""Tables → the parts of the gateways' snapshot, and the row each is kept in."""

from collections import defaultdict
from datetime import datetime

import msgspec
from django.db import connection, transaction

from control.models import (
    QUOTA_FIELDS,
    Deployment,
    Key,
    Quota,
    Replica,
    Route,
    SnapshotPart,
    Target,
)
from control.routes import cured, money, stored
from control.routes.snapshot import (
    FORMAT,
    BucketInfo,
    DeploymentInfo,
    Identities,
    Identity,
    ModerationInfo,
    ReplicaInfo,
    Replicas,
    RouteInfo,
    Routes,
    RuleInfo,
    Scope,
    TargetInfo,
)
from control.states import DeploymentState, KeyState, Part, Priority, ReplicaState
from control.telemetry import cold_starts

Active = dict[str, Deployment]  # by name
Starts = dict[str, float]
Weights = list[tuple[str, int]]


def compile_part(part: Part, version: int) -> Identities | Routes | Replicas:
    """Read the tables; what comes back is at least as new as `version`."""
    compilers = {
        Part.IDENTITIES: _identities,
        Part.ROUTES: _routes,
        Part.REPLICAS: _replicas,
    }
    return compilers[part](version)


def build(part: Part, *, at: datetime, waits: bool = True) -> bool:
    """Compile and store the part if it is behind; False if another builder was first.

    Not `waits`: also False while another is at it, or a change of it is not committed yet.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        row = SnapshotPart.objects.select_for_update(skip_locked=not waits).filter(pk=part).first()
        if row is None or row.built >= row.version:
            return False
        payload = msgspec.json.encode(compile_part(part, row.version))
        SnapshotPart.objects.filter(pk=part).update(payload=payload, built=row.version, built_at=at)
        cursor.execute("SELECT pg_notify(%s, %s)", [SnapshotPart.CHANNEL_BUILT, str(part)])
    return True


def _identities(version: int) -> Identities:
    scopes = _scopes()
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


def _scopes() -> dict[str, Scope]:
    """Those that name a limit or a budget."""
    limits = {}
    for quota in Quota.objects.order_by("pk"):
        stated = {name: getattr(quota, name) for name in QUOTA_FIELDS}
        named = {name: value for name, value in stated.items() if value is not None}
        if named:
            limits[money.scope_id(quota)] = named
    budgets = money.budgets()
    return {
        id_: Scope(id_, limits.get(id_, {}), budgets.get(id_, ()))
        for id_ in limits.keys() | budgets.keys()
    }


def _identity(key: Key, scopes: tuple[str, ...], expires_at: float | None) -> Identity:
    return Identity(
        key_id=key.pk,
        tenant_id=key.tenant_id,
        project_id=key.project_id,
        tenant=key.tenant.name,
        project=key.project.name,
        key=key.name,
        priority=_least_urgent(key.tenant.priority, key.priority),
        scopes=scopes,
        routes=None if key.routes is None else tuple(key.routes),
        expires_at=expires_at,
        endpoints=None if key.endpoints is None else tuple(key.endpoints),
        networks=tuple(key.networks),
    )


def _least_urgent(tenants: str, keys: str) -> str:
    """A key may be less urgent than its tenant, never more."""
    order = list(Priority)
    return max(tenants, keys or tenants, key=order.index)


def _seconds(at: datetime | None) -> float | None:
    return at.timestamp() if at else None


def _earliest(one: datetime | None, other: datetime) -> datetime:
    return other if one is None else min(one, other)


def _routes(version: int) -> Routes:
    rows = Deployment.objects.filter(state=DeploymentState.ACTIVE).select_related("version__model")
    rows = rows.prefetch_related("overrides")
    active = {row.name: row for row in rows.order_by("pk")}
    targets = defaultdict(list)
    for target in Target.objects.select_related("deployment").order_by("pk"):
        targets[target.route_id].append((target.deployment.name, target.weight))
    general, own = money.prices()
    starts = _starts(active)
    return Routes(
        FORMAT,
        version,
        routes={
            route.name: _route(route, targets[route.pk], active, starts)
            for route in Route.objects.filter(archived_at=None).select_related("fallback")
        },
        deployments={name: _deployment(row) for name, row in active.items()},
        prices=general,
        own_prices=own,
    )


def _starts(active: Active) -> Starts:
    """Deployment → seconds that a held call has to expect: of a sleeper, until it is awake."""
    versions = [row.version_id for row in active.values()]
    known = cold_starts.cold_starts(versions)
    took = {
        name: known[row.version_id].seconds
        for name, row in active.items()
        if row.version_id in known
    }
    sleepers = Replica.objects.filter(state__in=(ReplicaState.ASLEEP, ReplicaState.WAKING))
    asleep = dict(sleepers.values_list("deployment__name", "version_id"))
    woke = cold_starts.wake_ups([*asleep.values()]) if asleep else {}
    return took | {name: woke[of] for name, of in asleep.items() if of in woke}


def _deployment(row: Deployment) -> DeploymentInfo:
    hindrance = {
        "hindrance": row.hindrance,
        "cause": row.hindrance_cause,
        "launch_after": _seconds(row.launch_after),
    }
    return DeploymentInfo(
        row.name,
        msgspec.convert(row.bucket, BucketInfo | None),
        row.version.model.name,
        **(hindrance if row.hindrance else {}),
        **(_guard(row) if row.guarded_until else {}),
    )


def _guard(row: Deployment) -> dict:
    """A call that fits into one step asks for no more than the engine's own start did."""
    return {
        "guarded_since": _seconds(row.guarded_since),
        "guarded_until": _seconds(row.guarded_until),
        "guard_tokens": cured.step_tokens(row),
    }


def _route(route: Route, targets: Weights, active: Active, starts: Starts) -> RouteInfo:
    fallback = route.fallback.name if route.fallback else None
    took = [starts[name] for name, _ in targets if name in starts]
    return RouteInfo(
        name=route.name,
        created_at=int(route.created_at.timestamp()),
        targets=_targets(targets, active),
        rules=tuple(_rule(rule, active) for rule in route.rules),
        fallback=fallback if fallback in active else None,
        bucket=msgspec.convert(route.bucket, BucketInfo | None),
        moderation=msgspec.convert(route.moderation, ModerationInfo | None),
        start_seconds=round(min(took), 1) if took else None,
        **{name: getattr(route, name) for name in stored.PLAIN if name != "note"},
        **{name: tuple(getattr(route, name)) for name in stored.LISTS},
    )


def _rule(rule: dict, active: Active) -> RuleInfo:
    """One whose deployments are all gone still decides: its calls were not meant for others."""
    weights = [(target["deployment"], target["weight"]) for target in rule["targets"]]
    return msgspec.convert(rule | {"targets": _targets(weights, active)}, RuleInfo)


def _targets(weights: Weights, active: Active) -> tuple[TargetInfo, ...]:
    return tuple(
        TargetInfo(name, weight, cured.context_tokens(active[name]))
        for name, weight in weights
        if name in active
    )


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
        engine=launched.engine["kind"],
        model=launched.model.name,
        version=launched.name,
        kv_tokens=row.kv_tokens,
        drain_by=_seconds(row.drain_by),
    )
