"""What is stored, read back as the file would ask for it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime

from django.db.models import Count, Q

from control.apply import costs_stored
from control.apply.billing import TERMS
from control.apply.plan import Seen, Stored
from control.catalog.rules import EngineWanted, VersionWanted
from control.checks import Bucket
from control.fleet import recycle
from control.fleet.placing import placing_of
from control.fleet.rules import DeploymentWanted
from control.fleet.scaling import scaling_of
from control.metering.exports import schedules
from control.metering.exports.wanted import ScheduleWanted
from control.metering.invoices import facts as invoices
from control.metering.invoices.wanted import TermsWanted
from control.metering.prices import stored as prices
from control.models import (
    QUOTA_FIELDS,
    Budget,
    CatalogModel,
    Deployment,
    Key,
    Project,
    Quota,
    Route,
    Target,
    Tenant,
    Version,
)
from control.models.sealing import digest_of, opened
from control.routes import stored
from control.routes.wanted import TargetWanted
from control.states import REPLICA_LIVE, DeploymentState, KeyState
from control.tenancy.rules import (
    BudgetWanted,
    DeviceQuota,
    KeyWanted,
    Limits,
    ProjectWanted,
    TenantWanted,
)

UNREADABLE = "sealed under another WEIR_SECRET"  # no key is this: the file's is stored anew


def load(digests: Iterable[str], *, at: datetime) -> Stored:
    """Everything a file may name, in a fixed number of queries; and whose these secrets are."""
    seen: dict[str, Seen] = {}
    for rows in (
        _tenancy(),
        _catalog(),
        _deployments(),
        _routes(),
        _prices(at),
        costs_stored.seen(at),
        _billing(),
    ):
        seen.update(rows)
    return Stored(seen, _taken(set(digests), at))


def _tenancy() -> Iterator[tuple[str, Seen]]:
    limits, budgets = _ceilings(Quota, _limits), _ceilings(Budget, _budget)
    none = Limits()
    for row in Tenant.objects.all():
        scope = ("tenant", row.pk)
        own = {"limits": limits.get(scope, none), "budget": budgets.get(scope)}
        paying = {"prepaid": row.credit_currency, "alert_url": row.alert_url}
        wanted = TenantWanted(row.name, row.priority, row.timezone, **own, **paying)
        yield f"tenant {row.name}", Seen(wanted, archived=row.archived_at is not None)
    for row in Project.objects.select_related("tenant"):
        scope = ("project", row.pk)
        own = {"limits": limits.get(scope, none), "budget": budgets.get(scope)}
        devices = DeviceQuota(row.devices_guaranteed, row.devices_maximum)
        wanted = ProjectWanted(row.tenant.name, row.name, devices=devices, **own)
        aside = row.archived_at or row.tenant.archived_at
        yield f"project {row}", Seen(wanted, archived=aside is not None)
    for row in Key.objects.filter(state=KeyState.ACTIVE).select_related("tenant", "project"):
        scope = ("key", row.pk)
        own = {"limits": limits.get(scope, none), "budget": budgets.get(scope)}
        wanted = KeyWanted(
            row.tenant.name,
            row.name,
            row.project.name,
            routes=None if row.routes is None else tuple(row.routes),
            expires_at=row.expires_at,
            endpoints=None if row.endpoints is None else tuple(row.endpoints),
            networks=tuple(row.networks),
            priority=row.priority or None,
            **own,
        )
        aside = row.tenant.archived_at is not None
        yield f"key {row}", Seen(wanted, archived=aside, digest=row.digest, ident=row.pk)


def _ceilings(model: type[Quota] | type[Budget], read) -> dict[tuple[str, int], object]:
    found = {}
    for row in model.objects.all():
        ids = {"tenant": row.tenant_id, "project": row.project_id, "key": row.key_id}
        [scope] = [(name, pk) for name, pk in ids.items() if pk is not None]
        found[scope] = read(row)
    return found


def _limits(row: Quota) -> Limits:
    return Limits(**{name: getattr(row, name) for name in QUOTA_FIELDS})


def _budget(row: Budget) -> BudgetWanted:
    return BudgetWanted(row.amount, row.currency, row.period, row.tokens, row.mode)


def _catalog() -> Iterator[tuple[str, Seen]]:
    for row in CatalogModel.objects.all():
        yield f"model {row.name}", Seen(None, archived=row.archived_at is not None)
    for row in Version.objects.select_related("model"):
        engine = EngineWanted(**row.engine)
        content = VersionWanted(engine, row.source, row.arguments, row.memory, row.unsafe)
        sealed = digest_of(opened(row.upstream_key) or UNREADABLE) if row.upstream_key else ""
        aside = row.archived_at or row.model.archived_at
        seen = Seen(content, aside is not None, digest=sealed, content=row.digest)
        yield f"version {row}", seen


def _deployments() -> Iterator[tuple[str, Seen]]:
    living = Count("replicas", filter=Q(replicas__state__in=REPLICA_LIVE))
    rows = Deployment.objects.select_related("version__model", "project__tenant")
    for row in rows.annotate(living=living):
        wanted = DeploymentWanted(
            row.name,
            row.version.model.name,
            row.version.name,
            row.replicas_min,
            row.replicas_max,
            row.node,
            Bucket(**row.bucket) if row.bucket else None,
            recycle=recycle.of(row.recycle),
            scaling=scaling_of(row.scaling),
            allow_shorter_context=row.allow_shorter_context,
            **vars(placing_of(row)),
        )
        yield (
            f"deployment {row.name}",
            Seen(
                wanted,
                archived=row.state == DeploymentState.ARCHIVED,
                draining=row.state == DeploymentState.DRAINING,
                live=row.living,
            ),
        )


def _routes() -> Iterator[tuple[str, Seen]]:
    targets = defaultdict(list)
    for target in Target.objects.select_related("deployment").order_by("pk"):
        targets[target.route_id].append(TargetWanted(target.deployment.name, target.weight))
    for row in Route.objects.select_related("fallback"):
        fallback = row.fallback.name if row.fallback else None
        wanted = stored.wanted(row, targets[row.pk], fallback)
        yield f"route {row.name}", Seen(wanted, archived=row.archived_at is not None)


def _prices(at: datetime) -> Iterator[tuple[str, Seen]]:
    """Those in force by name, and each version by name and beginning, the newest of an instant."""
    found = prices.versions()
    for version in reversed(found):
        if not version.withdrawn:
            yield f"price {version.wanted.subject}", Seen(version.wanted)
    for version in prices.in_force(found, at):
        yield f"price {version.wanted.name}", Seen(version.wanted)


def _billing() -> Iterator[tuple[str, Seen]]:
    if (terms := invoices.terms()) != invoices.TermsFacts():
        yield f"billing {TERMS}", Seen(TermsWanted(**vars(terms)))
    for one in schedules.schedules():
        names = ScheduleWanted.__dataclass_fields__
        yield (
            f"export {one.name}",
            Seen(ScheduleWanted(**{name: getattr(one, name) for name in names})),
        )


def _taken(digests: set[str], at: datetime) -> dict[str, str]:
    """Whose secrets these are or were: revoked keys too, rotated ones while they are valid."""
    same = Q(digest__in=digests) | Q(previous_digest__in=digests, previous_valid_until__gt=at)
    found = {}
    for key in Key.objects.filter(same).select_related("tenant").order_by("pk"):
        ended = key.state != KeyState.ACTIVE
        owner = f"{key} (revoked)" if ended else str(key)
        found |= dict.fromkeys({key.digest, key.previous_digest} & digests, owner)
    return found
