"""What credit may be added, and that each movement sums to zero."""

from decimal import Decimal

import pytest

from control.metering.prepaid import rules
from control.metering.prepaid.rules import CreditWanted

GOOD = CreditWanted("acme", Decimal("10.5"), "USD")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({}, None),
        ({"kind": "goodwill"}, None),
        ({"amount": Decimal("0.000001")}, None),
        ({"amount": Decimal(0)}, "amount"),
        ({"amount": Decimal("-1")}, "amount"),
        ({"amount": Decimal("0.0000001")}, "amount"),
        ({"amount": Decimal("NaN")}, "amount"),
        ({"currency": "usd"}, "currency"),
        ({"kind": "gift"}, "kind"),
        ({"reference": "x" * 65}, "reference"),
        ({"reference": "a\x00b"}, "reference"),
    ],
)
def test_credit_names_what_is_wrong_with_it(changes, field):
    wanted = CreditWanted(**(GOOD.__dict__ | changes))
    assert [problem.field for problem in rules.problems(wanted)] == ([field] if field else [])


@pytest.mark.parametrize(
    ("kind", "postings"),
    [
        ("purchase", {"receivable": 10, "prepaid": -10}),
        ("goodwill", {"credit_expense": 10, "prepaid": -10}),
        ("refund", {"receivable": -10, "prepaid": 10}),
    ],
)
def test_a_movement_of_credit_sums_to_zero(kind, postings):
    wanted = CreditWanted("acme", Decimal("0.000000000010"), "USD", kind)
    found = rules.postings_of(kind, rules.change_pico(wanted))
    assert dict(found) == postings
    assert sum(pico for _, pico in found) == 0


def test_a_draw_pays_what_was_billed():
    assert dict(rules.draw(7)) == {"prepaid": 7, "receivable": -7}
