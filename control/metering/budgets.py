"""Accounts of budgets as usage is stored: spent goes up and the gateway's lease down, at once."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import NamedTuple, Protocol

from django.db import connection, transaction
from django.db.models import Q

from control.metering.prepaid import actions as prepaid
from control.metering.prices.rules import Charge, units_of
from control.metering.rules import PICO
from control.models import Account, AccountLease, Budget
from control.states import BudgetUnit

OWNER_CHARACTERS_MAX = 190
LEASE_ENDS_AFTER = timedelta(hours=24)  # unrenewed: longer than a gateway serves on alone
_ACCOUNTS = (
    "SELECT account.id, account.unit, budget.currency, account.begins_at, account.ends_at,"
    " budget.tenant_id, budget.project_id, budget.key_id"
    " FROM control_account account JOIN control_budget budget ON budget.id = account.budget_id"
    " WHERE account.begins_at <= %s AND account.ends_at > %s AND (budget.tenant_id = ANY(%s)"
    " OR budget.project_id = ANY(%s) OR budget.key_id = ANY(%s))"
    # Credit pays for what began in one of its spans; an account of an older release has none.
    " UNION ALL SELECT account.id, unit, currency, coalesce(span.begins_at, account.begins_at),"
    " coalesce(span.ends_at, account.ends_at), tenant_id, NULL, NULL FROM control_account account"
    " LEFT JOIN control_creditspan span ON span.account_id = account.id"
    " WHERE tenant_id = ANY(%s)"
)
_LOCK = "SELECT FROM control_account WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE"
_TAKE = (
    "UPDATE control_accountlease SET amount = amount - spent.units"
    " FROM unnest(%s::bigint[], %s::numeric[]) spent (id, units)"
    " WHERE owner = %s AND account_id = spent.id RETURNING account_id, spent.units"
)
_SPEND = (
    "UPDATE control_account SET spent = spent + units, leased = leased - taken"
    " FROM unnest(%s::bigint[], %s::numeric[], %s::numeric[]) new (id, units, taken)"
    " WHERE control_account.id = new.id"
)
_END = (
    "DELETE FROM control_accountlease WHERE id = ANY(%s) AND (owner = %s OR renewed_at < %s)"
    " RETURNING account_id, amount"
)


class Spending(NamedTuple):
    """What one stored call costs, and whose it is."""

    tenant_id: int
    project_id: int
    key_id: int
    started_at: datetime
    charged: Charge
    tokens: int
    held_pico: int | None = None  # what its gateway reckoned, which did not know its tier


class Whose(Protocol):
    """A call, or what is known of it."""

    tenant_id: int
    project_id: int
    key_id: int


def accounts(calls: Iterable[Whose], first: datetime, last: datetime) -> list[tuple]:
    """Those that calls of theirs draw on, which started between these instants."""
    tenants = list({call.tenant_id for call in calls})
    projects = list({call.project_id for call in calls})
    keys = list({call.key_id for call in calls})
    with connection.cursor() as cursor:
        cursor.execute(_ACCOUNTS, [last, first, tenants, projects, keys, tenants])
        return cursor.fetchall()


def spend(
    owner: str,
    calls: Sequence[Spending],
    rows: list[tuple] | None = None,
    *,
    at: datetime | None = None,
) -> None:
    """In the transaction that stores the calls, after they are stored: see metering.credit.

    Credit is drawn `at` that instant: calls may have begun in a month that is closed.
    """
    if not calls:
        return
    if rows is None:
        starts = [call.started_at for call in calls]
        rows = accounts(calls, min(starts), max(starts))
    with connection.cursor() as cursor:
        units = _by_account(rows, calls)
        reckoned = _by_account(rows, _as_reckoned(calls)) if _any_dearer(calls) else units
        if not reckoned:
            return
        ids = sorted(units.keys() | reckoned.keys())
        amounts = [Decimal(units.get(id_, 0)) for id_ in ids]
        leased = [Decimal(reckoned.get(id_, 0)) for id_ in ids]
        cursor.execute(_LOCK, [ids])
        cursor.execute(_TAKE, [ids, leased, owner[:OWNER_CHARACTERS_MAX]])
        taken = dict(cursor.fetchall())
        cursor.execute(_SPEND, [ids, amounts, [taken.get(id_, Decimal(0)) for id_ in ids]])
    credit = {row[0]: (row[5], row[2]) for row in rows if row[1] == BudgetUnit.CREDIT}
    if credit:
        prepaid.draw(credit, units, at or max(call.started_at for call in calls))


def _as_reckoned(calls: Sequence[Spending]) -> list[Spending]:
    """What a lease is too large by, for the dearest tier was held, goes back to the account."""
    return [
        call
        if call.held_pico is None
        else call._replace(charged=call.charged._replace(amount_pico=call.held_pico))
        for call in calls
    ]


def _any_dearer(calls: Sequence[Spending]) -> bool:
    return any(call.held_pico not in (None, call.charged.amount_pico) for call in calls)


def _by_account(rows: Iterable[tuple], calls: Sequence[Spending]) -> dict[int, int]:
    accounts = defaultdict(list)
    for row in rows:
        tenant_id, project_id, key_id = row[5:]
        accounts[tenant_id and ("t", tenant_id)].append(row)
        accounts[project_id and ("p", project_id)].append(row)
        accounts[key_id and ("k", key_id)].append(row)
    accounts.pop(None, None)
    units: dict[int, int] = defaultdict(int)
    if not accounts:
        return units
    for call in calls:
        for scope in (("t", call.tenant_id), ("p", call.project_id), ("k", call.key_id)):
            for id_, unit, currency, begins_at, ends_at, *_ in accounts.get(scope, ()):
                if begins_at <= call.started_at < ends_at:
                    units[id_] += units_of(unit, currency, call.charged, call.tokens)
    return {id_: spent for id_, spent in units.items() if spent}


def release(owner: str) -> None:
    """All that a dead gateway held, once all that it has spent is stored."""
    owner = owner[:OWNER_CHARACTERS_MAX]
    _end(Q(owner=owner), owner, None)


def release_ended(at: datetime) -> None:
    """Leases that nobody has renewed for so long: their host is gone, and its spool with it."""
    _end(Q(renewed_at__lt=at - LEASE_ENDS_AFTER), "", at - LEASE_ENDS_AFTER)


def _end(which: Q, owner: str, before: datetime | None) -> None:
    rows = list(AccountLease.objects.filter(which).values_list("pk", "account_id"))
    if not rows:
        return
    accounts = sorted({account_id for _, account_id in rows})
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_LOCK, [accounts])
        cursor.execute(_END, [[pk for pk, _ in rows], owner, before])
        freed: dict[int, Decimal] = defaultdict(Decimal)
        for account_id, amount in cursor.fetchall():
            freed[account_id] += amount
        ids, amounts = list(freed), list(freed.values())
        cursor.execute(_SPEND, [ids, [Decimal(0)] * len(ids), amounts])


def amend(budget: Budget, at: datetime) -> None:
    """The budget's amount is another: so is that of its accounts which have not ended."""
    amounts = {
        BudgetUnit.PICO: None if budget.amount is None else int(budget.amount * PICO),
        BudgetUnit.TOKENS: budget.tokens,
    }
    for unit, amount in amounts.items():
        accounts = Account.objects.filter(budget=budget, unit=unit, ends_at__gt=at)
        if amount is None:
            accounts.delete()
        else:
            accounts.update(amount=amount)
