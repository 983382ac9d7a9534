"""What a call holds of budgets, by the prices of the models that may answer it."""

from datetime import UTC, datetime, timedelta

import pytest

from control.gateway.admission.credit import (
    Buyer,
    Purse,
    Spending,
    Unpriced,
    charged,
    spending_of,
    stake_of,
)
from control.gateway.known.terms import terms_of
from control.metering.prices.rules import PriceFacts, Prices
from control.metering.records import Close
from control.routes.snapshot import (
    BudgetInfo,
    DeploymentInfo,
    Identities,
    RouteInfo,
    Routes,
    RuleInfo,
    Scope,
)
from tests.gateway.place import route, target

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
MONEY = BudgetInfo(1, "pico", "USD", "1 USD a month", "k:9")
BUYER = Buyer(1, "standard")
TOKENS = BudgetInfo(2, "tokens", "", "100 tokens a month", "t:1")


def price(input_pico=2, cached=1, output=10, currency="USD", begins=AT) -> PriceFacts:
    return PriceFacts(1, currency, input_pico, cached, output, begins - timedelta(days=1))


def known(*routes: RouteInfo, **models: str) -> Routes:
    deployments = {name: DeploymentInfo(name, None, model) for name, model in models.items()}
    return Routes(1, 1, {r.name: r for r in routes}, deployments, {"m": (price(),)})


def test_scopes_without_a_budget_spend_nothing():
    plain = route()
    scopes = [Scope("t:1", {"requests_per_minute": 5})]
    assert spending_of(scopes, plain.targets, None, known(plain)) is None


@pytest.mark.parametrize(
    ("ruled", "models"),
    [
        (None, ("m", "o")),
        ((target("b"),), ("n", "o")),
        ((target("b"), target("a", weight=0)), ("n", "o")),
    ],
)
def test_the_models_that_may_answer_the_call_are_reckoned_with(ruled, models):
    """Those of rules for others are not: a dearer one there would hold this tenant's money."""
    rule = RuleInfo(targets=(target("b"),))
    chosen = route("chat", target("a"), rules=(rule,), fallback="c")
    routes = known(chosen, a="m", b="n", c="o")
    budgets = {"k:9": Scope("k:9", {}, (MONEY,)), "t:1": Scope("t:1", {}, (TOKENS,))}
    checks = dict.fromkeys(budgets, ())
    terms = terms_of(Identities(1, 1, {}, budgets), routes, checks, (*budgets,), "chat", ruled)
    assert terms.spending.budgets == (MONEY, TOKENS)
    assert terms.spending.models == models


@pytest.mark.parametrize(
    ("prices", "units"),
    [
        ({"m": (price(),)}, 7 * 2 + 5 * 10),
        ({"m": (price(),), "n": (price(3, 1, 20),)}, 7 * 3 + 5 * 20),
        ({"m": (price(1, 4, 0),)}, 7 * 4),  # cached ones may be the dearer ones
        ({"m": (price(), price(0, 0, 1, begins=AT + timedelta(days=3)))}, 7 * 2 + 5 * 10),
        ({"m": (price(0, 0, 0),)}, 0),
        ({}, Unpriced("m", "USD")),
        ({"m": (price(currency="EUR"),)}, Unpriced("m", "USD")),
        ({"m": (price(begins=AT + timedelta(days=3)),)}, Unpriced("m", "USD")),
    ],
)
def test_a_call_holds_the_most_that_it_may_cost(prices, units):
    spending = Spending((MONEY, TOKENS), tuple(prices) or ("m",), Prices(prices))
    stake = stake_of(spending, BUYER, AT, input_tokens=7, output_tokens=5)
    assert stake == units if isinstance(units, Unpriced) else stake.units == (units, 12)


def test_r03_e_tokens_need_no_price():
    spending = Spending((TOKENS,), ("m",), Prices({}))
    stake = stake_of(spending, BUYER, AT, input_tokens=7, output_tokens=5)
    assert stake.units == (12,)


@pytest.mark.parametrize(
    ("changes", "units"),
    [
        ({}, (5 * 2 + 2 * 1 + 3 * 10, 10)),
        ({"outcome": "client_closed"}, (5 * 2 + 2 * 1 + 3 * 10, 10)),
        ({"outcome": "upstream_error", "output_tokens": 0}, (0, 0)),
        ({"cached_input_tokens": 50}, (7 * 1 + 3 * 10, 10)),
    ],
)
def test_an_end_is_charged_as_it_is_stored(changes, units):
    required = dict.fromkeys(Close.__struct_fields__[: -len(Close.__struct_defaults__)], 0)
    told = {
        **required,
        "outcome": "complete",
        "input_tokens": 7,
        "cached_input_tokens": 2,
        "output_tokens": 3,
        "started_at": AT.timestamp(),
    }
    spending = Spending((MONEY, TOKENS), ("m",), Prices({"m": (price(),)}))
    assert charged(spending, Close(**told | changes), "m") == units


def test_a_purse_holds_what_calls_may_cost_and_no_more():
    purse = Purse()
    purse.granted(100)
    assert purse.take(60, 0.0)
    assert not purse.take(41, 0.0)
    purse.settle(60, 15, 1.0)
    assert (purse.left, purse.held, purse.debt) == (85, 0, 0)


def test_what_was_used_beyond_all_that_was_leased_is_a_debt():
    purse = Purse()
    purse.granted(10)
    purse.take(10, 0.0)
    purse.settle(10, 13, 1.0)
    assert (purse.left, purse.held, purse.debt) == (0, 0, 3)


@pytest.mark.parametrize(
    ("left", "head", "lean", "used_at", "spare"),
    [
        (10, 0, False, 99.5, 0),  # it was used a moment ago
        (10, 0, False, 98.0, 10),
        (10, 8, False, 0.0, 0),  # a call waits
        (10, 0, True, 99.9, 10),
        (10, 8, True, 99.9, 2),
        (10, 12, True, 99.9, 10),  # too little for it
    ],
)
def test_what_no_call_needs_goes_back(left, head, lean, used_at, spare):
    purse = Purse()
    purse.granted(left)
    purse.used_at = used_at
    purse.lean_until = 101.0 if lean else 0.0
    assert purse.spare(100.0, head=head, idle_seconds=1.0) == spare
    assert purse.left == left - spare


def test_what_lies_beside_a_call_goes_back_at_once_from_an_account_that_is_retired():
    purse = Purse()
    purse.granted(10)
    purse.take(4, 100.0)
    assert purse.spare(100.0, head=0, idle_seconds=0.0) == 6


def test_what_lies_beside_a_call_that_runs_stays_however_long_it_takes():
    purse = Purse()
    purse.granted(10)
    purse.take(4, 0.0)
    assert purse.spare(100.0, head=0, idle_seconds=1.0) == 0
    purse.settle(4, 4, 100.0)
    assert purse.spare(100.0, head=0, idle_seconds=1.0) == 6
