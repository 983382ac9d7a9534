"""Lines are rounded once; what stands against a close; credits are of what can be paid."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.checks import Refused
from control.metering.invoices import hashes, rules
from control.metering.invoices.rules import Backlog, ChargeFacts, bills, rounded, why_not_close
from control.metering.rules import PICO
from control.states import ChargeCategory, PeriodState

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


@pytest.mark.parametrize(
    ("exact", "currency", "payable"),
    [
        ("0.125", "CNY", "0.13"),  # half even would say 0.12
        ("0.135", "CNY", "0.14"),
        ("-0.125", "CNY", "-0.13"),
        ("0.1249999", "CNY", "0.12"),
        ("0.005", "USD", "0.01"),
        ("0.004999999999", "EUR", "0"),
        ("0.5", "JPY", "1"),
        ("-1234.5", "JPY", "-1235"),
        ("0.0005", "KWD", "0.001"),
        ("0.00005", "CLF", "0.0001"),
        ("0", "CNY", "0"),
    ],
)
def test_half_up_away_from_zero_to_the_minor_unit(exact, currency, payable):
    assert rounded(pico(exact), currency) == pico(payable)


@given(st.integers(-(10**30), 10**30), st.sampled_from(["CNY", "JPY", "KWD"]))
def test_rounding_is_as_decimal_does_it(amount, currency):
    step = Decimal(1).scaleb(-rules.minor_digits(currency))
    exact = Decimal(amount).scaleb(-12)
    assert (
        Decimal(rounded(amount, currency)).scaleb(-12)
        == exact.quantize(step, rounding=ROUND_HALF_UP, context=None)
        if abs(amount) < 10**24
        else True
    )


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


@pytest.mark.parametrize(
    ("backlog", "at", "says"),
    [
        (Backlog(), ENDS, []),
        (Backlog(), ENDS - timedelta(seconds=1), ["it runs until 2026-12-01 00:00 UTC"]),
        (Backlog(earlier_open=datetime(2026, 10, 1, tzinfo=UTC)), ENDS, ["from 2026-10-01 is not"]),
        (Backlog(not_stored=("gw-1",)), ENDS, ["may wait in spools (gw-1)"]),
        (Backlog(open_calls=3), ENDS, ["3 calls of it have not ended"]),
        (Backlog(incidents=("replica 7",)), ENDS, ["drift is not explained (replica 7)"]),
        (Backlog(open_calls=1, incidents=("r",)), ENDS, ["1 calls", "drift"]),
    ],
)
def test_what_stands_against_a_close(backlog, at, says):
    found = why_not_close(PeriodState.CLOSING, ENDS, at, backlog)
    assert len(found) == len(says)
    for problem, text in zip(found, says, strict=True):
        assert text in problem.what


def test_nothing_stands_against_closing_what_is_closed():
    assert why_not_close(PeriodState.CLOSED, ENDS, BEGINS, Backlog(open_calls=1)) == []


@pytest.mark.parametrize(
    ("currency", "amount", "expected"),
    [
        ("CNY", "12.50", "12.5"),
        ("CNY", "12.500", "12.5"),
        ("JPY", "7", "7"),
        ("KWD", "0.001", "0.001"),
    ],
)
def test_a_credit_is_of_minor_units(currency, amount, expected):
    assert rules.credit_pico(currency, amount) == pico(expected)


@pytest.mark.parametrize(
    ("currency", "amount"),
    [
        *(("CNY", text) for text in ("0", "-1", "1.005", "1e3", "", "1.2.3", "NaN", "１", "1,5")),
        ("JPY", "0.5"),
        ("CNY", "1000000001"),
    ],
)
def test_other_credits_are_refused(currency, amount):
    with pytest.raises(Refused, match="^amount: "):
        rules.credit_pico(currency, amount)


def test_the_hash_is_of_the_rows_and_not_of_their_order():
    rows = [("a", 1), ("b", None)]
    assert hashes.rows_hash(rows) == hashes.rows_hash(reversed(rows))
    assert hashes.rows_hash(rows) != hashes.rows_hash([("a", 1), ("b", 0)])
