"""Calls as files, one row each, oldest first, in constant memory: the database writes the cells."""

from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa
from asgiref.sync import sync_to_async
from django.db import connection, transaction

from control.metering.exports import parquet
from control.metering.exports.rules import UsageWanted, harmless_sql

# Pages by key rather than a cursor kept open: a slow download holds no transaction, and the
# console can read each page in another thread.
PAGE_ROWS = 20_000
# A page is sorted in the server's memory: on its disk that takes as long as all the rest.
SORT_IN_MEMORY = "SET LOCAL work_mem = '32MB'"

TEXT = pa.string()
COUNT = pa.int64()
INSTANT = pa.timestamp("ms", tz="UTC")
AMOUNT = pa.decimal128(38, 12)


class Column(NamedTuple):
    """`sql` is over the tables of `FROM`; of texts only those are made harmless that need be."""

    name: str
    sql: str
    type: pa.DataType = TEXT


def _of_event(name: str, type: pa.DataType = TEXT) -> Column:  # noqa: A002 - as pyarrow names it
    return Column(name, f"event.{name}", type)


COLUMNS = (
    _of_event("call_id"),
    _of_event("started_at", INSTANT),
    Column("tenant", "tenant.name"),
    Column("project", "project.name"),
    Column("key", "key.name"),
    _of_event("route"),
    Column("model", "coalesce(version.model, '')"),
    Column("version", "coalesce(version.name, '')"),
    _of_event("input_tokens", COUNT),
    _of_event("cached_input_tokens", COUNT),
    _of_event("output_tokens", COUNT),
    _of_event("reasoning_tokens", COUNT),
    _of_event("outcome"),
    _of_event("currency"),
    Column("amount", "event.amount_pico", AMOUNT),
    _of_event("endpoint"),
    _of_event("priority"),
    _of_event("tokens_source"),
    _of_event("kind"),
    _of_event("delivered_tokens", COUNT),
    _of_event("billed_input", COUNT),
    _of_event("billed_cached_input", COUNT),
    _of_event("billed_output", COUNT),
    _of_event("billed_reasoning", COUNT),
    _of_event("ended_at", INSTANT),
    Column("ledger_batch", "event.batch", COUNT),
)
USAGE_COLUMNS = tuple(column.name for column in COLUMNS)
SCHEMA = pa.schema([(column.name, column.type) for column in COLUMNS])

# Bounds of rows alone tell the planner nothing: it would read the month for each page.
WHERE = """
 WHERE event.started_at >= %(since)s AND event.started_at < %(until)s
   AND event.id > %(after)s AND event.id <= %(up_to)s
   AND event.started_at >= %(after_at)s
   AND (event.started_at, event.id) > (%(after_at)s, %(after_id)s)
   AND (%(tenant)s = '' OR event.tenant_id IN
        (SELECT id FROM control_tenant WHERE name = %(tenant)s))
   AND (%(key)s = '' OR event.key_id IN (SELECT id FROM control_key WHERE name = %(key)s))
   AND (%(model)s = '' OR event.version_id IN
        (SELECT version.id FROM control_version version JOIN control_catalogmodel model
             ON model.id = version.model_id WHERE model.name = %(model)s))
   AND (%(route)s = '' OR event.route = %(route)s)
"""
LAST_OF_PAGE = f"""
SELECT event.started_at, event.id FROM control_usageevent event {WHERE}
 ORDER BY event.started_at, event.id LIMIT 1 OFFSET %(rows)s
"""
# What is small is made harmless once a name, not once a row.
COPY = """
COPY (
WITH tenant AS MATERIALIZED (SELECT id, {name} AS name FROM control_tenant),
    project AS MATERIALIZED (SELECT id, {name} AS name FROM control_project),
    key AS MATERIALIZED (SELECT id, {name} AS name FROM control_key),
    version AS MATERIALIZED (
        SELECT one.id, {version_name} AS name, {model_name} AS model
          FROM control_version one JOIN control_catalogmodel model ON model.id = one.model_id)
SELECT {columns}
  FROM control_usageevent event
  JOIN tenant ON tenant.id = event.tenant_id
  JOIN project ON project.id = event.project_id
  JOIN key ON key.id = event.key_id
  LEFT JOIN version ON version.id = event.version_id
  {where} AND event.started_at <= %(last_at)s
   AND (event.started_at, event.id) <= (%(last_at)s, %(last_id)s)
 ORDER BY event.started_at, event.id
) TO STDOUT (FORMAT csv)
"""

Position = tuple[datetime, int]


def usage_csv(*wanted: UsageWanted) -> Iterator[bytes]:
    """The header, then page after page."""
    yield _HEADER
    for one in wanted:
        yield from pages(one, IN_CELLS)


async def in_thread(pages: Iterator[bytes]) -> AsyncIterator[bytes]:
    """For an asynchronous response, which would gather a plain iterator in memory."""
    while (page := await sync_to_async(next)(pages, None)) is not None:
        yield page


def usage_parquet(*wanted: UsageWanted) -> Iterator[bytes]:
    """The same calls, typed; names as they are: nothing runs a cell of Parquet."""
    return parquet.from_csv(SCHEMA, (page for one in wanted for page in pages(one, AS_THEY_ARE)))


def pages(wanted: UsageWanted, copy: str) -> Iterator[bytes]:
    after: Position | None = (wanted.since, 0)
    while after:
        page, after = _page(wanted, copy, after)
        if page:
            yield page


def _page(wanted: UsageWanted, copy: str, after: Position) -> tuple[bytes, Position | None]:
    values = {
        "since": wanted.since,
        "until": wanted.until,
        "after_at": after[0],
        "after_id": after[1],
        "tenant": wanted.tenant,
        "key": wanted.key,
        "model": wanted.model,
        "route": wanted.route,
        "after": wanted.after_id,
        "up_to": wanted.up_to_id,
        "rows": PAGE_ROWS - 1,
    }
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(SORT_IN_MEMORY)
        cursor.execute(LAST_OF_PAGE, values)
        last = cursor.fetchone()
        bound = last or (wanted.until, 0)  # the rest is less than a page
        values |= {"last_at": bound[0], "last_id": bound[1]}
        with connection.wrap_database_errors, cursor.copy(copy, values) as rows:
            return b"".join(rows), last


def _copy(*, in_cells: bool) -> str:
    """The statement; for a file that a spreadsheet may open, texts are made harmless."""
    safe = harmless_sql if in_cells else str
    cells = []
    for column in COLUMNS:
        cell = column.sql
        if column.type is INSTANT:
            cell = f"""to_char({cell} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')"""
        elif column.type is AMOUNT:
            cell = f"trim_scale({cell} * 0.000000000001)"
        elif cell.startswith("event.") and column.type is TEXT:
            cell = safe(cell)
        cells.append(cell)
    return COPY.format(
        name=safe("name"),
        version_name=safe("one.name"),
        model_name=safe("model.name"),
        columns=", ".join(cells),
        where=WHERE,
    )


IN_CELLS = _copy(in_cells=True)
AS_THEY_ARE = _copy(in_cells=False)
_HEADER = (",".join(USAGE_COLUMNS) + "\n").encode()
