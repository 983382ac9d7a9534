"""Events as they are stored: each by its tenant's book, its priority and the volume before it."""

from datetime import UTC, datetime, timedelta

import pytest

from control.metering.ingest import ship
from control.metering.prices.actions import save_price
from control.metering.prices.wanted import price_wanted
from control.models import Account, Budget, PriceVolume, Tenant, UsageEvent
from tests.metering.conftest import AT, a_house, spool

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
ONE = {"input_tokens": 10, "cached_input_tokens": 0, "output_tokens": 10, "delivered_tokens": 10}


def priced(house, *further: dict, output="1", **terms) -> None:
    named = {"input": "0", "output": output}
    wanted = price_wanted(house.version.model.name, "USD", named, further=further, terms=terms)
    save_price(wanted, by="anna", reason="a test", at=LONG_AGO)


def row(output: str, **of) -> dict:
    return {"per_million": {"input": "0", "output": output}, **of}


def amounts() -> dict[str, int]:
    """In millionths."""
    stored = UsageEvent.objects.values_list("call_id", "amount_pico")
    return {call: int(amount) // 10**6 for call, amount in stored}


@pytest.fixture
def house(db):
    return a_house()


def test_calls_of_one_model_cost_by_their_priority_and_tenant(house, tmp_path):
    priced(house, row("0.5", priority="batch"))
    other = a_house("beta")
    priced(house, output="3", tenant="beta")
    spool(
        tmp_path,
        house.close("req_1", priority="interactive", **ONE),
        house.close("req_2", priority="batch", **ONE),
        other.close("req_3", priority="batch", **ONE),
    )
    ship(tmp_path, set(), AT)
    assert amounts() == {"req_1": 10, "req_2": 5, "req_3": 30}
    priorities = UsageEvent.objects.order_by("call_id").values_list("price__priority", flat=True)
    assert list(priorities) == ["", "batch", ""]


def test_each_call_keeps_the_row_that_it_was_priced_by(house, tmp_path):
    priced(house)
    spool(tmp_path, house.close("req_1", **ONE))
    ship(tmp_path, set(), AT)
    before = UsageEvent.objects.get()
    priced(house, output="9")
    after = UsageEvent.objects.get()
    assert (after.price_id, after.amount_pico) == (before.price_id, before.amount_pico)
    assert after.price.output_pico == 10**6


def test_a_tier_holds_from_the_call_after_the_volume_was_reached(house, tmp_path):
    """Each call has 20 tokens: the third begins at 40, and the fifth in the next month."""
    priced(house, row("0.1", from_tokens=40))
    month = (AT + timedelta(days=30)).timestamp()
    closes = [house.close(f"req_{n}", **ONE) for n in range(1, 5)]
    spool(tmp_path / "1", *closes[:2], owner="gw-1")
    spool(tmp_path / "2", *closes[2:], house.close("req_5", started_at=month, **ONE), owner="gw-2")
    ship(tmp_path / "1", set(), AT)
    ship(tmp_path / "2", set(), AT)
    assert amounts() == {"req_1": 10, "req_2": 10, "req_3": 1, "req_4": 1, "req_5": 10}
    assert set(PriceVolume.objects.values_list("tokens", flat=True)) == {80, 20}


def test_volumes_count_no_call_twice(house, tmp_path):
    priced(house, row("0.1", from_tokens=40))
    for folder in ("1", "2"):
        spool(tmp_path / folder, house.close("req_1", **ONE), owner="gw-1")
        ship(tmp_path / folder, set(), AT)
    spool(tmp_path / "3", house.close("req_1", **ONE), house.close("req_2", **ONE), owner="gw-1")
    ship(tmp_path / "3", set(), AT)
    assert amounts() == {"req_1": 10, "req_2": 10}
    assert PriceVolume.objects.get().tokens == 40


def test_what_was_used_before_the_first_tier_came_counts(house, tmp_path):
    priced(house)
    spool(tmp_path / "1", *(house.close(f"req_{n}", **ONE) for n in range(3)))
    ship(tmp_path / "1", set(), AT)
    assert not PriceVolume.objects.exists()
    priced(house, row("0.1", from_tokens=40))
    spool(tmp_path / "2", house.close("req_9", **ONE))
    ship(tmp_path / "2", set(), AT)
    assert amounts()["req_9"] == 1
    assert PriceVolume.objects.get().tokens == 80


def test_the_month_of_a_volume_is_the_tenants(house, tmp_path):
    """The last hour of November in Shanghai is its afternoon in UTC."""
    Tenant.objects.update(timezone="Asia/Shanghai")
    priced(house, row("0.1", from_tokens=1))
    for n, hour in ((1, 15), (2, 16), (3, 16)):
        at = datetime(2026, 11, 30, hour, 30, tzinfo=UTC).timestamp()
        spool(tmp_path / str(n), house.close(f"req_{n}", started_at=at, ended_at=at + 1, **ONE))
        ship(tmp_path / str(n), set(), AT)
    assert amounts() == {"req_1": 10, "req_2": 10, "req_3": 1}


@pytest.mark.parametrize(("policy", "tokens", "micro"), [
    ("generated", 20, 10), ("delivered", 14, 4), ("nothing", 0, 0),
])  # fmt: skip
def test_budgets_in_tokens_and_amounts_follow_the_policy_of_the_book(
    house, tmp_path, policy, tokens, micro
):
    priced(house, interrupted=policy)
    budget = Budget.objects.create(tenant=house.tenant, tokens=1000)
    begins = datetime(2026, 11, 1, tzinfo=UTC)
    Account.objects.create(
        budget=budget,
        unit="tokens",
        amount=1000,
        begins_at=begins,
        ends_at=begins.replace(month=12),
    )
    cut = {"outcome": "client_closed", "delivered_tokens": 4}
    spool(tmp_path, house.close("req_1", **ONE | cut))
    ship(tmp_path, set(), AT)
    event = UsageEvent.objects.get()
    assert (event.billed_input + event.billed_output, amounts()["req_1"]) == (tokens, micro)
    assert Account.objects.get().spent == tokens
