"""What a tenant, a key and its secret may be."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from control.tenancy import rules
from control.tenancy.rules import BudgetWanted, KeyWanted, Limits, TenantWanted


@pytest.mark.parametrize(
    ("wanted", "fields"),
    [
        (TenantWanted("acme"), []),
        (TenantWanted("acme", priority="batch", timezone="Asia/Tokyo"), []),
        (TenantWanted("a b"), ["name"]),
        (TenantWanted("acme", priority="high"), ["priority"]),
        (TenantWanted("acme", timezone="UTC+8"), ["timezone"]),
        (TenantWanted("acme", limits=Limits(output_tokens=0)), ["limits.output_tokens"]),
        (TenantWanted("acme", limits=Limits(concurrent_calls=2**31)), ["limits.concurrent_calls"]),
        (TenantWanted("acme", limits=Limits(input_tokens_per_minute=2**40)), []),
        (TenantWanted("acme", limits=Limits(burst=5)), ["limits.burst"]),
        (TenantWanted("acme", limits=Limits(burst=5, requests_per_second=1)), []),
        (TenantWanted("a", budget=BudgetWanted(Decimal(5), "usd")), ["budget.currency"]),
        (TenantWanted("a", budget=BudgetWanted(Decimal(-5), "USD")), ["budget.amount"]),
        (TenantWanted("a", budget=BudgetWanted()), ["budget.amount"]),
        (TenantWanted("a", budget=BudgetWanted(tokens=-1)), ["budget.tokens"]),
        (TenantWanted("a", budget=BudgetWanted(tokens=5, currency="USD")), ["budget.currency"]),
        (TenantWanted("a", budget=BudgetWanted(tokens=5)), []),
        (TenantWanted("a", budget=BudgetWanted(Decimal(5), "USD", "year")), ["budget.period"]),
    ],
)
def test_a_tenant(wanted, fields):
    assert [problem.field for problem in rules.tenant_problems(wanted)] == fields


@pytest.mark.parametrize(
    ("wanted", "fields"),
    [
        (KeyWanted("acme", "ci", routes=("org/name:tag",)), []),
        (KeyWanted("acme", "ci", routes=()), []),
        (KeyWanted("acme", "ci", routes=("a", "b c")), ["routes[1]"]),
        (KeyWanted("acme", "ci", expires_at=datetime(2030, 1, 1)), ["expires_at"]),  # noqa: DTZ001 - naive on purpose
        (KeyWanted("acme", "ci", expires_at=datetime(2030, 1, 1, tzinfo=UTC)), []),
        (KeyWanted("acme", "ci", endpoints=("models", "chat.completions")), []),
        (KeyWanted("acme", "ci", endpoints=()), ["endpoints"]),
        (KeyWanted("acme", "ci", endpoints=("chat",)), ["endpoints[0]"]),
        (KeyWanted("acme", "ci", endpoints=("models", "models")), ["endpoints[1]"]),
        (KeyWanted("acme", "ci", networks=("192.0.2.0/24", "2001:db8::/32", "::1")), []),
        (KeyWanted("acme", "ci", networks=("192.0.2.1/24",)), ["networks[0]"]),
        (KeyWanted("acme", "ci", networks=("::1", "home", "::1")), ["networks[1]", "networks[2]"]),
        (KeyWanted("acme", "ci", networks=("::1",) * 65), ["networks"]),
        (KeyWanted("acme", "ci", priority="batch"), []),
        (KeyWanted("acme", "ci", priority=""), ["priority"]),
        (KeyWanted("acme", "ci", limits=Limits(identical_calls=0)), ["limits.identical_calls"]),
        (KeyWanted("acme", "ci", limits=Limits(end_user_output_tokens_per_minute=2**40)), []),
    ],
)
def test_a_key(wanted, fields):
    assert [problem.field for problem in rules.key_problems(wanted)] == fields


@pytest.mark.parametrize(
    ("secret", "fits"),
    [
        ("s" * 32, True),
        ("s" * 256, True),
        ("with blanks inside, and ~ all that is printable", True),
        ("s" * 31, False),
        ("s" * 257, False),
        ("s" * 32 + "\n", False),
        (" " + "s" * 32, False),
        ("é" * 32, False),
        ("s" * 32 + "\x7f", False),
    ],
)
def test_k03_a_secret_is_printable_and_never_repeated_in_its_refusal(secret, fits):
    problems = rules.secret_problems("secret", secret)
    assert (problems == []) is fits
    assert all(secret not in str(problem) for problem in problems)


def test_a_secret_is_shown_by_its_ends():
    assert rules.shown("weir-0123456789abcdef") == "wei…cdef"
