"""Charges of a SKU share a line, which is rounded once."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.checks import Refused
from control.metering.invoices import hashes, rules
from control.metering.invoices.rules import ChargeFacts, bills
from control.metering.rules import PICO
from control.states import ChargeCategory

BEGINS, ENDS = datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)
CHARGE = ChargeFacts(
    "CNY",
    BEGINS,
    BEGINS + timedelta(days=1),
    billed_pico=0,
    effective_pico=0,
    project="default",
    model="gemma",
    token_class="input",
    priority="standard",
    unit_price_pico=500_000,
    tokens=0,
)


def pico(text: str) -> int:
    return int(Decimal(text) * PICO)


def test_days_and_keys_of_a_sku_share_a_line_that_is_rounded_once():
    """500 tokens at 0.50 a million are 0.00025: a thousand such are 0.25, not nothing."""
    tiny = replace(CHARGE, billed_pico=pico("0.00025"), effective_pico=pico("0.00025"), tokens=500)
    [bill] = bills([replace(tiny, key=f"k{n}") for n in range(1001)], BEGINS, ENDS)
    line, rounding = bill.lines
    assert (line.exact_pico, line.rounded_pico) == (pico("0.25025"), pico("0.25"))
    assert line.tokens == 500_500
    assert (rounding.category, rounding.exact_pico) == (ChargeCategory.ADJUSTMENT, -pico("0.00025"))
    assert (bill.exact_pico, bill.payable_pico) == (pico("0.25025"), pico("0.25"))


@pytest.mark.parametrize(
    "changes",
    [
        {"project": "other"},
        {"model": "other"},
        {"token_class": "output"},
        {"priority": "batch"},
        {"unit_price_pico": 400_000},
        {"is_correction": True},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_another_sku_project_or_price_is_another_line(changes):
    [bill] = bills([CHARGE, replace(CHARGE, **changes)], BEGINS, ENDS)
    assert len(bill.lines) == 2


def test_a_tally_says_which_charge_of_which_line_each_is():
    tally = rules.Tally()
    other = replace(CHARGE, project="other", currency="USD", billed_pico=1)
    assert [tally.add(one) for one in (CHARGE, other, CHARGE)] == [(1, 1), (2, 1), (1, 2)]
    cny, usd = tally.bills(BEGINS, ENDS)
    assert [(line.number, line.charges) for line in cny.lines] == [(1, 2)]
    assert [(line.number, line.charges) for line in usd.lines] == [(2, 1), (4, 1)]  # 4: rounding


def test_too_many_lines_are_refused_and_not_cut_off(monkeypatch):
    monkeypatch.setattr(rules, "LINES_MAX", 2)
    projects = [replace(CHARGE, project=name) for name in ("a", "b", "a")]
    assert len(bills(projects, BEGINS, ENDS)[0].lines) == 2
    with pytest.raises(Refused, match="more than 2 lines by project and SKU: split the tenant"):
        bills([*projects, CHARGE], BEGINS, ENDS)


def test_each_currency_has_a_bill():
    found = bills([CHARGE, replace(CHARGE, currency="USD")], BEGINS, ENDS)
    assert [bill.currency for bill in found] == ["CNY", "USD"]
    assert bills([], BEGINS, ENDS) == []


amounts = st.integers(-(10**15), 10**15)
charges = st.builds(
    lambda amount, project, price, category: replace(
        CHARGE,
        billed_pico=amount,
        effective_pico=amount,
        project=project,
        unit_price_pico=price,
        category=category,
    ),
    amounts,
    st.sampled_from(["a", "b"]),
    st.sampled_from([1, 2, None]),
    st.sampled_from([ChargeCategory.USAGE, ChargeCategory.CREDIT]),
)


@given(st.lists(charges, max_size=20), st.randoms(use_true_random=False))
def test_exact_and_rounded_lines_both_sum_to_what_is_payable(found, random):
    for bill in bills(found, BEGINS, ENDS):
        assert sum(line.exact_pico for line in bill.lines) == bill.payable_pico
        assert sum(line.rounded_pico for line in bill.lines) == bill.payable_pico
        assert bill.exact_pico + bill.rounding_pico == bill.payable_pico
        of_it = [charge for charge in found if charge.currency == bill.currency]
        assert sum(charge.billed_pico for charge in of_it) == bill.exact_pico
        assert sum(line.charges for line in bill.lines) == len(of_it) + bool(bill.rounding_pico)
    shuffled = list(found)
    random.shuffle(shuffled)
    sums = [(bill.currency, bill.payable_pico) for bill in bills(shuffled, BEGINS, ENDS)]
    assert sums == [(bill.currency, bill.payable_pico) for bill in bills(found, BEGINS, ENDS)]


def test_the_hash_is_of_the_rows_and_not_of_their_order():
    rows = [("a", 1), ("b", None)]
    assert hashes.rows_hash(rows) == hashes.rows_hash(reversed(rows))
    assert hashes.rows_hash(rows) != hashes.rows_hash([("a", 1), ("b", 0)])
