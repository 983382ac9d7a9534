"""Prepaid credit pays for calls to its last unit, over two gateways; soft budgets stop none."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from control.metering.ledger import balances
from control.metering.prepaid.actions import add_credit
from control.metering.prepaid.rules import CreditWanted
from control.models import Budget
from control.tenancy.actions import save_tenant
from control.tenancy.rules import TenantWanted
from tests.gateway.admission.budgets import UNIT, Bank, in_thread
from tests.gateway.place import chat
from tests.gateway.upstream import Upstream, answered

pytestmark = pytest.mark.django_db(transaction=True)
ONE = {"max_tokens": 1}  # an answer of one token costs 0.10


@pytest.fixture
async def engine() -> AsyncIterator[Upstream]:
    engine = Upstream(answered("fine", 7, 1))
    await engine.start()
    yield engine
    await engine.stop()


async def prepaid(bank: Bank, amount: str | None) -> None:
    def made() -> None:
        who = {"by": "ann", "reason": "test", "at": datetime.now(UTC)}
        save_tenant(TenantWanted("acme", prepaid="USD"), **who)
        if amount:
            add_credit(CreditWanted("acme", Decimal(amount), "USD"), **who)

    await in_thread(made)
    await in_thread(bank.know)


async def test_prepaid_calls_are_served_to_the_last_unit_and_then_refused(bank, engine):
    await prepaid(bank, "1.00")
    calls = [bank.post(number % 2, chat(**ONE)) for number in range(24)]
    answers = await asyncio.gather(*calls)
    assert sorted(answer.status for answer in answers) == [200] * 10 + [429] * 14
    refused = next(answer for answer in answers if answer.status == 429)
    assert refused.json()["error"]["code"] == "insufficient_quota"
    assert refused.headers["x-should-retry"] == "false"
    assert "prepaid credit of" in refused.json()["error"]["message"]
    await in_thread(bank.ship)
    assert await in_thread(balances) == {
        ("prepaid", "USD"): 0,
        ("receivable", "USD"): UNIT,
        ("revenue", "USD"): -UNIT,
    }


async def test_a_prepaid_tenant_without_credit_is_refused_until_it_is_topped_up(bank, engine):
    await prepaid(bank, None)
    refused = await bank.post(0, chat(**ONE))
    assert (refused.status, refused.json()["error"]["code"]) == (429, "insufficient_quota")
    assert not engine.seen
    await prepaid(bank, "0.10")
    bank.places[0].push(2)
    assert (await bank.post(0, chat(**ONE))).status == 200


async def test_a_soft_budget_refuses_nothing(bank, engine):
    budget = await in_thread(bank.budget, "0.10")
    await in_thread(Budget.objects.filter(pk=budget.pk).update, mode="soft")
    await in_thread(bank.know)
    answers = [await bank.post(0, chat(**ONE)) for _ in range(3)]
    assert [answer.status for answer in answers] == [200] * 3
