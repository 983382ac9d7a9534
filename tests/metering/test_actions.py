"""Prices and cost rates: new entries from now on, equal ones change nothing."""

from datetime import UTC, datetime, timedelta

import pytest

from control.checks import Unknown
from control.metering import actions
from control.metering.rules import cost_rate_wanted, price_wanted
from control.models import AuditEntry, CatalogModel, CostRate, Price

pytestmark = pytest.mark.django_db

AT = datetime(2026, 11, 29, 12, tzinfo=UTC)
LATER = AT + timedelta(days=1)
WHO = {"by": "anna", "reason": "a test"}


def a_price(output: str):
    return price_wanted("m", "USD", {"input": "0.10", "output": output})


def test_a_price_is_an_entry_and_an_equal_one_is_none():
    CatalogModel.objects.create(name="m")
    first = actions.save_price(a_price("0.40"), at=AT, **WHO)
    assert actions.save_price(a_price("0.4"), at=LATER, **WHO) == first
    second = actions.save_price(a_price("0.50"), at=LATER, **WHO)
    first.refresh_from_db()
    assert (first.output_pico, second.output_pico) == (400_000, 500_000)
    assert second.valid_from == LATER
    assert [entry.before and entry.before["output_pico"] for entry in AuditEntry.objects.all()] == [
        None,
        400_000,
    ]
    assert actions.save_price(a_price("0.40"), at=LATER, **WHO).pk != first.pk


def test_two_changes_in_one_instant_leave_the_last_in_force():
    CatalogModel.objects.create(name="m")
    for output in ("1", "2", "2"):
        actions.save_price(a_price(output), at=AT, **WHO)
    assert Price.objects.count() == 2
    assert actions.save_price(a_price("2"), at=AT, **WHO).output_pico == 2_000_000


def test_a_price_of_no_model_is_refused():
    with pytest.raises(Unknown, match="no model 'm'"):
        actions.save_price(a_price("1"), at=AT, **WHO)


def test_a_cost_rate_is_an_entry_and_an_equal_one_is_none():
    one = cost_rate_wanted("*", "USD", {"hardware_per_hour": "2.50", "pue": "1.35"})
    same = cost_rate_wanted("*", "USD", {"hardware_per_hour": "2.5", "pue": "1.350"})
    other = cost_rate_wanted("*H100*", "USD", {"hardware_per_hour": "2.50"})
    for wanted, at in ((one, AT), (same, LATER), (other, LATER)):
        actions.save_cost_rate(wanted, at=at, **WHO)
    assert list(CostRate.objects.order_by("pk").values_list("device", flat=True)) == ["*", "*H100*"]
    assert AuditEntry.objects.first().after["hardware_per_hour"] == "2.50"
