"""Closed calls become usage events, priced and posted: once each, whatever is sent how often."""

import hashlib
import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import attrgetter

import msgspec
from django.db import DataError, IntegrityError, connection, transaction

from control.metering import ledger, rollups
from control.metering.budgets import Spending
from control.metering.months import month_of
from control.metering.rules import (
    Charge,
    PriceFacts,
    Tokens,
    charge,
    clamp,
    is_free,
    price_in_force,
    tokens_counted,
)
from control.metering.spool import Close
from control.models import AuditEntry, Price
from control.models.audit import record
from control.states import Outcome

BY = "ingest"
KIND = "final"
AS_TOLD = (
    *("tenant_id", "call_id", "project_id", "key_id", "route", "version_id", "replica_id"),
    *("endpoint", "stream", "priority", "attempts", "outcome", "status", "finish_reason"),
    "tokens_source",
)
COLUMNS = (  # in the order of `_row`
    *AS_TOLD,
    *("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens"),
    *("delivered_tokens", "kind", "corrects", "month", "batch"),
    *("started_at", "first_token_at", "ended_at"),
    *("billed_input", "billed_cached_input", "billed_output", "billed_reasoning"),
    *("amount_pico", "currency", "price_id", "content_hash"),
)
ARRIVALS = "pg_temp.weir_arrivals"
COLUMN_LIST = ", ".join(COLUMNS)
# Kept by the session, emptied by each transaction: the catalogue is not written twice a second.
CREATE_ARRIVALS = (
    "CREATE TEMP TABLE IF NOT EXISTS weir_arrivals ON COMMIT DELETE ROWS AS"
    f" SELECT {COLUMN_LIST} FROM control_usageevent WITH NO DATA"
)
# Sums and locks in one statement with the rows: a doubled call adds to none of them.
INSERT = (
    "WITH payers AS (SELECT id FROM control_tenant WHERE id IN"
    f" (SELECT tenant_id FROM {ARRIVALS}) ORDER BY id FOR KEY SHARE),"  # see metering.credit
    f" new AS (INSERT INTO control_usageevent ({COLUMN_LIST}, ingested_at)"
    f" SELECT {COLUMN_LIST}, %s FROM {ARRIVALS}"
    " WHERE (SELECT count(*) FROM payers) >= 0 ORDER BY ended_at"
    " ON CONFLICT (call_id, tenant_id, kind, month) DO NOTHING RETURNING *),"
    f" grown AS ({rollups.grown_by('new')})"
    " SELECT tenant_id, call_id, kind, key_id, currency, amount_pico, ended_at, project_id,"
    " started_at, outcome, input_tokens, output_tokens FROM new"
)
MAKE_MONTHS = (
    "SELECT weir_make_usage_month(month) FROM"
    f" (SELECT DISTINCT month FROM {ARRIVALS} ORDER BY month) needed"
)
CONFLICTS = (
    "SELECT new.tenant_id, new.call_id, new.content_hash, old.content_hash"
    f" FROM {ARRIVALS} new JOIN control_usageevent old USING (call_id, tenant_id, kind, month)"
    " WHERE new.content_hash <> old.content_hash"
)
USE_KEYS = (  # locked in key order, so that two shippers never wait for each other
    "WITH used AS (SELECT * FROM unnest(%s::bigint[], %s::timestamptz[]) used (id, at)),"
    " held AS (SELECT id FROM control_key JOIN used USING (id)"
    # To the minute is enough to know by: a busy key's row is not written with each batch.
    " WHERE last_used_at IS NULL OR last_used_at <= used.at - interval '1 minute'"
    " ORDER BY id FOR NO KEY UPDATE OF control_key)"
    " UPDATE control_key SET last_used_at = greatest(last_used_at, used.at)"
    " FROM used JOIN held USING (id) WHERE control_key.id = used.id"
)

log = logging.getLogger(__name__)
_as_told = attrgetter(*AS_TOLD)


@dataclass
class Stored:
    """Events that are new, as budgets see them, and the ends of calls that no table would take."""

    calls: list[Spending] = field(default_factory=list)
    refused: list[tuple[Close, str]] = field(default_factory=list)

    @property
    def events(self) -> int:
        return len(self.calls)


def store(closes: Sequence[Close], at: datetime) -> Stored:
    """Store all that can be stored; call it inside the transaction of the batch."""
    if not closes:
        return Stored()
    try:
        with transaction.atomic():
            return Stored(_store(closes, at))
    except (IntegrityError, DataError, ValueError, OverflowError) as error:
        # One that cannot be stored must not hold up the others: halve until it stands alone.
        if len(closes) == 1:
            return Stored(refused=[(closes[0], str(error).strip())])
    middle = len(closes) // 2
    one, other = store(closes[:middle], at), store(closes[middle:], at)
    return Stored(one.calls + other.calls, one.refused + other.refused)


def _store(closes: Sequence[Close], at: datetime) -> list[Spending]:
    prices = _prices({close.version_id for close in closes if close.version_id is not None})
    rows = [_row(close, prices) for close in closes]
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # or unknown ids show at the commit only
        cursor.execute(CREATE_ARRIVALS)
        cursor.execute(f"DELETE FROM {ARRIVALS}")
        with (
            connection.wrap_database_errors,
            cursor.copy(f"COPY {ARRIVALS} ({COLUMN_LIST}) FROM STDIN") as copy,
        ):
            for row in rows:
                copy.write_row(row)
        cursor.execute(MAKE_MONTHS)
        cursor.execute(INSERT, [at])
        stored = cursor.fetchall()
        cursor.execute(CONFLICTS)
        conflicts = cursor.fetchall()
        _use_keys(cursor, stored)
    ledger.post(
        [
            ledger.usage_transfer((tenant_id, call_id, kind), currency, int(amount), ended_at)
            for tenant_id, call_id, kind, _, currency, amount, ended_at, *_ in stored
            if amount
        ]
    )
    for tenant_id, call_id, new, old in conflicts:
        alarm(
            "refuse usage",
            f"tenant {tenant_id} call {call_id}",
            "the same call came with another content; the first one stands",
            {"stored": old, "came": new},
            at,
        )
    return [_spending(row) for row in stored]


def _spending(row: tuple) -> Spending:
    tenant_id, _, _, key_id, currency, amount, _, project_id, started_at, outcome, *counts = row
    tokens = Tokens(input=counts[0], cached_input=0, output=counts[1])
    charged = Charge(int(amount), currency, None, "as stored")
    counted = tokens_counted(outcome, tokens)
    return Spending(tenant_id, project_id, key_id, started_at, charged, counted)


def _use_keys(cursor, stored: list[tuple]) -> None:
    used: dict[int, datetime] = {}
    for _, _, _, key_id, _, _, ended_at, *_ in stored:
        used[key_id] = max(ended_at, used.get(key_id, ended_at))
    if used:
        cursor.execute(USE_KEYS, [list(used), list(used.values())])


def _prices(version_ids: set[int]) -> dict[int, list[PriceFacts]]:
    prices = defaultdict(list)
    fields = ("id", "currency", "input_pico", "cached_input_pico", "output_pico", "valid_from")
    rows = Price.objects.filter(model__versions__in=version_ids)
    for version_id, *values in rows.values_list("model__versions", *fields):
        prices[version_id].append(PriceFacts(*values))
    return prices


def _row(close: Close, prices: dict[int, list[PriceFacts]]) -> tuple:
    told = Tokens(
        close.input_tokens,
        close.cached_input_tokens,
        close.output_tokens,
        close.reasoning_tokens,
        close.delivered_tokens,
    )
    tokens = clamp(told)
    if tokens != told:
        log.warning("call %s told impossible token counts %s; clamped", close.call_id, told)
    started_at = instant(close.started_at)
    charged = charge(
        close.outcome, tokens, price_in_force(prices.get(close.version_id, ()), started_at)
    )
    return (
        *_as_told(close),
        *tokens,
        *(KIND, "", month_of(close.call_id), 0),
        started_at,
        None if close.first_token_at is None else instant(close.first_token_at),
        instant(close.ended_at),
        *_billed(close.outcome, tokens, charged),
        charged.amount_pico,
        charged.currency,
        charged.price_id,
        content_hash(close),
    )


def _billed(outcome: str, tokens: Tokens, charged: Charge) -> tuple[int, int, int, int]:
    if charged.price_id is None or is_free(outcome, tokens):
        return 0, 0, 0, 0
    fresh, spoken = tokens.input - tokens.cached_input, tokens.output - tokens.reasoning
    return fresh, tokens.cached_input, spoken, tokens.reasoning


def content_hash(close: Close) -> str:
    """What makes two reports of a call the same. When a lost call ended is only our guess."""
    if close.outcome == Outcome.LOST:
        close = msgspec.structs.replace(close, ended_at=close.started_at)
    if close.trace or close.flags or close.tries or close.cached_source:
        # An older release does not know them, and may store what a newer one has written.
        close = msgspec.structs.replace(close, trace=None, flags=(), tries=(), cached_source="")
    return hashlib.sha256(msgspec.json.encode(close)).hexdigest()


def instant(epoch_seconds: float) -> datetime:
    return datetime.fromtimestamp(epoch_seconds, UTC)


def alarm(action: str, subject: str, reason: str, after: dict, at: datetime) -> None:
    """For a person to look at, once: shipping again after a crash does not ring it again."""
    log.error("%s: %s: %s", action, subject, reason)
    if not AuditEntry.objects.filter(action=action, subject=subject, after=after).exists():
        record(action, subject, by=BY, reason=reason, at=at, change=(None, after))
