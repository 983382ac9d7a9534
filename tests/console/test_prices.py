"""Prices in the console: in force, proposed from cost, previewed, saved with a why below cost."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from control.metering.prices.actions import save_price
from control.metering.prices.wanted import price_wanted
from control.models import CatalogModel, PriceBook
from tests.console.conftest import BY

ROWS = {"rows-TOTAL_FORMS": "2", "rows-INITIAL_FORMS": "0"}
GIVEN = ROWS | {
    "currency": "usd",
    "interrupted": "delivered",
    "step": "0.01",
    "rows-0-input": "0.10",
    "rows-0-output": "0.40",
    "rows-0-reasoning": "0.50",
    "rows-1-priority": "batch",
    "rows-1-input": "0.05",
    "rows-1-output": "0.20",
}


@pytest.fixture
def model(db) -> str:
    return CatalogModel.objects.create(name="qwen2.5-7b").name


def test_a_version_is_previewed_and_then_saved(console, model):
    url = f"/prices/of/{model}/"
    shown = console.post(url, GIVEN | {"do": "preview"}).content.decode()
    assert "Save this version" in shown
    assert "Nobody whom it would price made a call" in shown
    assert not PriceBook.objects.exists()
    assert console.post(url, GIVEN | {"do": "save"}).status_code == 302
    book = PriceBook.objects.get()
    assert (book.currency, book.interrupted, book.rows.count()) == ("USD", "delivered", 2)
    listed = console.get("/prices/").content.decode()
    assert model in listed
    assert "interrupted calls: delivered" in listed
    history = console.get(url).content.decode()
    assert "Version 1 for everyone" in history
    assert 'value="0.4"' in history  # the next version starts from it


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"rows-0-input": ""}, "per_million.input: is missing"),
        ({"rows-0-input": "0.1234567"}, "is no amount"),
        ({"rows-1-priority": ""}, "two are of every other priority"),
        ({"tenant": "nobody"}, "there is no tenant"),
        ({"currency": "dollars"}, "at most 3 characters"),
        ({"valid_until": "2020-01-01T00:00"}, "is not after the price begins"),
        ({"step": "0"}, "is more than 0"),
    ],
)
@pytest.mark.parametrize("do", ["preview", "save"])
def test_what_is_wrong_is_said_beside_it(console, model, changes, told, do):
    shown = console.post(f"/prices/of/{model}/", GIVEN | changes | {"do": do})
    if "valid_until" in changes and do == "preview":
        assert shown.status_code == 200  # nothing begins yet
        return
    assert told in shown.content.decode()
    assert not PriceBook.objects.exists()


def test_a_tenants_own_book_is_withdrawn(console, model, fleet):
    fleet(1)
    console.post(f"/prices/of/{model}/", GIVEN | {"do": "save", "tenant": "tenant-1"})
    assert "for tenant-1" in console.get("/prices/").content.decode()
    console.post(f"/prices/of/{model}/withdraw/", {"tenant": "tenant-1"})
    assert "for tenant-1" not in console.get("/prices/").content.decode()
    shown = console.get(f"/prices/of/{model}/").content.decode()
    assert "withdrawn: it holds no more" in shown


def test_pages_without_anything_say_what_to_do(console, db):
    assert "Nothing has a price yet" in console.get("/prices/").content.decode()
    assert "needs a price and a cost" in console.get("/prices/margins/").content.decode()
    assert console.get("/prices/of/nothing/").status_code == 404


def test_more_books_ask_no_more_queries(console, fleet, model):
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as counted:
            assert console.get("/prices/").status_code == 200
        return len(counted)

    named = {"input": "1", "output": "1"}
    save_price(price_wanted(model, "USD", named), **BY)
    console.get("/prices/")
    before = queries()
    for number in range(3):
        fleet(number)
        terms = {"tenant": f"tenant-{number}"}
        save_price(price_wanted(model, "USD", named, terms=terms), **BY)
    assert queries() == before
