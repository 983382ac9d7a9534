"""Budgets over real workers, two at once, and one that is killed."""

from concurrent.futures import as_completed
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from control.metering.ledger import balances
from control.metering.prepaid.actions import add_credit
from control.metering.prepaid.rules import CreditWanted
from control.models import (
    Account,
    AccountLease,
    Budget,
    CatalogModel,
    Posting,
    Price,
    Replica,
    SnapshotPart,
    UsageEvent,
)
from control.states import Part
from control.tenancy.actions import save_tenant
from control.tenancy.rules import TenantWanted
from tests.gateway.place import chat
from tests.gateway.running import Running, build_all, until
from tests.gateway.upstream import answered, streamed
from tests.threads import Threads

pytestmark = pytest.mark.django_db(transaction=True)
UNIT = 10**12
# Workers, tenants and databases share two cores here: none is as fast as alone.
PATIENT = {"WEIR_GATEWAY_LIMITS": '{"money_seconds": 5, "waiting_seconds": 60}'}
ONE = chat(max_tokens=1)  # costs 0.10


@pytest.fixture
def budget(key) -> Budget:
    """Of the key; its tenant has a thousand times as much."""
    Price.objects.create(
        model=CatalogModel.objects.get(),
        currency="USD",
        input_pico=0,
        cached_input_pico=0,
        output_pico=UNIT // 10,
        valid_from=datetime(2026, 1, 1, tzinfo=UTC),
    )
    Replica.objects.update(slots=64)
    Budget.objects.create(tenant=key.tenant, amount="1000.00", currency="USD")
    budget = Budget.objects.create(key=key, amount="1.00", currency="USD")
    for part in Part:
        SnapshotPart.raise_version(part)
    build_all()
    return budget


def is_settled(spent: int) -> bool:
    """All is stored, and nobody holds anything."""
    return not any(
        (account.spent, account.leased) != (spent, 0) for account in Account.objects.all()
    )


def test_m01_two_workers_admit_exactly_what_a_key_can_pay(environment, budget, engine):
    running = Running(environment | PATIENT, processes=2)
    try:
        until(lambda: len(running.workers()) == 2, "two workers run")
        until(lambda: all(running.status() == 200 for _ in range(20)), "both are ready")
        engine.play(answered("fine", 7, 1, hold=True))
        with Threads(50) as threads:
            calls = [threads.submit(running.post, ONE) for _ in range(50)]
            for _ in zip(range(40), as_completed(calls), strict=False):
                for account in Account.objects.all():
                    assert account.amount - account.spent - account.leased >= 0
            until(lambda: len(engine.seen) == 10, "all others run")
            engine.go_on()
            answers = [call.result() for call in calls]
        assert sorted(answer.status_code for answer in answers) == [200] * 10 + [429] * 40
        codes = {a.json()["error"]["code"] for a in answers if a.status_code == 429}
        assert codes == {"insufficient_quota"}
        until(lambda: is_settled(UNIT), "the key has spent all")
        receivable = Posting.objects.filter(account="receivable")
        assert sum(posting.amount_pico for posting in receivable) == UNIT
    finally:
        running.stop()


def test_r03_d_a_killed_workers_credit_is_free_again(environment, budget, engine):
    running = Running(environment | PATIENT)
    try:
        until(lambda: running.status() == 200, "the gateway is ready")
        engine.play(streamed("a", hold=True))
        with Threads(5) as threads:
            body = chat(max_tokens=1, stream=True)
            for _ in range(5):
                threads.submit(running.post, body)
            until(lambda: len(engine.seen) == 5, "five calls run")
            assert Account.objects.get(budget=budget).leased >= UNIT // 2
            running.workers()[0].kill()
            until(lambda: UsageEvent.objects.filter(outcome="lost").count() == 5, "all are stored")
            until(lambda: is_settled(0), "nothing is held")
        assert not AccountLease.objects.exists()
        engine.play(answered("fine", 7, 1))
        until(lambda: running.status() == 200, "another worker serves")
        statuses = [running.post(ONE).status_code for _ in range(11)]
        assert statuses == [200] * 10 + [429]
    finally:
        running.stop()


def test_r03_d_a_killed_workers_prepaid_credit_is_free_again(environment, budget, engine):
    Budget.objects.all().delete()
    who = {"by": "ann", "reason": "test", "at": datetime.now(UTC)}
    save_tenant(TenantWanted("acme", prepaid="USD"), **who)
    add_credit(CreditWanted("acme", Decimal("0.50"), "USD"), **who)
    build_all()
    running = Running(environment | PATIENT)
    try:
        until(lambda: running.status() == 200, "the gateway is ready")
        engine.play(streamed("a", hold=True))
        with Threads(5) as threads:
            for _ in range(5):
                threads.submit(running.post, chat(max_tokens=1, stream=True))
            until(lambda: len(engine.seen) == 5, "five calls hold all that there is")
            assert Account.objects.get().leased == UNIT // 2
            running.workers()[0].kill()
            until(lambda: UsageEvent.objects.filter(outcome="lost").count() == 5, "all are stored")
            until(lambda: is_settled(0), "nothing is held")
        engine.play(answered("fine", 7, 1))
        until(lambda: running.status() == 200, "another worker serves")
        answers = [running.post(ONE) for _ in range(6)]
        assert [answer.status_code for answer in answers] == [200] * 5 + [429]
        until(lambda: is_settled(UNIT // 2), "the credit is used to its last unit")
        assert balances()["prepaid", "USD"] == 0
    finally:
        running.stop()
