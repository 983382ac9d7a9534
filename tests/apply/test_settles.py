"""Property: whatever was there before, a file that was applied has nothing left to change."""

import json
from datetime import UTC, datetime

import pytest
from django.db import transaction
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from control.apply.actions import apply
from control.apply.wanted import BadFile

pytestmark = pytest.mark.django_db

AT = datetime(2026, 11, 29, 12, tzinfo=UTC)
ENVIRONMENT = {f"KEY_{letter}": letter * 40 for letter in "ABC"}

names = st.sampled_from(["a", "b"])
wholes = st.integers(1, 10**6)
amounts = st.decimals(0, 1000, places=6).map(str)
limits = st.dictionaries(
    st.sampled_from(["requests_per_minute", "concurrent_calls", "output_tokens"]), wholes
)
budgets = st.fixed_dictionaries(
    {"amount": amounts, "currency": st.just("USD")},
    optional={"period": st.sampled_from(["month", "day"]), "tokens": wholes},
) | st.fixed_dictionaries({"tokens": wholes})


def named(entries: st.SearchStrategy, least: int = 0) -> st.SearchStrategy:
    """Up to two entries of different names."""
    return st.lists(entries, min_size=least, max_size=2, unique_by=lambda entry: entry["name"])


scoped = {"limits": limits, "budget": budgets}
keys = st.fixed_dictionaries(
    {"name": names}, optional={"expires_at": st.just("2030-01-01T00:00:00+01:00"), **scoped}
)
tenants = st.fixed_dictionaries(
    {"name": names},
    optional={
        "priority": st.sampled_from(["interactive", "standard", "batch"]),
        "timezone": st.sampled_from(["Asia/Shanghai", "Europe/Berlin"]),
        "projects": named(st.fixed_dictionaries({"name": names}, optional=scoped)),
        "keys": named(keys),
        **scoped,
    },
)
arguments = st.dictionaries(
    st.sampled_from(["ttft_seconds", "token_seconds"]),
    st.one_of(st.integers(0, 10**9), st.floats(0, 1e6, width=32)),
)


@st.composite
def services(draw) -> str:
    """A file whose references lead somewhere."""
    models = draw(
        named(
            st.fixed_dictionaries(
                {"name": names, "versions": st.tuples(versions()).map(list)},
            ),
        )
    )
    document = {"apiVersion": "weir/v1", "tenants": draw(named(tenants)), "models": models}
    if models:
        model = draw(st.sampled_from(models))
        target = {"name": draw(names), "model": model["name"], "version": "v1"}
        target["replicas"] = {"min": draw(st.integers(0, 2)), "max": draw(st.integers(2, 3))}
        route = {"name": draw(names), "targets": [{"deployment": target["name"]}]}
        route |= {"stop": draw(st.lists(st.text("ab\n", min_size=1, max_size=3), max_size=2))}
        prices = {"input": draw(amounts), "output": draw(amounts)}
        document |= {"deployments": [target], "routes": [route]}
        document |= {"prices": [{"model": model["name"], "currency": "EUR", "per_million": prices}]}
    return json.dumps(document)  # which is YAML


def versions() -> st.SearchStrategy:
    return st.fixed_dictionaries(
        {"name": st.just("v1"), "engine": st.just({"kind": "stub"})},
        optional={"arguments": arguments, "memory": st.just({"calls": 4})},
    )


def do(text: str, prune: bool):
    options = {"environment": ENVIRONMENT, "by": "anna", "reason": "a test", "at": AT}
    return apply(text, prune=prune, carry_out=True, **options)


@settings(
    max_examples=25,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],  # shrinking would apply thousands of files
)
@given(first=services(), second=services(), prune=st.booleans())
def test_a_file_that_was_applied_has_nothing_left_to_change(first, second, prune):
    with transaction.atomic():
        do(first, prune=False)
        assert do(first, prune=False).plan.changes == ()
        said = refusal(second, prune)
        assert said == "" or "versions are immutable" in said
        assert said or do(second, prune).plan.changes == ()
        transaction.set_rollback(True)


def refusal(text: str, prune: bool) -> str:
    try:
        do(text, prune)
    except BadFile as bad:
        return str(bad)
    return ""
