"""What a call costs, and by which price of which book: tables of exact amounts."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.metering.prices.rules import (
    PriceFacts,
    Prices,
    charge,
    cost_pico,
    dearest,
    end_of,
    most_pico,
    row_of,
    tokens_counted,
)
from control.metering.prices.wanted import row_wanted
from control.metering.rules import Tokens, amount_text, clamp
from control.states import Interrupted, Outcome

START = datetime(2026, 11, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def a_price(
    per_million=("2.00", "0.50", "8.00"), number: int = 1, valid_from=START, **terms
) -> PriceFacts:
    fresh, cached, output = per_million
    row = row_wanted("", {"input": fresh, "cached_input": cached, "output": output})
    picos = (row.input_pico, row.cached_input_pico, row.output_pico)
    return PriceFacts(number, "USD", *picos, valid_from, **terms)


def price_in_force(book, at, priority="standard", volume=0) -> PriceFacts | None:
    return row_of(Prices({"m": tuple(book)}).tiers(1, "m", priority, at), volume)


@pytest.mark.parametrize(
    ("tokens", "amount", "flagged"),
    [
        (Tokens(10_000, 8_000, 500), "0.012", False),
        (Tokens(10_000, 0, 500), "0.024", False),  # details null or absent
        (Tokens(10_000, 12_000, 500), "0.009", True),  # cached above input
        (Tokens(10_000, -5, 500), "0.024", True),
        (Tokens(-1, 0, -1), "0", True),
        (Tokens(10, 0, 5, reasoning=9), "0.00006", True),
    ],
)
def test_m05_cached_tokens_are_charged_once_and_at_their_rate(tokens, amount, flagged):
    counted = clamp(tokens)
    assert amount_text(charge("complete", counted, a_price()).amount_pico) == amount
    assert (counted != tokens) is flagged


def test_m05_without_a_cached_price_the_input_price_holds():
    assert row_wanted("", {"input": "2", "output": "8"}).cached_input_pico == 2_000_000


def test_m06_ten_thousand_tiny_calls_sum_to_the_last_digit():
    price = a_price(("0", "0", "123"))
    one = charge("complete", Tokens(0, 0, 1), price).amount_pico
    assert amount_text(one) == "0.000123"
    assert amount_text(sum(one for _ in range(10_000))) == "1.23"


def test_the_price_in_force_is_the_newest_begun_when_the_call_started():
    prices = [
        a_price(number=n, valid_from=START + timedelta(days=d))
        for n, d in ((1, 0), (2, 10), (3, 20), (4, 20))
    ]
    found = [price_in_force(prices, START + timedelta(days=d)) for d in (-1, 0, 10, 15, 20)]
    assert [price and price.id for price in found] == [None, 1, 2, 2, 4]


@pytest.mark.parametrize(
    ("outcome", "tokens", "amount"),
    [
        ("complete", Tokens(100, 0, 50), "0.0006"),
        ("client_closed", Tokens(100, 0, 12, delivered=9), "0.000296"),  # generated, not delivered
        ("client_closed", Tokens(100, 0, 0), "0.0002"),  # the engine took the input
        ("slow_client", Tokens(100, 0, 30, delivered=1), "0.00044"),
        ("truncated", Tokens(100, 0, 12), "0.000296"),
        ("lost", Tokens(100, 0, 12), "0.000296"),
        ("lost", Tokens(100, 0, 0), "0"),
        ("upstream_error", Tokens(100, 0, 0), "0"),
        ("deadline", Tokens(100, 0, 0), "0"),
        ("complete", Tokens(100, 0, 0), "0.0002"),
    ],
)
def test_an_interrupted_call_costs_its_input_and_what_was_generated(outcome, tokens, amount):
    assert amount_text(charge(outcome, tokens, a_price()).amount_pico) == amount


def test_r03_a_model_without_a_price_says_so():
    free = charge("complete", Tokens(100, 0, 50), None)
    assert (free.amount_pico, free.price_id, free.currency) == (0, None, "")
    assert "no price" in free.reason


def test_what_an_engine_refused_costs_nothing_and_says_why():
    charged = charge("rejected", Tokens(100, 0, 0), a_price())
    assert (charged.amount_pico, charged.reason) == (0, "the engine refused the call")
    assert tokens_counted("rejected", Tokens(100, 0, 0)) == 0


INTERRUPTED = Tokens(100, 20, 12, reasoning=5, delivered=7)
UNSEEN = Tokens(100, 20, 12, reasoning=5)
BEFORE_THE_FIRST = Tokens(100, 20, 0)
ALL, SENT, NONE = (80, 20, 7, 5), (80, 20, 2, 5), (0, 0, 0, 0)


@pytest.mark.parametrize(
    ("policy", "outcome", "tokens", "billed"),
    [
        ("generated", "client_closed", INTERRUPTED, ALL),
        ("generated", "truncated", INTERRUPTED, ALL),
        ("generated", "client_closed", BEFORE_THE_FIRST, (80, 20, 0, 0)),
        ("generated", "deadline", BEFORE_THE_FIRST, NONE),
        ("delivered", "client_closed", INTERRUPTED, SENT),
        ("delivered", "drained", INTERRUPTED, SENT),
        ("delivered", "client_closed", INTERRUPTED._replace(delivered=3), (80, 20, 0, 3)),
        ("delivered", "lost", UNSEEN, NONE),  # what reached the caller is not known
        ("delivered", "client_closed", BEFORE_THE_FIRST, NONE),
        ("nothing", "client_closed", INTERRUPTED, NONE),
        ("nothing", "slow_client", INTERRUPTED, NONE),
        *((policy, "complete", INTERRUPTED, ALL) for policy in Interrupted),
        *((policy, "rejected", INTERRUPTED, NONE) for policy in Interrupted),
    ],
)
def test_an_interrupted_call_costs_what_its_book_declares(policy, outcome, tokens, billed):
    price = a_price(interrupted=policy)
    charged = charge(outcome, tokens, price)
    assert charged.billed == billed
    assert charged.amount_pico == cost_pico(charged.billed, price)
    assert charged.reason


@given(
    outcome=st.sampled_from(list(Outcome)),
    policy=st.sampled_from(list(Interrupted)),
    counts=st.tuples(*[st.integers(-5, 10**9)] * 5),
)
def test_charge_budgets_and_holds_agree_on_what_is_billed(outcome, policy, counts):
    """No class is negative, no token counts twice, and no hold is less than what is charged."""
    tokens = clamp(Tokens(*counts))
    price = a_price(interrupted=policy, reasoning_pico=9_000_000)
    charged = charge(outcome, tokens, price)
    assert min(charged.billed) >= 0
    assert sum(charged.billed) == tokens_counted(outcome, tokens, price)
    assert sum(charged.billed) <= tokens.input + tokens.output
    assert charged.amount_pico <= most_pico((price,), tokens.input, tokens.output)


@pytest.mark.parametrize(("reasoning", "amount"), [(None, 12 * 8), (1_000_000, 7 * 8 + 5), (0, 56)])
def test_reasoning_costs_as_output_unless_it_has_its_own_price(reasoning, amount):
    price = a_price(("0", "0", "8"), reasoning_pico=reasoning)
    assert charge("complete", Tokens(1, 0, 12, 5), price).amount_pico == amount * 10**6


BATCH = {"priority": "batch", "book": 7}
BOOK = (
    a_price(("2", "2", "8"), 1, book=7),
    a_price(("1", "1", "4"), 2, **BATCH),
    a_price(("1", "1", "3"), 3, **BATCH, tier_from_tokens=1000),
    a_price(("1", "1", "2"), 4, **BATCH, tier_from_tokens=5000),
)


@pytest.mark.parametrize(
    ("priority", "volume", "row"),
    [
        ("interactive", 0, 1),
        ("standard", 10**12, 1),
        ("batch", 0, 2),
        ("batch", 999, 2),
        ("batch", 1000, 3),
        ("batch", 4999, 3),
        ("batch", 5000, 4),
    ],
)
def test_a_row_is_of_the_calls_priority_and_of_the_volume_before_it(priority, volume, row):
    assert price_in_force(BOOK, START, priority, volume).id == row


def test_what_a_call_may_cost_is_reckoned_by_the_dearest_tier_of_its_priority():
    prices = Prices({"m": BOOK})
    tiers = prices.tiers(1, "m", "batch", START)
    assert [row.id for row in tiers] == [2, 3, 4]
    assert most_pico(tiers, 10, 10) == 10 * 10**6 + 10 * 4 * 10**6
    assert dearest(tiers, "complete", Tokens(10, 0, 10)).id == 2
    assert row_of(tiers, 1000).id == 3
    assert most_pico(prices.tiers(1, "m", "interactive", START), 10, 10) == 10**8
    assert prices.tiers(1, "n", "batch", START) == ()


def test_a_hold_covers_reasoning_and_cached_tokens_that_cost_more():
    odd = a_price(("1", "3", "2"), reasoning_pico=5_000_000)
    assert most_pico((odd,), 10, 10) == 10 * 3 * 10**6 + 10 * 5 * 10**6


@pytest.mark.parametrize(
    ("tenant", "day", "row"),
    [
        (1, 0, 1),
        (2, 0, 1),
        (2, 5, 2),  # its own, from then on
        (1, 5, 1),
        (2, 9, 1),  # until it ends: then everyone's
        (1, 10, 3),
        (2, 12, 4),  # its own goes before everyone's, though that began later
        (2, 15, 5),
        (2, 20, 4),  # a version that ended gives way to the one before it
    ],
)
def test_a_tenants_own_book_goes_before_everyones_while_it_holds(tenant, day, row):
    general = (a_price(number=1, book=1), a_price(number=3, book=3, valid_from=START + 10 * DAY))
    own = (
        a_price(number=2, book=2, valid_from=START + 5 * DAY, valid_until=START + 9 * DAY),
        a_price(number=4, book=4, valid_from=START + 11 * DAY),
        a_price(number=5, book=5, valid_from=START + 14 * DAY, valid_until=START + 20 * DAY),
    )
    prices = Prices({"m": general}, {2: {"m": own}})
    [found] = prices.tiers(tenant, "m", "standard", START + day * DAY)
    assert found.id == row


@pytest.mark.parametrize(
    ("begins", "ends", "number", "withdrawn", "end"),
    [
        (0, None, 1, [], None),
        (0, 9, 1, [], 9),
        (0, None, 1, [(5, 2)], 5),
        (0, 3, 1, [(5, 2)], 3),
        (6, None, 3, [(5, 2)], None),  # it came after
        (5, None, 1, [(5, 2)], 5),  # withdrawn in the instant it begins: it never holds
        (5, None, 3, [(5, 2)], None),
    ],
)
def test_a_version_ends_with_a_withdrawal_that_came_after_it(begins, ends, number, withdrawn, end):
    def at(day: int | None) -> datetime | None:
        return None if day is None else START + day * DAY

    gone = [(at(day), version) for day, version in withdrawn]
    assert end_of(at(begins), at(ends), number, gone) == at(end)
