"""Periods of tenants: opened when their time comes, one after another without a gap."""

from datetime import datetime, timedelta

from django.db import connection, transaction
from django.db.models import Q

from control.metering import periods as calendar
from control.metering import watermarks
from control.metering.invoices.charges import NO_MARK, Span
from control.metering.invoices.closing import Backlog
from control.models import (
    BillingPeriod,
    CreditEntry,
    Drift,
    GoodwillCredit,
    SpoolPosition,
    Tenant,
    UsageEvent,
)
from control.states import PeriodState

# After a change of a tenant's zone, what is left of the old month goes with the new one.
SHORTEST = timedelta(days=2)
PERIODS_MAX = 1200  # of one tenant: a hundred years


def open_all(at: datetime) -> None:
    for tenant in Tenant.objects.order_by("pk"):
        open_until(tenant, at)


def open_until(tenant: Tenant, at: datetime) -> None:
    """Make what is missing from the tenant's first call until the period that runs now."""
    last = BillingPeriod.objects.filter(tenant=tenant).order_by("-begins_at").first()
    if last is not None and at < last.ends_at:
        return
    with transaction.atomic():
        Tenant.objects.select_for_update().get(pk=tenant.pk)
        last = BillingPeriod.objects.filter(tenant=tenant).order_by("-begins_at").first()
        begins = last.ends_at if last else _first_begins(tenant)
        for _ in range(PERIODS_MAX):
            if begins is None or at < begins:
                return
            ends = calendar.period_of(begins + SHORTEST, calendar.MONTH, tenant.timezone).ends_at
            BillingPeriod.objects.create(
                tenant=tenant, begins_at=begins, ends_at=ends, timezone=tenant.timezone
            )
            begins = ends


def _first_begins(tenant: Tenant) -> datetime | None:
    """The month of what came first."""
    firsts = [
        UsageEvent.objects.filter(tenant=tenant)
        .order_by("started_at")
        .values_list("started_at", flat=True)
        .first(),
        *(
            model.objects.filter(tenant=tenant).order_by("at").values_list("at", flat=True).first()
            for model in (GoodwillCredit, CreditEntry)
        ),
    ]
    known = [at for at in firsts if at]
    if not known:
        return None
    return calendar.period_of(min(known), calendar.MONTH, tenant.timezone).begins_at


def span_of(period: BillingPeriod) -> Span:
    """What it bills; of one that is not closed, all that is there by now."""
    before = (
        BillingPeriod.objects.filter(tenant_id=period.tenant_id, begins_at__lt=period.begins_at)
        .order_by("-begins_at")
        .first()
    )
    first = BillingPeriod.objects.filter(tenant_id=period.tenant_id).order_by("begins_at").first()
    unmarked = period.events_up_to is None
    is_first_open = before is None or before.state == PeriodState.CLOSED
    return Span(
        tenant_id=period.tenant_id,
        timezone=period.timezone,
        begins_at=period.begins_at,
        ends_at=period.ends_at,
        first_at=first.begins_at,
        events_up_to=NO_MARK if unmarked else period.events_up_to,
        credits_up_to=NO_MARK if unmarked else period.credits_up_to,
        # What comes late goes to the first one that is open, and to that alone.
        events_before=(before.events_up_to if before else 0) if is_first_open else NO_MARK,
        credits_before=(before.credits_up_to if before else 0) if is_first_open else NO_MARK,
    )


def marks(tenant: Tenant) -> tuple[int, int]:
    """(events, credits): what is stored of a tenant up to these ids is there for everyone to see.

    Whoever stores holds the tenant's row until the commit, so nothing is on its way meanwhile.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        Tenant.objects.select_for_update().get(pk=tenant.pk)
        cursor.execute("SELECT last_value FROM weir_usage_ids")
        [events] = cursor.fetchone()
        cursor.execute("SELECT coalesce(max(id), 0) FROM control_goodwillcredit")
        return events, cursor.fetchone()[0]


def backlog(period: BillingPeriod) -> Backlog:
    """What may still be missing of it."""
    earlier = (
        BillingPeriod.objects.filter(tenant_id=period.tenant_id, begins_at__lt=period.begins_at)
        .exclude(state=PeriodState.CLOSED)
        .order_by("begins_at")
        .first()
    )
    if earlier:  # the others are asked when its turn has come
        return Backlog(earlier_open=earlier.begins_at)
    behind = [
        one
        for one in SpoolPosition.objects.order_by("owner")
        if (one.stored_until or one.at - watermarks.BEFORE_OPEN) < period.ends_at
    ]
    return Backlog(
        not_stored=tuple(one.owner for one in behind if not one.open_calls),
        open_calls=sum(one.open_calls for one in behind),
        incidents=tuple(_incidents(period)),
    )


def _incidents(period: BillingPeriod) -> list[str]:
    """Unexplained drift of engines that served the tenant in that hour."""
    found = Drift.objects.filter(
        Q(end_at__gt=period.begins_at),
        begin_at__lt=period.ends_at,
        is_incident=True,
        closed_at=None,
    ).select_related("replica")
    return [
        f"replica {one.replica_id} from {one.begin_at:%Y-%m-%d %H:%M}"
        for one in found.order_by("begin_at", "pk")
        if UsageEvent.objects.filter(
            tenant_id=period.tenant_id,
            replica_id=one.replica_id,
            started_at__gte=max(one.begin_at, period.begins_at) - timedelta(hours=1),
            started_at__lt=min(one.end_at, period.ends_at),
        ).exists()
    ]
