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


def test_processes_begin_with_one_burst_together():
    budgets = [RetryBudget(ratio=0.1, burst=10, processes=4) for _ in range(4)]
    assert sum(budget.spend() for budget in budgets for _ in range(10)) == 8  # halves are left
    many = RetryBudget(ratio=0.1, burst=10, processes=64)
    assert not many.spend()
    many.get(10)
    assert [many.spend(), many.spend()] == [True, False]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("cccre")), max_size=300))
def test_over_processes_retries_are_a_share_of_all_calls(steps):
    """`c` a call, `r` a retry, `e` an exchange of what is to spare."""
    budgets = [RetryBudget(ratio=0.1, burst=4, processes=4) for _ in range(4)]
    calls = retries = 0
    pot = 0.0
    for number, step in steps:
        budget = budgets[number]
        if step == "c":
            budget.earn()
            calls += 1
        elif step == "r":
            retries += budget.spend()
        else:
            lacks = budget.lacks
            pot = min(pot + budget.give(), 4)
            got = min(pot, lacks)
            pot -= got
            budget.get(got)
        assert retries <= 4 + calls * 0.1 + 1e-6
