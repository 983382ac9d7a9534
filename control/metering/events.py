"""Closed calls become usage events, priced, summed and posted: once each, whatever comes again."""

import hashlib
import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import attrgetter

import msgspec
from django.db import DataError, IntegrityError, connection, transaction

from control.metering import ledger, partitions, rollups
from control.metering.budgets import Spending
from control.metering.prices.pricing import Pricing
from control.metering.prices.rules import tokens_counted
from control.metering.rows import COLUMNS, Made, Maker, Priced, copied
from control.metering.rules import Tokens, clamp, could_be
from control.metering.spool import Close
from control.models import AuditEntry
from control.models.audit import record
from control.states import Outcome

BY = "ingest"
COLUMN_LIST = ", ".join(COLUMNS)
COPY = f"COPY %s ({COLUMN_LIST}) FROM STDIN (FORMAT binary)"
EVENTS, ARRIVALS = "control_usageevent", "pg_temp.weir_arrivals"
# So that an account which is opened meanwhile counts each call once: see metering.credit.
PAYERS = "SELECT FROM control_tenant WHERE id = ANY(%s) ORDER BY id FOR KEY SHARE"
NEW_BATCH = "SELECT nextval('weir_usage_batches')"
# Kept by the connection, emptied by each transaction: the catalogue is not written twice a second.
CREATE_ARRIVALS = (
    "CREATE TEMP TABLE IF NOT EXISTS weir_arrivals ON COMMIT DELETE ROWS AS"
    f" SELECT {COLUMN_LIST} FROM {EVENTS} WITH NO DATA"
)
INSERT = (
    f"INSERT INTO {EVENTS} ({COLUMN_LIST}) SELECT {COLUMN_LIST} FROM {ARRIVALS} ORDER BY ended_at"
    " ON CONFLICT (call_id, tenant_id, kind, month) DO NOTHING"
    " RETURNING tenant_id, call_id, content_hash"
)
CONFLICTS = (
    "SELECT new.tenant_id, new.call_id, new.content_hash, old.content_hash"
    f" FROM {ARRIVALS} new JOIN {EVENTS} old USING (call_id, tenant_id, kind, month)"
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
BROKEN = (IntegrityError, DataError, ValueError, OverflowError)

UNHASHED = Close.__struct_fields__[-len(Close.__struct_defaults__) :]
_AS_DEFAULT = dict(zip(UNHASHED, Close.__struct_defaults__, strict=True))
_unhashed = attrgetter(*UNHASHED)

log = logging.getLogger(__name__)


@dataclass
class Stored:
    """Events that are new, as budgets see them, and the ends of calls that no table would take."""

    calls: list[Spending] = field(default_factory=list)
    refused: list[tuple[Close, str]] = field(default_factory=list)

    @property
    def events(self) -> int:
        return len(self.calls)


def store(closes: Sequence[Close], at: datetime) -> Stored:
    """Store all that can be stored; call it inside the transaction of the batch.

    Nearly always all are new, and go straight into their table. After a crash some may be there.
    """
    if not closes:
        return Stored()
    try:
        with transaction.atomic():
            return Stored(_store_new(closes, at))
    except BROKEN:
        return _store_some(closes, at)


def _store_some(closes: Sequence[Close], at: datetime) -> Stored:
    try:
        with transaction.atomic():
            return Stored(_store_unknown(closes, at))
    except BROKEN as error:
        # One that cannot be stored must not hold up the others: halve until it stands alone.
        if len(closes) == 1:
            return Stored(refused=[(closes[0], str(error).strip())])
    middle = len(closes) // 2
    one, other = _store_some(closes[:middle], at), _store_some(closes[middle:], at)
    return Stored(one.calls + other.calls, one.refused + other.refused)


def _store_new(closes: Sequence[Close], at: datetime) -> list[Spending]:
    with connection.cursor() as cursor:
        batch = _begin(cursor, closes)
        made = _make(cursor, closes, batch, at)
        _copy(cursor, EVENTS, made)
        _account(cursor, made, batch, at)
    return [_spending(one) for one in made]


def _store_unknown(closes: Sequence[Close], at: datetime) -> list[Spending]:
    """Those that are not stored yet; one that is, with another content, rings the alarm."""
    with connection.cursor() as cursor:
        batch = _begin(cursor, closes)
        made = _make(cursor, closes, batch, at)
        cursor.execute(CREATE_ARRIVALS)
        cursor.execute(f"DELETE FROM {ARRIVALS}")
        _copy(cursor, ARRIVALS, made)
        cursor.execute(INSERT)
        new = set(cursor.fetchall())
        cursor.execute(CONFLICTS)
        conflicts = cursor.fetchall()
        stored = _only(new, made)
        _account(cursor, stored, batch, at)
    for tenant_id, call_id, came, old in conflicts:
        alarm(
            "refuse usage",
            f"tenant {tenant_id} call {call_id}",
            "the same call came with another content; the first one stands",
            {"stored": old, "came": came},
            at,
        )
    return [_spending(one) for one in stored]


def _only(new: set[tuple[int, str, str]], made: Sequence[Made]) -> list[Made]:
    """The same call may be twice in one batch."""
    found = []
    for one in made:
        known_by = one.close.tenant_id, one.close.call_id, content_hash(one.close)
        if known_by in new:
            new.discard(known_by)
            found.append(one)
    return found


def _begin(cursor, closes: Sequence[Close]) -> int:
    # What is referred to is checked with the roll-ups: now, or it shows at the commit only.
    cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    cursor.execute(PAYERS, [list({close.tenant_id for close in closes})])
    cursor.execute(NEW_BATCH)
    return cursor.fetchone()[0]


def _make(cursor, closes: Sequence[Close], batch: int, at: datetime) -> list[Made]:
    pricing, maker = Pricing(closes), Maker(batch, at)
    made = [maker.make(_priced(close, pricing), content_hash(close)) for close in closes]
    pricing.close()
    cursor.execute(partitions.MAKE, [sorted(maker.months)])
    return made


def _copy(cursor, table: str, made: Sequence[Made]) -> None:
    with connection.wrap_database_errors, cursor.copy(COPY % table) as copy:
        copy.write(copied(made))


def _account(cursor, made: Sequence[Made], batch: int, at: datetime) -> None:
    """What follows from new events: roll-ups, postings, when keys were used."""
    if not made:
        return
    rollups.grow(cursor, rollups.sums_of(made))
    amounts: dict[tuple[int, str], int] = defaultdict(int)
    used: dict[int, int] = {}
    for one in made:
        close, charged = one.close, one.charged
        if charged.amount_pico:
            amounts[close.tenant_id, charged.currency] += charged.amount_pico
        if one.ended_us > used.get(close.key_id, 0):
            used[close.key_id] = one.ended_us
    ledger.post(
        [ledger.usage_transfer(batch, *who, amount, at) for who, amount in sorted(amounts.items())]
    )
    ends = [instant(ended_us / 10**6) for ended_us in used.values()]
    cursor.execute(USE_KEYS, [list(used), ends])


def _spending(one: Made) -> Spending:
    close, charged = one.close, one.charged
    if charged.price_id is None:
        counted = tokens_counted(close.outcome, one.tokens)
    else:
        counted = sum(charged[4:])
    who = close.tenant_id, close.project_id, close.key_id
    return Spending(*who, one.started_at, charged, counted, one.held_pico)


def _priced(close: Close, pricing: Pricing) -> Priced:
    told = Tokens(
        close.input_tokens,
        close.cached_input_tokens,
        close.output_tokens,
        close.reasoning_tokens,
        close.delivered_tokens,
    )
    tokens = told if could_be(told) else clamp(told)
    if tokens is not told:
        log.warning("call %s told impossible token counts %s; clamped", close.call_id, told)
    started_at = instant(close.started_at)
    charged, held_pico = pricing.price(close, tokens, started_at)
    return close, tokens, charged, held_pico, started_at


def content_hash(close: Close) -> str:
    """What makes two reports of a call the same. When a lost call ended is only our guess."""
    if close.outcome == Outcome.LOST:
        close = msgspec.structs.replace(close, ended_at=close.started_at)
    if _unhashed(close) != Close.__struct_defaults__:
        # An older release does not know them, and may store what a newer one has written.
        close = msgspec.structs.replace(close, **_AS_DEFAULT)
    return hashlib.sha256(msgspec.json.encode(close)).hexdigest()


def instant(epoch_seconds: float) -> datetime:
    return datetime.fromtimestamp(epoch_seconds, UTC)


def alarm(action: str, subject: str, reason: str, after: dict, at: datetime) -> None:
    """For a person to look at, once: shipping again after a crash does not ring it again."""
    log.error("%s: %s: %s", action, subject, reason)
    if not AuditEntry.objects.filter(action=action, subject=subject, after=after).exists():
        record(action, subject, by=BY, reason=reason, at=at, change=(None, after))
