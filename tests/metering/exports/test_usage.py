"""`weir export usage`: one row per call, oldest first, exact amounts, no formulas."""

import csv
import io
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from django.core.management import CommandError, call_command

from control.checks import Refused
from control.metering.exports import parquet
from control.metering.exports import usage as exports
from control.metering.exports.rules import UsageWanted, harmless, month
from control.metering.exports.usage import (
    USAGE_COLUMNS,
    in_thread,
    usage_csv,
    usage_parquet,
)
from control.metering.ingest import ship
from control.metering.spool import SpoolWriter
from control.models import UsageEvent
from tests.metering.conftest import AT, a_house

NOVEMBER = month("2026-11")


def store(directory, *closes) -> None:
    writer = SpoolWriter(directory, "gw-1")
    for close in closes:
        writer.append(close)
    writer.close()
    ship(directory, set(), AT)


def rows(*, wanted: UsageWanted | None = None) -> list[dict]:
    text = b"".join(usage_csv(wanted or UsageWanted(*NOVEMBER))).decode()
    return list(csv.DictReader(io.StringIO(text)))


def test_the_columns_and_a_row(house, tmp_path):
    store(tmp_path, house.close("req_1", reasoning_tokens=5))
    out = io.StringIO()
    call_command("export", "usage", "--month", "2026-11", "--format", "csv", stdout=out)
    batch = UsageEvent.objects.get().batch
    assert out.getvalue() == (
        "call_id,started_at,tenant,project,key,route,model,version,input_tokens,"
        "cached_input_tokens,output_tokens,reasoning_tokens,outcome,currency,amount,"
        "endpoint,priority,tokens_source,kind,delivered_tokens,"
        "billed_input,billed_cached_input,billed_output,billed_reasoning,ended_at,ledger_batch\n"
        "req_1,2026-11-20T12:00:00.000Z,acme,default,ci,chat-small,gemma,v1,100,20,50,5,complete,"
        "USD,0.000285,chat,standard,engine,final,50,80,20,45,5,"
        f"2026-11-20T12:00:01.000Z,{batch}\n"
    )
    assert tuple(out.getvalue().split("\n")[0].split(",")) == USAGE_COLUMNS


def test_oldest_first_over_page_borders_also_at_one_instant(house, tmp_path, monkeypatch):
    monkeypatch.setattr(exports, "PAGE_ROWS", 2)
    seconds = [3, 1, 1, 1, 1, 2]
    store(
        tmp_path,
        *(
            house.close(f"req_{number}", started_at=AT.timestamp() + second)
            for number, second in enumerate(seconds)
        ),
    )
    told = [row["started_at"] for row in rows()]
    assert told == sorted(told)
    assert sorted(row["call_id"] for row in rows()) == [f"req_{n}" for n in range(6)]


def test_a_month_is_half_open_and_in_utc(house, tmp_path):
    since, until = NOVEMBER
    moments = [since - timedelta(milliseconds=1), since, until - timedelta(milliseconds=1), until]
    store(
        tmp_path,
        *(
            house.close(f"req_{number}", started_at=at.timestamp())
            for number, at in enumerate(moments)
        ),
    )
    assert [row["call_id"] for row in rows()] == ["req_1", "req_2"]


def test_m06_amounts_are_exact_and_never_have_an_exponent(house, tmp_path):
    tiny = {"input_tokens": 0, "cached_input_tokens": 0, "output_tokens": 0}
    store(
        tmp_path,
        house.close("req_1", **tiny),
        house.close("req_2", **tiny | {"input_tokens": 1}),
        house.close("req_3", **tiny | {"output_tokens": 10**15}),
    )
    assert [row["amount"] for row in rows()] == ["0", "0.000001", "4000000000"]


def test_calls_without_version_or_price_have_their_row(house, tmp_path):
    store(tmp_path, house.close("req_1", version_id=None))
    [row] = rows()
    assert (row["model"], row["version"], row["currency"], row["amount"]) == ("", "", "", "0")


@pytest.mark.parametrize("beginning", ["=", "+", "-", "@", "\t", "\r", "\n", "＝"])
def test_names_that_begin_like_a_formula_are_made_harmless(beginning):
    assert harmless(f"{beginning}1+1") == f"'{beginning}1+1"
    assert harmless("acme") == "acme"


def test_a_route_that_begins_like_a_formula_is_text_in_the_file(house, tmp_path):
    store(tmp_path, house.close("req_1", route='=HYPERLINK("http://x","y")'))
    assert rows()[0]["route"] == '\'=HYPERLINK("http://x","y")'


def test_filters_by_name(house, tmp_path):
    other = a_house("other")
    store(tmp_path, house.close("req_1"), other.close("req_2"))
    found = rows(wanted=UsageWanted(*NOVEMBER, tenant="other", model="gemma", route="chat-small"))
    assert [row["call_id"] for row in found] == ["req_2"]
    assert rows(wanted=UsageWanted(*NOVEMBER, key="nobody")) == []


@pytest.mark.parametrize(
    "text",
    ["2026-13", "2026-00", "2026-1", "11-2026", "", "2026-11-01", "20２6-11", "1999-12"],
)
def test_a_bad_month_is_refused_with_the_right_form(text):
    with pytest.raises(Refused, match="^month: "):
        month(text)
    with pytest.raises(CommandError, match="^--month: "):
        call_command("export", "usage", "--month", text)


def test_what_has_no_option_is_refused_without_one(db):
    with pytest.raises(CommandError, match=r"^invoice: there is no invoice 'NONE'"):
        call_command("export", "invoice", "NONE")


def test_months_end_where_the_next_begins():
    assert month("2026-12") == (datetime(2026, 12, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))


def weir(*arguments: str, environment: dict[str, str]) -> subprocess.Popen:
    root = Path(__file__).parents[3]
    return subprocess.Popen(
        [sys.executable, "manage.py", *arguments],
        cwd=root,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_whoever_reads_enough_may_go(tmp_path, environment):
    house = a_house()
    store(tmp_path, *(house.close(f"req_{n}", route="r" * 90) for n in range(1500)))
    process = weir("export", "usage", "--month", "2026-11", environment=environment)
    assert process.stdout.readline().startswith("call_id,")
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(timeout=60) == 0
    process.stderr.close()


def test_without_a_database_it_says_so(environment):
    away = {**environment, "WEIR_DATABASE_URL": "postgresql://weir@127.0.0.1:1/weir"}
    process = weir("export", "usage", "--month", "2026-11", environment=away)
    _, complaint = process.communicate(timeout=60)
    assert "the database does not answer: " in complaint
    assert "Start this instance with `weir up`" in complaint
    assert process.returncode == 1


@pytest.mark.django_db(transaction=True)
async def test_the_console_streams_the_same_text(tmp_path, monkeypatch):
    monkeypatch.setattr(exports, "PAGE_ROWS", 1)
    await exports.sync_to_async(fill)(tmp_path)
    parts = [part async for part in in_thread(usage_csv(UsageWanted(*NOVEMBER)))]
    assert len(parts) == 3  # the header, two full pages
    plain = await exports.sync_to_async(lambda: b"".join(usage_csv(UsageWanted(*NOVEMBER))))()
    assert b"".join(parts) == plain


def fill(directory) -> None:
    house = a_house()
    store(directory, house.close("req_1"), house.close("req_2"))
    assert UsageEvent.objects.count() == 2


def test_parquet_holds_the_same_calls_typed(house, tmp_path):
    store(tmp_path, house.close("req_1", route="=1+1"), house.close("req_2", version_id=None))
    table = pq.read_table(io.BytesIO(b"".join(usage_parquet(UsageWanted(*NOVEMBER)))))
    assert table.schema.equals(exports.SCHEMA)
    first, second = table.to_pylist()
    assert (first["route"], first["amount"]) == ("=1+1", Decimal("0.000285"))
    assert first["started_at"] == AT
    assert (second["model"], second["amount"]) == ("", 0)


def test_parquet_is_the_same_however_the_calls_come_in_pages(house, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "GROUP_ROWS", 3)
    store(tmp_path, *(house.close(f"req_{number}") for number in range(7)))
    at_once = b"".join(usage_parquet(UsageWanted(*NOVEMBER)))
    monkeypatch.setattr(exports, "PAGE_ROWS", 2)
    assert b"".join(usage_parquet(UsageWanted(*NOVEMBER))) == at_once
    assert pq.ParquetFile(io.BytesIO(at_once)).num_row_groups == 3
    assert pq.read_table(io.BytesIO(at_once)).num_rows == 7


def test_a_file_of_no_calls_has_its_columns(db):
    assert rows() == []
    table = pq.read_table(io.BytesIO(b"".join(usage_parquet(UsageWanted(*NOVEMBER)))))
    assert (table.num_rows, table.schema.names) == (0, list(USAGE_COLUMNS))
