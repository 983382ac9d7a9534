"""Half up to the minor unit of a currency; credits are of what can be paid."""

from decimal import ROUND_HALF_UP, Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control.checks import Refused
from control.metering.invoices.currencies import credit_pico, minor_digits, rounded
from control.metering.rules import PICO


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
    with localcontext(prec=40):
        step = Decimal(1).scaleb(-minor_digits(currency))
        exact = Decimal(amount).scaleb(-12).quantize(step, rounding=ROUND_HALF_UP)
        assert Decimal(rounded(amount, currency)).scaleb(-12) == exact


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
    assert credit_pico(currency, amount) == pico(expected)


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
        credit_pico(currency, amount)
