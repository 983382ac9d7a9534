"""Prices beside what tokens cost: proposed from it, refused below it without a reason."""

import pytest

from control.checks import Refused
from control.metering.prices import facts
from control.metering.prices.actions import save_price
from control.metering.prices.wanted import price_wanted
from control.models import PriceBook
from tests.metering.cost.test_facts import HOUR, LATER, a_rate, replica, serve
from tests.metering.device_time import served

__all__ = ["replica"]  # a fixture

WHO = {"by": "anna", "reason": "a test", "at": LATER}
CLASSES = {"input": "1.8", "cached_input": "0.2", "output": "7"}


@pytest.fixture
def costly(house, replica, tmp_path):
    """A million tokens cost 1.94… of input, a tenth of it cached, four times of it output."""
    a_rate("*", "2.50")
    counts = {"input_tokens": 2_000_000, "cached_input_tokens": 1_000_000}
    serve(house, tmp_path, replica_id=replica.pk, **counts, output_tokens=500_000)
    served(replica, HOUR, 3600, 900)
    return house


def asked(currency="USD", reason="", **classes):
    return price_wanted("gemma", currency, CLASSES | classes, terms={"below_cost_reason": reason})


def test_a_price_is_proposed_at_practised_and_at_wanted_use(costly):
    found = facts.proposal("gemma", LATER, margin_percent=50, step_pico=100_000)
    assert (found.utilisation, found.wanted_use, found.step) == ("0.25", "0.7", "0.1")
    assert found.cost["input"] == "1.944129"  # 6.0268 over 3.1 million weighted tokens
    assert found.practised == {
        "input": "3.9",
        "cached_input": "0.4",
        "output": "15.6",
        "reasoning": "15.6",
    }
    # At 70 % instead of 25 % the same work would have cost 25/70 of it.
    assert found.at_wanted_use == {
        "input": "1.4",
        "cached_input": "0.2",
        "output": "5.6",
        "reasoning": "5.6",
    }
    assert "idle time included" in found.formula


def test_one_below_cost_needs_a_reason_and_says_how_much(costly):
    with pytest.raises(Refused, match="^below_cost_reason: is needed") as refused:
        save_price(asked(), **WHO)
    told = str(refused.value)
    assert "input of every priority at 1.8 costs 1.94413" in told
    assert "output of every priority at 7 costs 7.776517" in told
    assert "cached_input" not in told
    assert not PriceBook.objects.exclude(below_cost_reason="").exists()


@pytest.mark.parametrize(
    ("output", "premise"),
    [
        # Input weighs 1 + 0.1 million: 7 x 1.1 over 6.0268 - 7 x 0.5. Of the cost 0.5 is 8.3 %.
        ("7", "pays for it if an output token takes 3 times the time of one of input; it takes 4"),
        ("1", "cannot pay for this use: it pays 8.3 % of the cost"),
    ],
)
def test_one_below_cost_is_told_what_would_have_to_be_true(costly, output, premise):
    with pytest.raises(Refused, match=f"Output at {output} {premise}"):
        save_price(asked(output=output), **WHO)
    save_price(asked(output=output, reason="to win a customer"), **WHO)
    assert premise in PriceBook.objects.get().cost["premise"]


def test_nothing_is_said_of_a_premise_where_output_has_several_prices(costly):
    cheap = {"priority": "batch", "per_million": CLASSES | {"output": "1"}}
    terms = {"below_cost_reason": "to win a customer"}
    dear = CLASSES | {"output": "70"}
    wanted = price_wanted("gemma", "USD", dear, further=[cheap], terms=terms)
    save_price(wanted, **WHO)
    assert PriceBook.objects.get().cost["premise"] == ""


def test_the_reason_is_kept_and_shows_beside_the_margin(costly):
    save_price(asked(reason="to win a customer"), **WHO)
    book = PriceBook.objects.get()
    assert book.below_cost_reason == "to win a customer"
    assert book.cost["practised"]["output"] == "7.776516"
    assert len(book.cost["below"]) == 2
    found = {row.token_class: row for row in facts.margins(LATER)}
    assert {name: row.is_below for name, row in found.items()} == {
        "input": True,
        "cached_input": False,
        "output": True,
    }
    assert found["output"].below_cost_reason == "to win a customer"
    assert (found["output"].price, found["output"].cost) == ("7", "7.776516")
    assert found["output"].margin_percent == "-11.1"
    assert found["cached_input"].margin_percent == "2.8"


def test_what_pays_for_itself_needs_none(costly):
    save_price(asked(input="2", output="8"), **WHO)
    assert PriceBook.objects.get().cost["below"] == []


def test_what_cannot_be_compared_is_not_refused(costly):
    save_price(asked("EUR"), **WHO)
    assert PriceBook.objects.get().cost is None
    assert {row.note for row in facts.margins(LATER)} == {"its cost is in USD"}
