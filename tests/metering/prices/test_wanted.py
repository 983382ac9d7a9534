"""A price book as it is asked for: exact, whole, or refused with its field."""

from datetime import UTC, datetime

import pytest

from control.checks import Refused
from control.metering.prices.wanted import price_wanted

PLAIN = {"input": "0.10", "output": "0.40"}
TIER = {"from_tokens": 1000, "per_million": PLAIN}


@pytest.mark.parametrize(
    ("per_million", "complaint"),
    [
        ({"input": "0.1234567", "output": "1"}, "per_million.input: '0.1234567'"),
        ({"input": "1e3", "output": "1"}, "per_million.input: '1e3'"),
        ({"input": "-1", "output": "1"}, "per_million.input: '-1'"),
        ({"input": "NaN", "output": "1"}, "per_million.input: 'NaN'"),
        ({"input": 0.1, "output": "1"}, "per_million.input: 0.1"),
        ({"input": True, "output": "1"}, "per_million.input: True"),
        ({"input": "1"}, "per_million.output: is missing"),
        ({"input": "1", "output": "1", "image": "1"}, "per_million.image: is unknown"),
    ],
)
def test_a_price_that_cannot_be_kept_exactly_is_refused_with_its_field(per_million, complaint):
    with pytest.raises(Refused, match="^" + complaint):
        price_wanted("m", "USD", per_million)


def test_currencies_are_three_capitals():
    with pytest.raises(Refused, match="^currency"):
        price_wanted("m", "usd", {"input": "1", "output": "1"})


@pytest.mark.parametrize(
    ("further", "terms", "complaint"),
    [
        ([{"priority": "urgent", "per_million": PLAIN}], {}, "rows: 'urgent' is none of"),
        ([{"priority": "batch"}], {}, r"rows\[0\].per_million.input: is missing"),
        ([TIER, TIER], {}, "rows: two are of every other priority from 1000 tokens on"),
        ([{"per_million": PLAIN}], {}, "rows: two are of every other priority from 0"),
        ([TIER | {"priority": "batch"}], {}, "rows: batch has tiers but no price from 0"),
        ([TIER | {"from_tokens": 1.5}], {}, r"rows\[0\].from_tokens: is a whole number"),
        ([TIER | {"from_tokens": -1}], {}, "rows: from_tokens is between"),
        ([TIER | {"tenant": "x"}], {}, r"rows\[0\].tenant: is unknown"),
        ([TIER | {"from_tokens": n} for n in range(1, 66)], {}, "rows: are more than 64"),
        ([], {"interrupted": "half"}, "interrupted: is one of generated, delivered, nothing"),
        ([], {"step": "0"}, "step: is more than 0"),
        ([], {"step": "0.0000001"}, "step: '0.0000001' is no amount"),
        ([], {"valid_from": datetime(2026, 1, 1)}, "valid_from: has no zone"),  # noqa: DTZ001 the point
        ([], {"below_cost_reason": "x" * 1001}, "below_cost_reason: is longer"),
    ],
)
def test_a_book_that_leaves_a_call_without_one_price_is_refused(further, terms, complaint):
    with pytest.raises(Refused, match="^" + complaint):
        price_wanted("m", "USD", PLAIN, further=further, terms=terms)


def test_it_does_not_end_before_it_begins():
    at = datetime(2026, 12, 1, tzinfo=UTC)
    with pytest.raises(Refused, match="^valid_until"):
        price_wanted("m", "USD", PLAIN, terms={"valid_from": at, "valid_until": at})


def test_rows_are_in_one_order_however_they_were_named():
    batch = {"priority": "batch", "per_million": PLAIN}
    one = price_wanted("m", "USD", PLAIN, further=[batch, TIER])
    other = price_wanted("m", "USD", PLAIN, further=[TIER, batch])
    assert one == other
    assert [row.key for row in one.rows] == [("", 0), ("", 1000), ("batch", 0)]
