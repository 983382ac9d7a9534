"""Price books of a file: applied once, versions to come beside the one of today."""

from datetime import timedelta

import pytest

from control.models import PriceBook
from tests.apply.applying import LATER, SERVICE, do, steps

pytestmark = pytest.mark.django_db

WHOLE_BOOK = """prices:
- {model: m, currency: USD, per_million: {input: "0.1", output: "0.4", reasoning: "0.5"},
   rows: [{priority: batch, per_million: {input: "0.05", output: "0.2"}},
          {from_tokens: 1000, per_million: {input: "0.08", output: "0.3"}}],
   interrupted: delivered, step: "0.05"}
- {model: m, tenant: acme, currency: USD, per_million: {input: "0.1", output: "0.3"},
   valid_from: "2027-01-01T00:00:00Z", valid_until: "2028-01-01T00:00:00Z"}
"""
WITH_BOOK = SERVICE.replace(
    'prices: [{model: m, currency: USD, per_million: {input: "0.1", output: "0.4"}}]\n', WHOLE_BOOK
)


def test_a_whole_price_book_is_applied_once_and_versions_to_come_beside_it():
    do()
    done = ["change price m", "create price m for acme from 2027-01-01T00:00:00+00:00"]
    assert steps(do(WITH_BOOK, at=LATER)) == done
    assert PriceBook.objects.get(tenant=None, version=2).rows.count() == 3
    [to_come] = PriceBook.objects.exclude(tenant=None)
    assert (to_come.interrupted, to_come.valid_until.year) == ("generated", 2028)
    for at in (LATER + timedelta(hours=1), LATER + timedelta(days=900)):
        assert steps(do(WITH_BOOK, at=at)) == []
    cheaper = WITH_BOOK.replace('output: "0.2"', 'output: "0.1"')
    [step] = do(cheaper, at=LATER + timedelta(days=1)).plan.changes
    [change] = step.changes
    assert (change.field, change.before, change.after) == (
        "per_million[batch].output",
        "0.2",
        "0.1",
    )
