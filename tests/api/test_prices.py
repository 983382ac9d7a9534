"""Price books over REST: saved, shown, previewed, withdrawn; what is wrong is named."""

import pytest
from rest_framework.test import APIClient

from control.models import AuditEntry, CatalogModel, PriceBook, Tenant

pytestmark = pytest.mark.django_db
PLAIN = {"input": "0.10", "output": "0.40"}
BATCH = {"priority": "batch", "per_million": {"input": "0.05", "output": "0.20"}}
TIER = {"from_tokens": 1_000_000, "per_million": {"input": "0.08", "output": "0.30"}}
GIVEN = {"model": "m.5", "currency": "USD", "per_million": PLAIN, "rows": [BATCH, TIER]}


@pytest.fixture
def api(api) -> APIClient:
    CatalogModel.objects.create(name="m.5")
    Tenant.objects.create(name="acme")
    return api


def test_a_version_is_saved_with_all_its_rows(api):
    made = api.post("/api/prices/?reason=winter", GIVEN, format="json")
    assert made.status_code == 201
    [book] = made.json()
    assert (book["version"], book["state"], book["tenant"]) == (1, "in force", "")
    assert (book["interrupted"], book["step"], book["created_by"]) == ("generated", "0.01", "ann")
    rows = [(row["priority"], row["from_tokens"], row["output"]) for row in book["rows"]]
    assert rows == [("", 0, "0.4"), ("", 1_000_000, "0.3"), ("batch", 0, "0.2")]
    assert api.get("/api/prices/").json() == [book]
    entry = AuditEntry.objects.get(action="save price")
    assert (entry.by, entry.reason) == ("ann", "winter")
    assert entry.after["per_million[batch].output"] == "0.2"


def test_a_tenants_book_comes_and_goes_and_its_history_stays(api):
    for terms in ({}, {"tenant": "acme", "interrupted": "nothing"}):
        assert api.post("/api/prices/", GIVEN | terms, format="json").status_code == 201
    assert [book["tenant"] for book in api.get("/api/prices/").json()] == ["", "acme"]
    gone = api.delete("/api/prices/of/m.5/", {"tenant": "acme"}, format="json")
    assert gone.status_code == 200
    assert [book["tenant"] for book in api.get("/api/prices/").json()] == [""]
    states = [(book["tenant"], book["state"]) for book in api.get("/api/prices/of/m.5/").json()]
    assert sorted(states) == [("", "in force"), ("acme", "ended"), ("acme", "withdrawal")]
    again = api.delete("/api/prices/of/m.5/", {"tenant": "acme"}, format="json")
    assert again.status_code == 400


@pytest.mark.parametrize(
    ("changes", "status", "field"),
    [
        ({"model": "nothing"}, 404, "model"),
        ({"tenant": "nobody"}, 404, "tenant"),
        ({"currency": "usd"}, 400, "currency"),
        ({"per_million": {"input": "1"}}, 400, "per_million.output"),
        ({"per_million": {"input": "1e3", "output": "1"}}, 400, "per_million.input"),
        ({"rows": [BATCH, BATCH]}, 400, "rows"),
        ({"rows": [{"per_million": PLAIN, "size": 1}]}, 400, "rows.0.size"),
        ({"interrupted": "half"}, 400, "interrupted"),
        ({"valid_from": "2020-01-01T00:00:00Z"}, 400, "valid_from"),
        ({"discount": "1"}, 400, "discount"),
    ],
)
def test_a_bad_book_names_its_field(api, changes, status, field):
    answer = api.post("/api/prices/", GIVEN | changes, format="json")
    assert answer.status_code == status
    assert [problem["field"] for problem in answer.json()["error"]["problems"]] == [field]
    assert not PriceBook.objects.exists()


def test_a_preview_saves_nothing(api):
    found = api.post("/api/prices/preview/", GIVEN, format="json")
    assert found.status_code == 200
    assert (found.json()["changes"], found.json()["more"]) == ([], "0")
    assert not PriceBook.objects.exists()


def test_without_device_time_there_is_no_proposal_and_it_says_why(api):
    found = api.get("/api/prices/of/m.5/proposal/?margin_percent=40").json()
    assert (found["practised"], found["margin_percent"]) == (None, 40)
    assert "no device of ours" in found["reason"]
    answer = api.get("/api/prices/of/m.5/proposal/?margin_percent=100")
    assert answer.status_code == 400


def test_margins_name_every_price(api):
    api.post("/api/prices/", GIVEN, format="json")
    rows = api.get("/api/prices/margins/").json()
    assert len(rows) == 9
    assert {row["is_below"] for row in rows} == {False}
    assert all(row["note"] for row in rows)


def test_prices_are_for_operators(api):
    api.force_authenticate(None)
    for url in ("", "margins/", "of/m.5/", "of/m.5/proposal/"):
        assert api.get(f"/api/prices/{url}").status_code == 401
