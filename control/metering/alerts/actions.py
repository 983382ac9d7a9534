"""Budgets are watched: accounts opened, thresholds told once, what was told marked as seen."""

from datetime import datetime, timedelta

from django.db import connection, transaction

from control import checks
from control.metering import credit
from control.metering.alerts.rules import THRESHOLDS
from control.metering.rules import ENDED_BY_THE_PLATFORM
from control.models import BudgetAlert
from control.models.audit import record

LATE = timedelta(hours=1)  # events of a period that has ended still come in
ACCOUNTS_MAX = 500  # opened in one tick
_FREE = [str(outcome) for outcome in ENDED_BY_THE_PLATFORM]
_UNOPENED = """
SELECT budget.id, unit.name FROM control_budget budget
 CROSS JOIN LATERAL (VALUES ('pico', budget.amount IS NOT NULL),
                            ('tokens', budget.tokens IS NOT NULL)) unit (name, wanted)
 WHERE unit.wanted AND NOT EXISTS (SELECT FROM control_account account
   WHERE account.budget_id = budget.id AND account.unit = unit.name
     AND account.begins_at <= %(at)s AND account.ends_at > %(at)s)
 ORDER BY budget.id LIMIT %(most)s
"""
# `marked` was spent before the credit that is counted came in; of a budget it is 0. Where nothing
# was given, nothing is used up.
_RAISE = """
INSERT INTO control_budgetalert (account_id, tenant_id, scope, unit, currency, period, mode,
  begins_at, percent, amount, marked, spent, at, seen_by, url, delivery, tries, try_at, answer)
SELECT account.id, tenant.id,
  CASE WHEN key.id IS NOT NULL THEN 'key ' || tenant.name || '/' || key.name
       WHEN project.id IS NOT NULL THEN 'project ' || tenant.name || '/' || project.name
       ELSE 'tenant ' || tenant.name END,
  account.unit,
  CASE account.unit WHEN 'tokens' THEN '' WHEN 'credit' THEN account.currency
       ELSE budget.currency END,
  coalesce(budget.period, ''), coalesce(budget.mode, 'hard'), account.begins_at,
  threshold.percent, account.amount, account.marked, account.spent, %(at)s, '', tenant.alert_url,
  CASE tenant.alert_url WHEN '' THEN 'none' ELSE 'waiting' END, 0, %(at)s, ''
 FROM control_account account
 LEFT JOIN control_budget budget ON budget.id = account.budget_id
 LEFT JOIN control_project project ON project.id = budget.project_id
 LEFT JOIN control_key key ON key.id = budget.key_id
 JOIN control_tenant tenant ON tenant.id
   = coalesce(account.tenant_id, budget.tenant_id, project.tenant_id, key.tenant_id)
 CROSS JOIN unnest(%(thresholds)s::int[]) threshold (percent)
 WHERE account.begins_at <= %(at)s AND account.ends_at > %(late)s
   AND (account.amount <> account.marked OR account.spent > account.marked)
   AND (account.spent - account.marked) * 100
       >= threshold.percent * (account.amount - account.marked)
 ON CONFLICT (account_id, amount, percent) DO NOTHING
"""


def watch(at: datetime) -> int:
    """Tell what is used up since it was last asked; how many alerts are new. Any number of
    processes may do it at once, and be killed in it: a threshold is one row."""
    open_accounts(at)
    with connection.cursor() as cursor:
        named = {"at": at, "late": at - LATE, "thresholds": list(THRESHOLDS)}
        cursor.execute(_RAISE, named)
        return cursor.rowcount


def open_accounts(at: datetime) -> None:
    """Of budgets that no call has opened in this period: those of soft ones are opened here."""
    with connection.cursor() as cursor:
        cursor.execute(_UNOPENED, {"at": at, "most": ACCOUNTS_MAX})
        unopened = cursor.fetchall()
    for budget_id, unit in unopened:
        credit.account_of(connection.connection, budget_id, unit, at, _FREE)


def mark_seen(alert_id: int | None, *, by: str, reason: str, at: datetime) -> int:
    """One alert, or all that nobody has seen."""
    with transaction.atomic():
        rows = BudgetAlert.objects.filter(seen_at=None)
        rows = rows if alert_id is None else rows.filter(pk=alert_id)
        found = list(rows.select_for_update().order_by("pk").values_list("pk", "scope", "percent"))
        if alert_id and not found and not BudgetAlert.objects.filter(pk=alert_id).exists():
            raise checks.unknown("alert", f"there is no alert {alert_id}")
        pks = [pk for pk, *_ in found]
        BudgetAlert.objects.filter(pk__in=pks).update(seen_at=at, seen_by=by[:128])
        for _, scope, percent in found:
            record("see alert", f"{percent} % of {scope}", by=by, reason=reason, at=at)
    return len(found)
