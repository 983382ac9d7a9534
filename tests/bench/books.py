"""Storing calls, reading them back, exporting them: what each costs, in a process of its own."""

import contextlib
import json
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client

from control.metering import exports, facts
from control.metering.books.actions import rebuild_hours
from control.metering.books.facts import agreement
from control.metering.ingest import ship
from control.models import UsageHour
from tests.bench import traffic

MONTH = datetime(2026, 10, 1, tzinfo=UTC)
DAYS = 31
PAGE = "/usage/?since=2026-10-01&until=2026-10-31&group=model"
PAGES, WARM = 9, 2
WANTED = exports.UsageWanted(MONTH, MONTH + timedelta(days=DAYS))
SHIP_SECONDS = 0.5  # as a gateway's parent ships
STEADY_SECONDS, STEADY_PER_SECOND = 20, 1000
# By SQL alone: it is what is there that is measured, not how it came there.
FILL = """
INSERT INTO control_usageevent (tenant_id, project_id, key_id, call_id, kind, month, corrects,
    route, version_id, replica_id, endpoint, stream, priority, attempts, outcome, status,
    finish_reason, input_tokens, cached_input_tokens, output_tokens, reasoning_tokens,
    delivered_tokens, billed_input, billed_cached_input, billed_output, billed_reasoning,
    tokens_source, started_at, first_token_at, ended_at, price_id, currency, amount_pico, batch,
    content_hash, ingested_at)
SELECT tenant, project, key,
    'req_' || lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0')
        || '7000a' || lpad(to_hex(number), 15, '0'),
    'final', %(month)s, '', route, version, version, 'chat', true, 'standard', 1,
    CASE WHEN number %% 50 = 0 THEN 'client_closed' ELSE 'complete' END, 200, 'stop',
    100 + number %% 3000, number %% 90, 1 + number %% 700, 0, 1 + number %% 700,
    100 + number %% 3000 - number %% 90, number %% 90, 1 + number %% 700, 0, 'engine',
    at, at + interval '120 ms', at + interval '3 s', price, 'USD',
    (100 + number %% 3000 - number %% 90) * 400000::numeric + number %% 90 * 100000
        + (1 + number %% 700) * 1600000, 0, repeat('0', 64), at + interval '4 s'
  FROM (SELECT number, %(month)s + number * (%(days)s * interval '1 day' / %(events)s) AS at,
               (number * 7919) %% %(people)s + 1 AS who
          FROM generate_series(%(first)s::bigint, %(last)s::bigint - 1) number) call
  JOIN unnest(%(tenants)s::bigint[], %(projects)s::bigint[], %(keys)s::bigint[],
       %(versions)s::bigint[], %(routes)s::text[], %(prices)s::bigint[])
       WITH ORDINALITY AS person (tenant, project, key, version, route, price, who) USING (who)
"""
FILL_ROWS = 500_000


def cpu_seconds(server: psutil.Process) -> float:
    """Of it and of its processes, those that have ended among them."""
    total = sum(server.cpu_times()[:4])
    for process in server.children():
        with contextlib.suppress(psutil.NoSuchProcess):
            total += sum(process.cpu_times()[:2])
    return total


def postgres() -> psutil.Process:
    """The parent of this connection's backend, and of what vacuums and writes meanwhile."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return psutil.Process(cursor.fetchone()[0]).parent()


def ingest(count: int) -> str:
    """A backlog, stored as fast as it goes: CPU time of this process and of PostgreSQL's."""
    who = traffic.people()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = traffic.calls(who, count, time.time() - 3600, 3000)
        traffic.write_spool(folder, "gw", made)
        server = postgres()
        ours, theirs, wall = time.process_time(), cpu_seconds(server), time.monotonic()
        stored = 0
        while shipped := ship(folder, set(), datetime.now(UTC)).events:
            stored += shipped
        found = {
            "events": stored,
            "tenants": traffic.TENANTS,
            "models": traffic.MODELS,
            "ours": time.process_time() - ours,
            "theirs": cpu_seconds(server) - theirs,
            "wall": time.monotonic() - wall,
        }
    if stored != count or not all(one.holds for one in agreement()):
        raise AssertionError(f"{stored} of {count} calls were stored")
    return json.dumps(found)


def lag() -> str:
    """Calls end all the time; how old is the oldest of them when the sums have it?"""
    who = traffic.people()
    with tempfile.TemporaryDirectory() as name:
        folder, ends = Path(name), []
        (folder / "gw").mkdir()
        writer = threading.Thread(target=_write, args=(folder / "gw" / "00000001.jsonl", who, ends))
        writer.start()
        known, lags = 0, []
        before = _in_hours()
        while writer.is_alive() or known < len(ends):
            time.sleep(SHIP_SECONDS)
            ship(folder, {"gw"}, datetime.now(UTC))
            seen, now = _in_hours() - before, time.monotonic()
            if seen > known:
                lags.append(now - ends[known])
                known = seen
        writer.join()
        shutil.rmtree(folder / "gw")
    return json.dumps({"worst": max(lags), "per_second": STEADY_PER_SECOND, "calls": known})


def _write(path: Path, who: list[traffic.Who], ends: list[float]) -> None:
    count = STEADY_SECONDS * STEADY_PER_SECOND
    tick = STEADY_PER_SECOND // 20
    made = traffic.calls(who, count, time.time(), STEADY_SECONDS)
    began = time.monotonic()
    with path.open("ab", buffering=0) as file:
        for first in range(0, count, tick):
            lines = traffic.lines_of(made, tick)
            ends.extend([time.monotonic()] * tick)
            file.write(lines)
            time.sleep(max(began + first / STEADY_PER_SECOND - time.monotonic(), 0))


def _in_hours() -> int:
    return sum(UsageHour.objects.values_list("calls", flat=True))


def fill(events: int) -> str:
    """A month of calls, their sums, and an operator who looks at them."""
    people = traffic.people()
    named = {
        "month": MONTH,
        "days": DAYS,
        "events": events,
        "people": len(people),
        **{f"{name}s": [getattr(one, f"{name}_id") for one in people] for name in traffic.NAMED},
        "routes": [one.route for one in people],
    }
    with connection.cursor() as cursor:
        cursor.execute("SELECT weir_make_usage_month(%s)", [MONTH.date()])
        for first in range(0, events, FILL_ROWS):
            last = min(first + FILL_ROWS, events)
            cursor.execute(FILL, named | {"first": first, "last": last})
    for day in range(DAYS):
        rebuild_hours(MONTH + timedelta(days=day), MONTH + timedelta(days=day + 1))
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE control_usageevent")
        cursor.execute("VACUUM ANALYZE control_usagehour")
    get_user_model().objects.create_superuser("ada", password="looks at usage")  # noqa: S106 - of one benchmark
    return str(UsageHour.objects.count())


def page() -> str:
    """Milliseconds from the request to the whole page, each time."""
    client = Client(headers={"host": "127.0.0.1"})
    client.force_login(get_user_model().objects.get(username="ada"))
    taken = []
    for number in range(PAGES + WARM):
        began = time.monotonic()
        shown = client.get(PAGE)
        if number >= WARM:
            taken.append((time.monotonic() - began) * 1000)
        if shown.status_code != 200:
            raise AssertionError(f"the page answered {shown.status_code}")
    return json.dumps({"ms": taken, "calls": facts.events_count(WANTED)})


def export() -> str:
    """The month as CSV, read as fast as it comes."""
    rows, size, began = -1, 0, time.monotonic()  # the first line is the header

    def read() -> None:
        nonlocal rows, size
        for part in exports.usage_csv(WANTED):
            rows += part.count(b"\n")
            size += len(part)

    most = _memory_while(read)
    seconds = time.monotonic() - began
    return json.dumps({"rows": rows, "bytes": size, "seconds": seconds, "pss_mib": most})


def _memory_while(work: Callable[[], None]) -> float:
    """The most that this process held meanwhile, in MiB."""
    ended, most = threading.Event(), [0.0]

    def watch() -> None:
        while not ended.wait(0.2):
            most[0] = max(most[0], psutil.Process().memory_full_info().pss / 2**20)

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        work()
    finally:
        ended.set()
        watching.join()
    return most[0]
