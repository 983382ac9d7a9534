"""When a budget is told of, and what a URL reads of it."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from control.metering.alerts import rules
from control.metering.alerts.rules import AlertFacts

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)
ALERT = AlertFacts(
    id=7,
    tenant="acme",
    scope="project acme/web",
    unit="pico",
    currency="USD",
    period="month",
    mode="hard",
    begins_at=AT,
    percent=80,
    amount=10 * 10**12,
    spent=8 * 10**12 + 5 * 10**11,
    at=AT,
    seen_at=None,
    seen_by="",
    url="http://h/x",
    delivery="waiting",
    tries=0,
    answer="",
)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "80 % of the budget of project acme/web is used: 8.5 of 10 USD this month"),
        (
            {"unit": "tokens", "currency": "", "mode": "soft", "amount": 10, "spent": 8},
            "80 % of the soft budget of project acme/web is used: 8 of 10 tokens this month",
        ),
        (
            {"unit": "credit", "scope": "tenant acme", "period": ""},
            "80 % of the prepaid credit of tenant acme is used (USD)",
        ),
    ],
)
def test_an_alert_is_a_sentence(changes, text):
    assert replace(ALERT, **changes).text == text


def test_a_message_is_the_same_at_each_try_and_exact():
    body = rules.message(ALERT)
    assert body == rules.message(replace(ALERT, tries=3, answer="status 500"))
    told = json.loads(body)
    assert (told["type"], told["id"]) == ("budget.alert", "alert_7")
    assert (told["data"]["spent"], told["data"]["amount"]) == ("8.5", "10")
