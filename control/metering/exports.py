"""Usage as CSV, one row per call, oldest first, in constant memory."""

import csv
import io
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from asgiref.sync import sync_to_async
from django.db import connection

from control import checks
from control.metering.rules import amount_text

PAGE_ROWS = 2000
USAGE_COLUMNS = (
    *("call_id", "started_at", "tenant", "project", "key", "route", "model", "version"),
    *("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens", "outcome"),
    *("currency", "amount", "endpoint", "priority", "tokens_source"),
)
# Pages by key rather than a cursor kept open: a slow download holds no transaction, and the
# console can read each page in another thread.
PAGE = """
SELECT event.id, event.started_at, event.call_id, tenant.name, project.name, key.name,
       event.route, coalesce(model.name, ''), coalesce(version.name, ''), event.input_tokens,
       event.cached_input_tokens, event.output_tokens, event.reasoning_tokens, event.outcome,
       event.currency, event.amount_pico, event.endpoint, event.priority, event.tokens_source
  FROM control_usageevent event
  JOIN control_tenant tenant ON tenant.id = event.tenant_id
  JOIN control_project project ON project.id = event.project_id
  JOIN control_key key ON key.id = event.key_id
  LEFT JOIN control_version version ON version.id = event.version_id
  LEFT JOIN control_catalogmodel model ON model.id = version.model_id
 WHERE event.started_at >= %(since)s AND event.started_at < %(until)s
   AND (event.started_at, event.id) > (%(after_at)s, %(after_id)s)
   AND (%(tenant)s = '' OR tenant.name = %(tenant)s)
   AND (%(key)s = '' OR key.name = %(key)s)
   AND (%(model)s = '' OR model.name = %(model)s)
   AND (%(route)s = '' OR event.route = %(route)s)
 ORDER BY event.started_at, event.id LIMIT %(rows)s
"""
MONTH = re.compile(r"(2[0-9]{3})-(0[1-9]|1[0-2])")
FORMULA_BEGINNINGS = ("=", "+", "-", "@", "\t", "\r")

Position = tuple[datetime, int]


@dataclass(frozen=True)
class UsageWanted:
    """Which calls: by the instant they started, and by names; an empty name is every one."""

    since: datetime
    until: datetime
    tenant: str = ""
    key: str = ""
    model: str = ""
    route: str = ""


def month(text: str) -> tuple[datetime, datetime]:
    """`2026-11` → its first instant and that of the month after, in UTC."""
    found = MONTH.fullmatch(text)
    if not found:
        raise checks.refuse("month", f"{text!r} is no month: write year and month, as in 2026-11")
    year, number = found.groups()
    begin = datetime(int(year), int(number), 1, tzinfo=UTC)
    following = (begin.year + 1, 1) if begin.month == 12 else (begin.year, begin.month + 1)
    return begin, datetime(*following, 1, tzinfo=UTC)


def usage_csv(wanted: UsageWanted) -> Iterator[str]:
    """The header, then page after page."""
    yield _csv([USAGE_COLUMNS])
    after = _before_all(wanted)
    while after:
        text, after = _page(wanted, after)
        yield text


async def usage_csv_stream(wanted: UsageWanted) -> AsyncIterator[str]:
    """The same for an asynchronous response, which would gather a plain iterator in memory."""
    yield _csv([USAGE_COLUMNS])
    after = _before_all(wanted)
    while after:
        text, after = await sync_to_async(_page)(wanted, after)
        yield text


def _before_all(wanted: UsageWanted) -> Position:
    return wanted.since, 0


def _page(wanted: UsageWanted, after: Position) -> tuple[str, Position | None]:
    values = {
        "since": wanted.since,
        "until": wanted.until,
        "after_at": after[0],
        "after_id": after[1],
        "tenant": wanted.tenant,
        "key": wanted.key,
        "model": wanted.model,
        "route": wanted.route,
        "rows": PAGE_ROWS,
    }
    with connection.cursor() as cursor:
        cursor.execute(PAGE, values)
        rows = cursor.fetchall()
    is_last = len(rows) < PAGE_ROWS
    return _csv([_cells(row) for row in rows]), None if is_last else (rows[-1][1], rows[-1][0])


def _cells(row: tuple) -> list[str]:
    _, started_at, *names, fresh, cached, output, reasoning, outcome = row[:-5]
    currency, amount_pico, *how = row[-5:]
    call_id, *rest = names
    return [
        harmless(call_id),
        instant_text(started_at),
        *(harmless(name) for name in rest),
        *(str(count) for count in (fresh, cached, output, reasoning)),
        harmless(outcome),
        harmless(currency),
        amount_text(amount_pico),
        *(harmless(word) for word in how),
    ]


def harmless(text: str) -> str:
    """A spreadsheet would run a text that begins like a formula; numbers never pass here."""
    return f"'{text}" if text.startswith(FORMULA_BEGINNINGS) else text


def instant_text(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _csv(rows: list) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
