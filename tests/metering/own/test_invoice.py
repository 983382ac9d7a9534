"""What a tenant reads of a closed month is what its invoice bills: by model, by key, by day."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone

from control.metering.invoices import corrections, facts
from control.metering.own.facts import COUNTS
from control.metering.prices.actions import save_price
from control.metering.prices.wanted import price_wanted
from control.metering.rules import Tokens, amount_text
from control.models import CatalogModel, Charge, Invoice, Key, Tenant, Version
from control.states import ChargeCategory
from control.tenancy.members.actions import add_member
from tests.metering.conftest import AT, House, a_house
from tests.metering.invoices.months import DECEMBER_3, JANUARY_3, close, store
from tests.metering.own.test_facts import get

WHO = {"by": "ada", "reason": "a test"}
LONG_AGO = datetime(2026, 9, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
PER_MILLION = {"input": "1", "cached_input": "0.25", "output": "4", "reasoning": "5"}


def a_tenant(zone: str, interrupted: str) -> House:
    house = a_house()
    for name in ("gemma", "qwen"):
        catalogued, _ = CatalogModel.objects.get_or_create(name=name)
        Version.objects.get_or_create(
            model=catalogued, name="v1", defaults={"engine": {"kind": "stub"}, "digest": "q"}
        )
        terms = {"interrupted": interrupted}
        save_price(price_wanted(name, "USD", PER_MILLION, terms=terms), at=LONG_AGO, **WHO)
    Tenant.objects.filter(pk=house.tenant.pk).update(timezone=zone)
    house.tenant.refresh_from_db()
    return house


def calls(house: House, zone: str) -> list:
    """Of two keys and two models; at both edges of November, and an interrupted one."""
    begins, ends = (datetime(2026, month, 1, tzinfo=ZoneInfo(zone)) for month in (11, 12))
    other_key = Key.objects.create(
        tenant=house.tenant, project=house.project, name="app", shown="w", digest="a" * 64
    )
    other = {"version_id": Version.objects.get(model__name="qwen").pk}
    made = [
        (begins - SECOND, {}),  # October's
        (begins, {"reasoning_tokens": 7}),
        (AT, {"key_id": other_key.pk, "input_tokens": 333, "output_tokens": 60}),
        (AT, other | {"outcome": "client_closed", "delivered_tokens": 30, "reasoning_tokens": 10}),
        (AT + timedelta(hours=9), {"cached_input_tokens": 0}),
        (ends - SECOND, other),
        (ends, {}),  # December's
    ]
    return [a_call(house, number, at, more) for number, (at, more) in enumerate(made)]


def a_call(house: House, number: int, at: datetime, more: dict):
    times = {"started_at": at.timestamp(), "ended_at": at.timestamp() + 60, "first_token_at": None}
    return house.close(f"req_{number}", **times, **more)


def correct(call_id: str, at: datetime) -> None:
    corrections.correct_call(("acme", call_id), Tokens(90, 20, 30, 10), at=at, **WHO)


def a_row() -> dict:
    return dict.fromkeys(("calls", "pico", *COUNTS), 0)


def billed(invoice: Invoice, group: str) -> dict[str, dict]:
    """The charges under the lines of an invoice, as a tenant's figures have them."""
    rows: dict[str, dict] = defaultdict(a_row)
    zone = ZoneInfo(invoice.period.timezone)
    for charge in Charge.objects.filter(invoice=invoice, category=ChargeCategory.USAGE):
        day = charge.begins_at.astimezone(zone).date().isoformat()
        row = rows[{"model": charge.model, "key": charge.key_name, "day": day}[group]]
        row["pico"] += int(charge.billed_pico)
        kind = "input" if "input" in charge.token_class else "output"
        row[f"{kind}_tokens"] += charge.tokens
        if charge.token_class in ("cached_input", "reasoning"):
            row[f"{charge.token_class}_tokens"] += charge.tokens
        if charge.token_class == "input":
            row["calls"] += charge.calls
    return {
        name: row | {"amounts": [{"currency": "USD", "amount": amount_text(row["pico"])}]}
        for name, row in sorted(rows.items())
    }


def without(row: dict, *names: str) -> dict:
    return {name: value for name, value in row.items() if name not in names}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("zone", "interrupted"),
    [
        ("Asia/Shanghai", "generated"),
        ("Asia/Shanghai", "nothing"),
        ("America/Bogota", "generated"),
        ("America/Bogota", "delivered"),
        ("Asia/Kolkata", "delivered"),  # half an hour off: from events
    ],
)
def test_a_tenants_figures_are_those_of_its_invoice(client, tmp_path, zone, interrupted):
    house = a_tenant(zone, interrupted)
    store(tmp_path, *calls(house, zone))
    for call_id in ("req_3", "req_4"):
        correct(call_id, DECEMBER_3)
    close(house.tenant, AT - timedelta(days=25))  # October first
    [invoice] = close(house.tenant, AT)

    # A charge counts the calls that it bills: one that costs nothing is the period's alone.
    apart = ("calls",) if interrupted == "nothing" else ()
    for group in ("model", "key", "day"):
        answer = get(client, house.key.pk, f"?month=2026-11&group_by={group}").json()
        told = {row[group]: without(row, group, *apart) for row in answer["data"]}
        rows = billed(invoice, group).items()
        assert told == {name: without(row, "pico", *apart) for name, row in rows}
    total = answer["total"]
    assert total["calls"] == invoice.period.calls == 5
    assert total["amounts"] == [{"currency": "USD", "amount": amount_text(invoice.exact_pico)}]
    lines = facts.invoice(invoice.number).lines
    assert total["input_tokens"] + total["output_tokens"] == sum(line.tokens or 0 for line in lines)

    add_member("acme", "bob", at=timezone.now(), **WHO)
    client.force_login(get_user_model().objects.get(username="bob"))
    shown = client.get("/own/?month=2026-11").content.decode()
    assert f"exactly {amount_text(invoice.exact_pico)}" in shown


@pytest.mark.django_db
def test_what_came_after_the_close_is_on_the_next_invoice_and_here_in_its_month(client, tmp_path):
    house = a_tenant("Asia/Shanghai", "generated")
    store(tmp_path, a_call(house, 1, AT, {}))
    [november] = close(house.tenant, AT)
    store(tmp_path, a_call(house, 2, AT, {}))
    correct("req_1", DECEMBER_3)
    [december] = close(house.tenant, DECEMBER_3, JANUARY_3)
    both = get(client, house.key.pk, "?month=2026-11").json()["total"]["amounts"]
    assert both == [
        {"currency": "USD", "amount": amount_text(november.exact_pico + december.exact_pico)}
    ]
    add_member("acme", "bob", at=timezone.now(), **WHO)
    client.force_login(get_user_model().objects.get(username="bob"))
    assert b"after its month was closed" in client.get("/own/?month=2026-11").content
