"""Credit of budgets as gateways lease it: each statement is whole, whoever dies when."""

from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

import psycopg

from control.metering.periods import period_of
from control.metering.rules import PICO
from control.states import BudgetUnit

CHANNEL_SHORT = "weir_credit_short"  # heard by gateways: one that has some left gives it back

_FIND = (
    "SELECT id, begins_at, ends_at FROM control_account"
    " WHERE budget_id = %(budget)s AND unit = %(unit)s"
    " AND begins_at <= %(at)s AND %(at)s < ends_at"
)
# Whoever stores an event holds its tenant FOR KEY SHARE until the commit, as its foreign key
# does. So under this lock each event is either in the sum, or will find the account.
_LOCK_TENANT = (
    "SELECT tenant.id, tenant.timezone, budget.period, budget.amount, budget.tokens,"
    " budget.currency, budget.project_id, budget.key_id"
    " FROM control_budget budget"
    " LEFT JOIN control_project project ON project.id = budget.project_id"
    " LEFT JOIN control_key key ON key.id = budget.key_id"
    " JOIN control_tenant tenant"
    " ON tenant.id = coalesce(budget.tenant_id, project.tenant_id, key.tenant_id)"
    " WHERE budget.id = %s FOR UPDATE OF tenant"
)
_FIND_CREDIT = (
    "SELECT account.id, account.begins_at, account.ends_at"
    " FROM control_account account JOIN control_tenant tenant ON tenant.id = account.tenant_id"
    " WHERE tenant.id = %s AND account.currency = tenant.credit_currency"
)
_LAST_END = (
    "SELECT max(ends_at) FROM control_account"
    " WHERE budget_id = %s AND unit = %s AND begins_at <= %s"
)
_SPENT = {
    # As metering.prices.rules.tokens_counted does: what is billed, or would be with a price.
    BudgetUnit.TOKENS: (
        "SELECT coalesce(sum(CASE WHEN price_id IS NOT NULL THEN"
        " billed_input + billed_cached_input + billed_output + billed_reasoning"
        " WHEN (output_tokens > 0 OR outcome <> ALL(%(free)s)) AND outcome <> 'rejected'"
        " THEN input_tokens + output_tokens ELSE 0 END), 0)"
    ),
    BudgetUnit.PICO: (
        "SELECT coalesce(sum(amount_pico) FILTER (WHERE currency = %(currency)s), 0)"
    ),
}
_OF_EVENTS = (
    " FROM control_usageevent WHERE tenant_id = %(tenant)s"
    " AND (%(project)s::bigint IS NULL OR project_id = %(project)s)"
    " AND (%(key)s::bigint IS NULL OR key_id = %(key)s)"
    " AND started_at >= %(begins_at)s AND started_at < %(ends_at)s"
)
_OPEN = (
    "INSERT INTO control_account (budget_id, unit, begins_at, ends_at, amount, spent, leased,"
    " granted) VALUES (%s, %s, %s, %s, %s, %s, 0, 0) RETURNING id, begins_at, ends_at"
)
_SHARE = (
    "greatest(%(least)s::numeric, least(%(more)s::numeric,"
    " div(amount - spent - leased, %(shares)s::numeric)))"
)
_LEASE = (
    "WITH lent AS (UPDATE control_account"
    f" SET leased = leased + {_SHARE}, granted = {_SHARE}"
    " WHERE id = %(account)s"
    " AND (%(forced)s OR amount - spent - leased >= %(least)s::numeric)"
    " RETURNING id, granted)"
    " INSERT INTO control_accountlease AS lease (account_id, owner, amount, renewed_at)"
    " SELECT id, %(owner)s, granted, now() FROM lent"
    " ON CONFLICT (account_id, owner) DO UPDATE"
    " SET amount = lease.amount + excluded.amount, renewed_at = excluded.renewed_at"
    " RETURNING (SELECT granted FROM lent)"
)
_STATE = "SELECT amount, spent, leased FROM control_account WHERE id = %s"
# The account is locked before the lease, here and by all others.
_GIVE_BACK = (
    "WITH given AS (UPDATE control_account SET leased = leased - %(units)s::numeric"
    " WHERE id = %(account)s AND EXISTS (SELECT FROM control_accountlease"
    " WHERE account_id = %(account)s AND owner = %(owner)s) RETURNING id)"
    " UPDATE control_accountlease lease SET amount = amount - %(units)s::numeric FROM given"
    " WHERE lease.account_id = given.id AND lease.owner = %(owner)s"
)
_RENEW = "UPDATE control_accountlease SET renewed_at = now() WHERE owner = %s"


class Opened(NamedTuple):
    """The account of one budget, unit and period."""

    id: int
    begins_at: float  # epoch seconds
    ends_at: float


class Wanted(NamedTuple):
    """`least` or nothing, and up to `more` while that is no more than a share of what is free."""

    least: int
    more: int = 0
    shares: int = 1
    forced: bool = False  # it is spent already


class Granted(NamedTuple):
    units: int


class Short(NamedTuple):
    """Too little is free: what of the amount is spent, and what all gateways hold."""

    amount: int
    spent: int
    leased: int


def account_of(
    database: psycopg.Connection, budget_id: int, unit: str, at: datetime, free: list[str]
) -> Opened | None:
    """Opened with the first call of its period; None if there is no such budget any more.

    `free` are outcomes whose calls count nothing before the first token.
    """
    with database.transaction():
        named = {"budget": budget_id, "unit": unit, "at": at}
        row = database.execute(_FIND, named).fetchone()
        if row is None:
            scope = database.execute(_LOCK_TENANT, [budget_id]).fetchone()
            if scope is None:
                return None
            # Another may have opened it while we waited for the lock.
            row = database.execute(_FIND, named).fetchone()
            row = row or _open(database, scope, named, free)
    return row and Opened(row[0], row[1].timestamp(), row[2].timestamp())


def credit_account_of(database: psycopg.Connection, tenant_id: int) -> Opened | None:
    """It is there since the tenant is prepaid, and has no period. None: it is not any more."""
    row = database.execute(_FIND_CREDIT, [tenant_id]).fetchone()
    return row and Opened(row[0], row[1].timestamp(), row[2].timestamp())


def _open(database: psycopg.Connection, scope: tuple, named: dict, free: list[str]) -> tuple | None:
    tenant_id, timezone, period, money, tokens, currency, project_id, key_id = scope
    amount = _units(named["unit"], money, tokens)
    if amount is None:
        return None
    budget_id, unit, at = named["budget"], named["unit"], named["at"]
    begins_at, ends_at = period_of(at, period, timezone)
    [last_end] = database.execute(_LAST_END, [budget_id, unit, at]).fetchone()
    if last_end is not None:  # the tenant has moved: no instant is of two periods
        begins_at = max(begins_at, last_end)
    events = {
        "tenant": tenant_id,
        "project": project_id,
        "key": key_id,
        "currency": currency,
        "free": free,
        "begins_at": begins_at,
        "ends_at": ends_at,
    }
    [spent] = database.execute(_SPENT[BudgetUnit(unit)] + _OF_EVENTS, events).fetchone()
    values = [budget_id, unit, begins_at, ends_at, amount, spent]
    return database.execute(_OPEN, values).fetchone()


def _units(unit: str, money: Decimal | None, tokens: int | None) -> int | None:
    if unit == BudgetUnit.TOKENS:
        return tokens
    return None if money is None else int(money * PICO)


def lease(
    database: psycopg.Connection, account_id: int, owner: str, wanted: Wanted
) -> Granted | Short | None:
    """By one conditional update. None: the account is gone, and its budget with it."""
    asked = {"account": account_id, "owner": owner, **wanted._asdict()}
    row = database.execute(_LEASE, asked).fetchone()
    if row:
        return Granted(int(row[0]))
    state = database.execute(_STATE, [account_id]).fetchone()
    return Short(*map(int, state)) if state else None


def give_back(database: psycopg.Connection, account_id: int, owner: str, units: int) -> None:
    database.execute(_GIVE_BACK, {"account": account_id, "owner": owner, "units": units})


def call_in(database: psycopg.Connection, account_id: int, owner: str) -> None:
    """Ask all other gateways for what they hold of it and do not need."""
    database.execute("SELECT pg_notify(%s, %s)", [CHANNEL_SHORT, f"{account_id} {owner}"])


def renew(database: psycopg.Connection, owner: str) -> None:
    database.execute(_RENEW, [owner])
