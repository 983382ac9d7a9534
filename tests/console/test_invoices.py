"""The pages of months, invoices and exports: what they show, and what their buttons do."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from control.metering.invoices import actions
from control.models import BillingPeriod, BillingTerms, GoodwillCredit, Invoice
from control.states import PeriodState
from tests.metering.conftest import a_house
from tests.metering.invoices.months import store

BEGIN = datetime(2026, 1, 5, tzinfo=UTC)


@pytest.fixture
def house(db, tmp_path):
    made = a_house()
    made.tenant.timezone = "Asia/Shanghai"
    made.tenant.save()
    from_then = {"currency": "USD", "valid_from": datetime(2025, 1, 1, tzinfo=UTC)}
    prices = {"input_pico": 10**9, "cached_input_pico": 10**8, "output_pico": 4 * 10**9}
    made.version.model.prices.create(**from_then, **prices)
    store(tmp_path, made.close("req_1", started_at=BEGIN.timestamp(), first_token_at=None))
    actions.tick(timezone.now())
    return made


def close(console) -> Invoice:
    answer = console.post("/invoices/acme/2026-01/close/", follow=True)
    assert b"2026-01 of acme is closed: acme-2026-01-01-USD." in answer.content
    return Invoice.objects.get()


def test_a_month_is_looked_at_closed_and_shown(console, house):
    period = BillingPeriod.objects.get(begins_at__lt=BEGIN, ends_at__gt=BEGIN)
    page = console.get("/invoices/").content.decode()
    assert f'href="/invoices/months/{period.pk}/"' in page
    assert 'hx-post="/invoices/acme/2026-01/close/"' in page
    preview = console.get(f"/invoices/months/{period.pk}/").content.decode()
    assert "gemma output tokens, standard" in preview
    assert "not issued" in preview
    invoice = close(console)
    assert invoice.by == "ann"
    page = console.get(f"/invoices/{invoice.number}/").content.decode()
    assert "0.28 <small>USD</small>" in page
    assert invoice.rows_hash in page
    period.refresh_from_db()
    assert period.state == PeriodState.CLOSED


def test_what_cannot_be_closed_is_told(console, house):
    answer = console.post("/invoices/acme/2026-02/close/", follow=True)
    assert b"the one from 2025-12-31 is not closed: close it first" in answer.content
    answer = console.post("/invoices/acme/2019-02/close/", follow=True)
    assert b"has no period of 2019-02" in answer.content
    assert not Invoice.objects.exists()


def test_a_credit_is_given_once_a_form(console, house):
    form = {"tenant": "acme", "amount": "5", "currency": "usd", "reason": "outage", "token": "t1"}
    for _ in range(2):
        assert console.post("/invoices/credit/", form).status_code == 302
    assert GoodwillCredit.objects.get().by == "ann"
    answer = console.post("/invoices/credit/", form | {"amount": "0.001", "token": "t2"})
    assert b"more than the 2 decimals of USD" in answer.content


def test_who_invoices_is_saved(console, house):
    console.post("/invoices/terms/", {"issuer": "Example Ltd", "close_after_hours": "72"})
    terms = BillingTerms.objects.get()
    assert (terms.issuer, terms.provider, terms.close_after_hours) == ("Example Ltd",) * 2 + (72,)


@pytest.mark.parametrize(
    ("address", "name", "begins"),
    [
        ("/exports/file/?what=usage&month=2026-01", "weir-usage-2026-01.csv", b"call_id,"),
        (
            "/exports/file/?what=focus&month=2026-01&tenant=acme&version=1.2&format=csv",
            "weir-focus-1.2-2026-01-acme.csv",
            b"BilledCost,",
        ),
        (
            "/exports/file/?what=focus&month=2026-01&format=parquet",
            "weir-focus-1.4-2026-01.parquet",
            b"PAR1",
        ),
        ("/exports/file/?what=focus-schema&format=csv", "weir-focus-1.4-schema.json", b"{"),
    ],
)
@pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume")
def test_files_are_downloaded(console, house, address, name, begins):
    answer = console.get(address)
    assert answer["Content-Disposition"] == f'attachment; filename="{name}"'
    assert b"".join(answer).startswith(begins)


@pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume")
def test_the_lines_of_an_invoice_are_a_file(console, house):
    invoice = close(console)
    text = b"".join(console.get(f"/invoices/{invoice.number}/lines.csv")).decode()
    assert len(text.splitlines()) == 1 + invoice.lines.count()
    assert "acme-2026-01-01-USD,acme,2026-01,1,Usage,,default,gemma.cached_input.standard" in text


def test_what_no_file_can_be_of_is_told(console, house):
    assert b"Enter a valid value" in console.get("/exports/file/?what=usage&month=x").content
    answer = console.get("/exports/file/?what=usage", follow=True)
    assert b"is no month" in answer.content


def test_the_pages_ask_no_more_for_more_months(console, house, django_assert_max_num_queries):
    period = BillingPeriod.objects.order_by("begins_at").last()
    with django_assert_max_num_queries(40) as few:
        console.get("/invoices/")
    for number in range(20):
        begins = period.ends_at + timedelta(days=31 * number)
        BillingPeriod.objects.create(
            tenant=house.tenant,
            begins_at=begins,
            ends_at=begins + timedelta(days=31),
            timezone="UTC",
            state=PeriodState.OPEN,
        )
    with django_assert_max_num_queries(len(few.captured_queries)):
        console.get("/invoices/")
    assert re.search("2026-01", console.get("/invoices/").content.decode())
