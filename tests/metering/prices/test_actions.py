"""Versions of price books: never changed, the next valid from an instant, cheap ones with a why."""

from datetime import UTC, datetime, timedelta

import pytest

from control.checks import Refused, Unknown
from control.metering.prices import stored
from control.metering.prices.actions import save_price, withdraw_price
from control.metering.prices.wanted import price_wanted
from control.models import AuditEntry, CatalogModel, Price, PriceBook, SnapshotPart, Tenant
from control.states import Part

pytestmark = pytest.mark.django_db

AT = datetime(2026, 11, 29, 12, tzinfo=UTC)
LATER = AT + timedelta(days=1)
WHO = {"by": "anna", "reason": "a test"}


@pytest.fixture(autouse=True)
def model() -> CatalogModel:
    return CatalogModel.objects.create(name="m")


def a_price(output: str, *further: dict, **terms):
    named = {"input": "0.10", "output": output}
    return price_wanted("m", "USD", named, further=further, terms=terms)


def held(at: datetime, tenant: str = "") -> str | None:
    found = stored.in_force(stored.versions("m", tenant), at)
    return found[0].wanted.rows[0].per_million["output"] if found else None


def test_a_price_is_a_version_and_an_equal_one_is_none():
    first = save_price(a_price("0.40"), at=AT, **WHO)
    assert save_price(a_price("0.4"), at=LATER, **WHO) == first
    second = save_price(a_price("0.50"), at=LATER, **WHO)
    assert (first.number, second.number) == (1, 2)
    assert second.begins == LATER
    assert (held(AT), held(LATER)) == ("0.4", "0.5")
    told = [
        entry.before and entry.before["per_million.output"] for entry in AuditEntry.objects.all()
    ]
    assert told == [None, "0.4"]
    assert save_price(a_price("0.40"), at=LATER, **WHO).number == 3


def test_two_changes_in_one_instant_leave_the_last_in_force():
    for output in ("1", "2", "2"):
        save_price(a_price(output), at=AT, **WHO)
    assert PriceBook.objects.count() == 2
    assert held(AT) == "2"


def test_gateways_hear_of_every_version():
    before = SnapshotPart.objects.get(pk=Part.ROUTES).version
    save_price(a_price("1"), at=AT, **WHO)
    assert SnapshotPart.objects.get(pk=Part.ROUTES).version == before + 1


@pytest.mark.parametrize(
    ("terms", "problem", "kind"),
    [
        ({"tenant": "nobody"}, "tenant: there is no tenant 'nobody'", Unknown),
        ({"valid_from": AT - timedelta(seconds=1)}, "valid_from: .* is past", Refused),
        ({"valid_until": AT}, "valid_until: is not after", Refused),
    ],
)
def test_a_version_that_cannot_hold_is_refused(terms, problem, kind):
    with pytest.raises(kind, match=problem):
        save_price(a_price("1", **terms), at=AT, **WHO)
    assert not Price.objects.exists()


def test_a_price_of_no_model_is_refused():
    with pytest.raises(Unknown, match="no model 'n'"):
        save_price(price_wanted("n", "USD", {"input": "1", "output": "1"}), at=AT, **WHO)


def test_a_version_to_come_holds_from_its_instant_until_it_ends():
    save_price(a_price("1"), at=AT, **WHO)
    week = {"valid_from": LATER, "valid_until": LATER + timedelta(days=7)}
    save_price(a_price("2", **week), at=AT, **WHO)
    assert [held(AT + timedelta(days=day)) for day in (0, 1, 7, 8)] == ["1", "2", "2", "1"]
    assert save_price(a_price("2", **week), at=AT, **WHO).number == 2


def test_a_tenants_own_book_ends_when_it_is_withdrawn():
    Tenant.objects.create(name="acme")
    save_price(a_price("1"), at=AT, **WHO)
    save_price(a_price("0.5", tenant="acme"), at=AT, **WHO)
    assert (held(AT, "acme"), held(AT)) == ("0.5", "1")
    withdraw_price("m", "acme", at=LATER, **WHO)
    assert (held(AT, "acme"), held(LATER, "acme"), held(LATER)) == ("0.5", None, "1")
    save_price(a_price("0.6", tenant="acme"), at=LATER, **WHO)
    assert held(LATER, "acme") == "0.6"
    with pytest.raises(Refused, match="tenant: there is no"):
        withdraw_price("m", "beta", at=LATER, **WHO)


def test_a_price_that_an_older_release_wrote_is_a_version_too(model):
    Price.objects.create(
        model=model,
        currency="USD",
        input_pico=100_000,
        cached_input_pico=100_000,
        output_pico=400_000,
        valid_from=AT,
    )
    assert save_price(a_price("0.40"), at=LATER, **WHO).number == 0
    save_price(a_price("0.50"), at=LATER, **WHO)
    assert (held(AT), held(LATER)) == ("0.4", "0.5")
