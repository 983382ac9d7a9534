"""Calls are tried again within a budget only."""

from hypothesis import given, settings
from hypothesis import strategies as st

from control.gateway.routing.budget import RetryBudget


def test_a_tenth_of_the_calls_may_be_tried_again_once_the_burst_is_spent():
    budget = RetryBudget(ratio=0.1, burst=5)
    retried = 0
    for _ in range(1000):
        budget.earn()
        retried += budget.spend()
    assert 100 <= retried <= 106


def test_no_more_than_the_burst_is_saved_up():
    budget = RetryBudget(ratio=0.1, burst=5)
    for _ in range(1000):
        budget.earn()
    assert sum(budget.spend() for _ in range(1000)) == 5


@settings(deadline=None)
@given(st.lists(st.booleans(), max_size=300))
def test_retries_never_exceed_the_burst_and_a_tenth_of_the_calls(steps):
    budget = RetryBudget(ratio=0.1, burst=3)
    calls = retries = 0
    for is_call in steps:
        if is_call:
            budget.earn()
            calls += 1
        else:
            retries += budget.spend()
        assert retries <= 3 + calls * 0.1 + 1e-9
