"""A call's priority is priced: what budgets hold, what is stored and what is told agree."""

import pytest

from control.metering.prices.actions import save_price
from control.metering.prices.wanted import price_wanted
from control.models import Route, Tenant, UsageEvent
from tests.gateway.admission.budgets import LONG_AGO, UNIT, Bank, in_thread
from tests.gateway.admission.test_money import engine, figures, given, settled
from tests.gateway.place import chat
from tests.gateway.upstream import Script, chunk

__all__ = ["engine"]  # a fixture

pytestmark = pytest.mark.django_db(transaction=True)
TENTH = UNIT // 10
PER_TOKEN = "100000"  # per million: 0.10 a token
HALF = {"priority": "batch", "per_million": {"input": "0", "output": "50000"}}


def price(*further: dict, **terms) -> None:
    named = {"input": "0", "output": PER_TOKEN}
    wanted = price_wanted("m", "USD", named, further=further, terms=terms)
    save_price(wanted, by="anna", reason="a test", at=LONG_AGO)


def urgent() -> None:
    Tenant.objects.update(priority="interactive")
    Route.objects.update(priority="interactive")


def charged() -> dict[str, int]:
    rows = UsageEvent.objects.values_list("priority", "amount_pico")
    return {priority: int(amount) for priority, amount in rows}


async def test_an_interactive_and_a_batch_call_of_one_model_are_charged_differently(bank: Bank):
    await in_thread(urgent)
    await in_thread(price, HALF)
    budget = await given(bank, "1.00")
    told = {}
    for tier in ("priority", "default", "flex"):
        answer = await bank.post(0, chat(max_tokens=1, service_tier=tier))
        assert answer.status == 200
        told[answer.headers["x-weir-priority"]] = answer.json()["service_tier"]
    assert told == {"interactive": "priority", "standard": "default", "batch": "flex"}
    await settled(bank, budget, 2 * TENTH + TENTH // 2)
    prices = await in_thread(charged)
    assert prices == {"interactive": TENTH, "standard": TENTH, "batch": TENTH // 2}


@pytest.mark.parametrize(("tier", "status"), [("default", 429), ("flex", 200)])
async def test_what_a_call_holds_goes_by_its_priority(bank: Bank, tier, status):
    """Ten tokens may cost 1.00, or half of it as batch."""
    await in_thread(price, HALF)
    await given(bank, "0.50")
    assert (await bank.post(0, chat(max_tokens=10, service_tier=tier))).status == status


async def test_a_tenants_own_book_is_what_its_calls_hold(bank: Bank):
    await in_thread(price)
    await in_thread(price, tenant="acme", below_cost_reason="a large customer")
    dear = {"input": "0", "output": "600000"}
    wanted = price_wanted("m", "USD", dear, terms={"tenant": "acme"})
    await in_thread(save_price, wanted, by="anna", reason="a test", at=LONG_AGO)
    await given(bank, "0.50")
    assert (await bank.post(0, chat(max_tokens=1))).status == 429


async def test_the_dearest_tier_is_held_and_what_it_was_too_much_goes_back(bank: Bank):
    """Each call holds 0.10; from the first token of the month on it costs a tenth of that."""
    free = {"from_tokens": 1, "per_million": {"input": "0", "output": "10000"}}
    await in_thread(price, free)
    budget = await given(bank, "0.30")
    for _ in range(3):
        assert (await bank.post(0, chat(max_tokens=1))).status == 200
        await in_thread(bank.ship)
    await settled(bank, budget, TENTH + 2 * TENTH // 10)
    assert (await bank.post(0, chat(max_tokens=1))).status == 200


@pytest.mark.parametrize(("policy", "spent"), [("generated", 2), ("delivered", 2), ("nothing", 0)])
async def test_a_call_cut_short_leaves_no_more_than_its_book_says(
    bank: Bank, engine, policy, spent
):
    """Its stream breaks off after two tokens; gateway and tables reckon alike."""
    await in_thread(price, interrupted=policy)
    budget = await given(bank, "1.00")
    cut = [chunk(role=True), *(chunk("a", usage=(7, n)) for n in (1, 2))]
    engine.scripts = [Script(b"".join(cut))]
    await bank.post(0, chat(max_tokens=4, stream=True))
    await settled(bank, budget, spent * TENTH)
    assert (await figures(bank, budget))[2] == 0
