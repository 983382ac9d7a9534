"""Closed calls become usage events, priced, summed and posted: once each, whatever comes again."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter

from django.db import DataError, IntegrityError, connection, transaction

from control.metering import budgets, ledger, partitions, rollups
from control.metering.budgets import Spending
from control.metering.instants import instant, microseconds
from control.metering.prices.pricing import Pricing
from control.metering.prices.rules import tokens_counted
from control.metering.records import Close
from control.metering.rows import COLUMNS, Made, Maker, copied
from control.metering.rules import Tokens, clamp, could_be
from control.models import AuditEntry
from control.models.audit import record

BY = "ingest"
COLUMN_LIST = ", ".join(COLUMNS)
COPY = f"COPY %s ({COLUMN_LIST}) FROM STDIN (FORMAT binary)"
EVENTS, ARRIVALS = "control_usageevent", "pg_temp.weir_arrivals"
# So that an account which is opened meanwhile counts each call once: see metering.credit.
PAYERS = "SELECT FROM control_tenant WHERE id = ANY(%s) ORDER BY id FOR KEY SHARE"
NEW_BATCH = "SELECT nextval('weir_usage_batches')"
# Kept by the connection, emptied by each transaction: the catalogue is not written each second.
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
_counts = attrgetter(*(f"{name}_tokens" for name in Tokens._fields))
BROKEN = (IntegrityError, DataError, ValueError, OverflowError)

log = logging.getLogger(__name__)


@dataclass
class Stored:
    """Events that are new, and the ends of calls that no table would take."""

    made: list[Made] = field(default_factory=list)
    refused: list[tuple[Close, str]] = field(default_factory=list)


Ends = Sequence[tuple[Close, str]]  # each with the hash of what it says


def store(closes: Iterable[Close], hashes: Iterable[str], at: datetime) -> Stored:
    """Store all that can be stored; call it inside the transaction of the batch.

    Nearly always all are new, and go straight into their table. After a crash some may be there.
    """
    ends = list(zip(closes, hashes, strict=True))
    if not ends:
        return Stored()
    try:
        with transaction.atomic():
            return Stored(_store_new(ends, at))
    except BROKEN:
        return _store_some(ends, at)


def _store_some(ends: Ends, at: datetime) -> Stored:
    try:
        with transaction.atomic():
            return Stored(_store_unknown(ends, at))
    except BROKEN as error:
        # One that cannot be stored must not hold up the others: halve until it stands alone.
        if len(ends) == 1:
            return Stored(refused=[(ends[0][0], str(error).strip())])
    middle = len(ends) // 2
    one, other = _store_some(ends[:middle], at), _store_some(ends[middle:], at)
    return Stored(one.made + other.made, one.refused + other.refused)


def _store_new(ends: Ends, at: datetime) -> list[Made]:
    with connection.cursor() as cursor:
        batch, made = _make(cursor, ends, at)
        _copy(cursor, EVENTS, made)
        _account(cursor, made, batch, at)
    return made


def _store_unknown(ends: Ends, at: datetime) -> list[Made]:
    """Those that are not stored yet; one that is, with another content, rings the alarm."""
    with connection.cursor() as cursor:
        batch, made = _make(cursor, ends, at)
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
    return stored


def _only(new: set[tuple[int, str, str]], made: Sequence[Made]) -> list[Made]:
    """The same call may be twice in one batch."""
    found = []
    for one in made:
        known_by = one.close.tenant_id, one.close.call_id, one.content_hash
        if known_by in new:
            new.discard(known_by)
            found.append(one)
    return found


def _make(cursor, ends: Ends, at: datetime) -> tuple[int, list[Made]]:
    """The number of the batch, and the rows of its events."""
    closes = [close for close, _ in ends]
    # What is referred to is checked with the roll-ups: now, or it shows at the commit only.
    cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    cursor.execute(PAYERS, [list({close.tenant_id for close in closes})])
    cursor.execute(NEW_BATCH)
    batch = cursor.fetchone()[0]
    pricing, maker = Pricing(closes), Maker(batch, at)
    tokens = _tokens(closes)
    started = microseconds([close.started_at for close in closes])
    priced = list(map(pricing.price, closes, tokens, started))
    pricing.close()
    made = maker.make(ends, tokens, priced, started)
    cursor.execute(partitions.MAKE, [sorted(maker.months)])
    return batch, made


def _copy(cursor, table: str, made: Sequence[Made]) -> None:
    with connection.wrap_database_errors, cursor.copy(COPY % table) as copy:
        copy.write(copied(made))


def _account(cursor, made: Sequence[Made], batch: int, at: datetime) -> None:
    """What follows from new events: roll-ups, postings, when keys were used."""
    if not made:
        return
    sums = rollups.sums_of(made)
    rollups.grow(cursor, sums)
    amounts = rollups.amounts_of(sums)
    ledger.post(
        [ledger.usage_transfer(batch, *who, amount, at) for who, amount in sorted(amounts.items())]
    )
    used: dict[int, int] = {}
    for one in made:
        if one.ended_us > used.get(one.close.key_id, 0):
            used[one.close.key_id] = one.ended_us
    ends = [instant(ended_us / 10**6) for ended_us in used.values()]
    cursor.execute(USE_KEYS, [list(used), ends])


def spend(owner: str, made: Sequence[Made], at: datetime) -> None:
    """From accounts of budgets: most calls have none, and none is made ready for them."""
    if not made:
        return
    starts = [one.close.started_at for one in made]
    alike = {one.alike: one.close for one in made}.values()
    accounts = budgets.accounts(alike, instant(min(starts)), instant(max(starts)))
    if accounts:
        budgets.spend(owner, [_spending(one) for one in made], accounts, at=at)


def _spending(one: Made) -> Spending:
    close, charged = one.close, one.charged
    if charged.price_id is None:
        counted = tokens_counted(close.outcome, one.tokens)
    else:
        counted = sum(charged.billed)
    who = close.tenant_id, close.project_id, close.key_id
    return Spending(*who, instant(close.started_at), charged, counted, one.held_pico)


def _tokens(closes: Sequence[Close]) -> list[Tokens]:
    told = [Tokens(*counts) for counts in map(_counts, closes)]
    return told if all(map(could_be, told)) else list(map(_clamped, closes, told))


def _clamped(close: Close, told: Tokens) -> Tokens:
    if could_be(told):
        return told
    log.warning("call %s told impossible token counts %s; clamped", close.call_id, told)
    return clamp(told)


def alarm(action: str, subject: str, reason: str, after: dict, at: datetime) -> None:
    """For a person to look at, once: shipping again after a crash does not ring it again."""
    log.error("%s: %s: %s", action, subject, reason)
    if not AuditEntry.objects.filter(action=action, subject=subject, after=after).exists():
        record(action, subject, by=BY, reason=reason, at=at, change=(None, after))
