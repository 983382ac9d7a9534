"""Transfers sum to zero, are posted once, and never change."""

import pytest
from django.db import IntegrityError, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from control.metering import ledger
from control.metering.ledger import PostingWanted, TransferWanted, Unbalanced, usage_transfer
from control.models import Posting, Price, Transfer
from tests.metering.conftest import AT


def a_transfer(tenant_id: int, key: str, *amounts: tuple[str, int]) -> TransferWanted:
    postings = (
        PostingWanted(tenant_id, f"account{number}", currency, amount)
        for number, (currency, amount) in enumerate(amounts)
    )
    return TransferWanted(key, "test", AT, tuple(postings))


def test_a_call_is_owed_by_its_tenant_and_posted_once(house):
    transfer = usage_transfer(7, house.tenant.pk, "USD", 5, AT)
    assert ledger.post([transfer, transfer]) == 1
    assert ledger.post([transfer]) == 0
    assert ledger.balances(house.tenant.pk) == {("receivable", "USD"): 5, ("revenue", "USD"): -5}
    assert ledger.balances(house.tenant.pk + 1) == {}
    assert ledger.post([]) == 0


@pytest.mark.parametrize(
    "amounts", [[("USD", 1), ("USD", -2)], [("USD", 1), ("CNY", -1)], [("USD", 0)], []]
)
def test_what_does_not_sum_to_zero_in_each_currency_is_refused_whole(house, amounts):
    good = a_transfer(house.tenant.pk, "good", ("USD", 1), ("USD", -1))
    with pytest.raises(Unbalanced, match="bad"):
        ledger.post([good, a_transfer(house.tenant.pk, "bad", *amounts)])
    assert not Transfer.objects.exists()


def test_the_database_refuses_to_change_what_is_posted(house):
    ledger.post([a_transfer(house.tenant.pk, "one", ("USD", 1), ("USD", -1))])
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        Posting.objects.update(amount_pico=0)
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        Transfer.objects.update(reason="other")
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        Price.objects.update(output_pico=0)
    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
        house.price.delete()


@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    batches=st.lists(
        st.lists(st.tuples(st.integers(0, 30), st.integers(-(10**30), 10**30)), max_size=6),
        max_size=5,
    )
)
def test_all_balances_sum_to_zero_and_each_key_counts_once(house, batches):
    """Amounts beyond 64 bits too: sums are NUMERIC."""
    with transaction.atomic():
        posted = sum(
            ledger.post(
                [
                    a_transfer(house.tenant.pk, f"k{key}", ("USD", amount), ("USD", -amount))
                    for key, amount in batch
                ]
            )
            for batch in batches
        )
        assert posted == len({key for batch in batches for key, _ in batch})
        assert sum(ledger.balances().values()) == 0
        assert Posting.objects.count() == 2 * posted
        transaction.set_rollback(True)
