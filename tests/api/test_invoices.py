"""Months, invoices, credits, corrections and files over REST and on the command line."""

import csv
import io
from datetime import UTC, datetime

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from control.metering.invoices import actions
from control.models import AuditEntry, UsageEvent
from tests.metering.conftest import a_house
from tests.metering.invoices.months import store

BEGIN = datetime(2026, 1, 5, tzinfo=UTC)
pytestmark = [
    pytest.mark.django_db,
    pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume"),
]


@pytest.fixture
def house(db, tmp_path):
    made = a_house()
    from_then = {"currency": "USD", "valid_from": datetime(2025, 1, 1, tzinfo=UTC)}
    prices = {"input_pico": 10**9, "cached_input_pico": 10**8, "output_pico": 4 * 10**9}
    made.version.model.prices.create(**from_then, **prices)
    store(tmp_path, made.close("req_1", started_at=BEGIN.timestamp(), first_token_at=None))
    actions.tick(timezone.now())
    return made


def test_a_month_is_closed_and_its_invoice_read(api, house):
    [january, *_] = api.get("/api/periods/?tenant=acme").json()[::-1]
    assert (january["month"], january["state"], january["why_not"]) == ("2026-01", "closing", [])
    [invoice] = api.post("/api/periods/acme/2026-01/close/?reason=month+end").json()
    assert (invoice["payable"], invoice["exact"]) == ("0.28", "0.282")
    assert api.get(f"/api/invoices/{invoice['number']}/").json() == invoice
    assert [one["number"] for one in api.get("/api/invoices/").json()] == [invoice["number"]]
    assert AuditEntry.objects.get(action="close period").reason == "month end"


def test_what_cannot_be_is_answered_by_name(api, house):
    later = api.post("/api/periods/acme/2026-02/close/")
    assert later.status_code == 400
    assert "is not closed" in str(later.json())
    assert api.post("/api/periods/acme/2019-13/close/").status_code == 400
    assert api.get("/api/invoices/nothing/").status_code == 404
    assert api.get("/api/exports/secrets/?month=2026-01").status_code == 400
    assert api.get("/api/exports/usage/?month=2026-01&tenant=nobody").status_code == 404


def test_credits_and_corrections(api, house):
    gift = {"tenant": "acme", "amount": "5", "currency": "USD", "token": "t", "reason": "outage"}
    assert api.post("/api/goodwill/", gift, format="json").status_code == 204
    fix = {"tenant": "acme", "call_id": "req_1", "input": 7, "reason": "recount"}
    answer = api.post("/api/corrections/", fix, format="json")
    assert answer.json() == {"kinds": ["adj1", "adj2"]}
    assert UsageEvent.objects.count() == 3


def test_who_invoices(api, house):
    assert api.get("/api/billing/").json()["issuer"] == ""
    body = {"issuer": "Example Ltd", "region_id": "cn-east-1"}
    told = api.put("/api/billing/", body, format="json").json()
    assert (told["provider"], told["region_id"]) == ("Example Ltd", "cn-east-1")


def test_files_are_those_of_the_command(api, house):
    for query, command in (
        ("usage/?month=2026-01&tenant=acme", ("usage", "--month", "2026-01", "--tenant", "acme")),
        ("focus/?month=2026-01&version=1.2", ("focus", "--month=2026-01", "--version=1.2")),
        ("focus-schema/", ("focus-schema",)),
    ):
        out = io.StringIO()
        call_command("export", *command, stdout=out)
        assert b"".join(api.get(f"/api/exports/{query}")).decode() == out.getvalue()


def test_the_command_closes_credits_and_corrects(house):
    def said(*words: str) -> str:
        out = io.StringIO()
        call_command("invoice", *words, stdout=out)
        return out.getvalue()

    assert (
        said("close", "--tenant", "acme", "--month", "2026-01") == "acme-2026-01-01-USD 0.28 USD\n"
    )
    assert "acme-2026-01-01-USD 0.28 USD" in said("list", "--tenant", "acme")
    money = ("--amount", "5", "--currency", "USD", "--token", "t", "--reason", "outage")
    assert said("credit", "--tenant", "acme", *money) == "acme is let off 5 USD\n"
    call = ("--tenant", "acme", "--call", "req_1", "--input", "7", "--reason", "recount")
    assert said("correct", *call) == "adj1 and adj2 are stored\n"
    with pytest.raises(CommandError, match="has no period of 2030-01"):
        said("close", "--tenant", "acme", "--month", "2030-01")


def test_usage_of_a_closed_month_is_the_same_again_and_late_calls_go_with_the_next(house, tmp_path):
    def calls(month: str) -> list[str]:
        out = io.StringIO()
        call_command("export", "usage", "--month", month, "--tenant", "acme", stdout=out)
        return [row["call_id"] for row in csv.DictReader(io.StringIO(out.getvalue()))]

    call_command("invoice", "close", "--tenant", "acme", "--month", "2026-01", stdout=io.StringIO())
    february = datetime(2026, 2, 5, tzinfo=UTC).timestamp()
    late = house.close("req_late", started_at=BEGIN.timestamp(), first_token_at=None)
    store(tmp_path, late, house.close("req_2", started_at=february, first_token_at=None))
    assert calls("2026-01") == ["req_1"]
    assert calls("2026-02") == ["req_late", "req_2"]
    assert calls("2026-03") == []
