"""A change of prices on last month's calls: who would pay what more, before it is saved."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from control.checks import Unknown
from control.metering.ingest import ship
from control.metering.prices.actions import save_price
from control.metering.prices.preview import difference
from control.metering.prices.traffic import _INTERRUPTED, last_month, preview
from control.metering.prices.wanted import price_wanted
from control.models import Price, UsageEvent
from tests.metering.conftest import AT, a_house, spool

NEXT = datetime(2026, 12, 3, tzinfo=UTC)
WHO = {"by": "anna", "reason": "a test", "at": datetime(2026, 1, 1, tzinfo=UTC)}
ONE = {"input_tokens": 10, "cached_input_tokens": 0, "output_tokens": 10, "delivered_tokens": 10}


def wanted(output="1", *further: dict, **terms):
    named = {"input": "0", "output": output}
    return price_wanted("gemma", "USD", named, further=further, terms=terms)


def row(output: str, **of) -> dict:
    return {"per_million": {"input": "0", "output": output}, **of}


def used(folder, *closes) -> None:
    spool(folder, *closes)
    ship(folder, set(), AT)


def more(found) -> dict[str, str]:
    return {change.tenant: change.more for change in found.changes}


@pytest.fixture
def houses(db, tmp_path):
    """Last month acme had three calls and beta one, at 1 a million; beta has a book of its own."""
    acme, beta = a_house(), a_house("beta")
    save_price(wanted(), **WHO)
    used(
        tmp_path / "fixture",
        acme.close("req_1", priority="interactive", **ONE),
        acme.close("req_2", priority="batch", **ONE),
        acme.close("req_3", outcome="client_closed", **ONE | {"delivered_tokens": 4}),
        beta.close("req_4", **ONE),
    )
    save_price(wanted("3", tenant="beta"), **WHO)
    return acme, beta


@pytest.mark.parametrize(
    ("asked", "paying"),
    [
        (wanted("1"), {"acme": "0"}),
        (wanted("2"), {"acme": "0.00003"}),
        (wanted("0.5"), {"acme": "-0.000015"}),
        (wanted("1", row("0.1", priority="batch")), {"acme": "-0.000009"}),
        (wanted("1", interrupted="delivered"), {"acme": "-0.000006"}),
        (wanted("1", interrupted="nothing"), {"acme": "-0.00001"}),
        (wanted("4", tenant="beta"), {"beta": "0.00001"}),
        (wanted("1", row("0", from_tokens=1)), {"acme": "0"}),  # all in one hour
        (wanted("5", valid_from=NEXT + timedelta(days=9)), {"acme": "0.00012"}),
    ],
)
def test_it_shows_who_would_pay_what_more(houses, asked, paying):
    found = preview(asked, NEXT)
    assert more(found) == paying
    assert (found.since.month, found.until.month, found.others) == (11, 12, 1)
    assert Price.objects.count() == 2  # nothing was saved


def test_it_agrees_with_what_is_charged_once_it_is_saved(houses, tmp_path):
    acme, _ = houses
    asked = wanted("2", row("0.25", priority="batch"), interrupted="delivered")
    [change] = preview(asked, NEXT).changes
    save_price(asked, **WHO)
    calls = {
        "again_1": {"priority": "interactive"},
        "again_2": {"priority": "batch"},
        "again_3": {"outcome": "client_closed", "delivered_tokens": 4},
    }
    used(tmp_path / "2", *(acme.close(f"req_{name}", **ONE | how) for name, how in calls.items()))
    stored = UsageEvent.objects.filter(call_id__contains="again")
    amount = sum(stored.values_list("amount_pico", flat=True))
    assert change.new == (f"{amount / 10**12:f}".rstrip("0") + " USD",)
    assert change.charged == change.now == ("0.00003 USD",)
    assert change.calls == 3


def test_tiers_are_reached_hour_by_hour(houses, tmp_path):
    acme, _ = houses
    later = (AT + timedelta(hours=1)).timestamp()
    used(tmp_path / "2", acme.close("req_9", started_at=later, ended_at=later, **ONE))
    [change] = preview(wanted("1", row("0", from_tokens=60)), NEXT).changes
    assert (change.now, change.new) == (("0.00004 USD",), ("0.00003 USD",))


def test_without_calls_there_is_nobody_to_show(houses):
    found = preview(wanted("2"), NEXT + timedelta(days=40))
    assert (found.changes, found.more) == ((), "0")


def test_what_is_in_two_currencies_is_not_subtracted(houses):
    asked = price_wanted("gemma", "EUR", {"input": "0", "output": "1"})
    [change] = preview(asked, NEXT).changes
    assert (change.more, change.new) == (None, ("0.00003 EUR",))
    assert difference({}, {"EUR": 3}) == 3


@pytest.mark.parametrize("asked", [price_wanted("x", "USD", {"input": "0", "output": "1"})])
def test_a_preview_of_what_is_not_there_is_refused(houses, asked):
    with pytest.raises(Unknown):
        preview(asked, NEXT)
    with pytest.raises(Unknown):
        preview(wanted(tenant="nobody"), NEXT)


@pytest.mark.parametrize(
    ("at", "since"),
    [
        (datetime(2027, 1, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)),
        (datetime(2028, 3, 31, 5, tzinfo=UTC), datetime(2028, 2, 1, tzinfo=UTC)),
    ],
)
def test_last_month_is_the_whole_one_before(at, since):
    assert last_month(at) == (since, at.replace(day=1, hour=0))


MORE = """
INSERT INTO control_usageevent ({names}) SELECT {cells} FROM control_usageevent event
 CROSS JOIN generate_series(1, {count}) number WHERE event.call_id = %s
"""


def test_interrupted_calls_are_found_without_reading_the_month(houses):
    """Of twenty thousand calls one in a thousand was interrupted."""
    names = [field.column for field in UsageEvent._meta.fields if field.name != "id"]
    cells = [f"event.{name}" if name != "call_id" else "'req_x' || number" for name in names]
    named = {"versions": [houses[0].version.pk], "since": AT - timedelta(days=19), "until": NEXT}
    with connection.cursor() as cursor:
        made = MORE.format(names=", ".join(names), cells=", ".join(cells), count=20_000)
        cursor.execute(made, ["req_1"])
        cursor.execute("ANALYZE control_usageevent")
        cursor.execute(f"EXPLAIN {_INTERRUPTED.format(hour='NULL::timestamptz')}", named)
        plan = "\n".join(line for [line] in cursor.fetchall())
    assert "version_id_started_at_idx" in plan
    assert "Seq Scan" not in plan
