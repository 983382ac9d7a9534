"""Budgets hold calls to what is left, exactly, over gateways that die and databases that go."""

import asyncio
import csv
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from django.db import connection

from control.gateway.admission.lender import APPLICATION
from control.metering import exports, facts
from control.metering.exports import UsageWanted
from control.metering.ingest import ship
from control.models import AccountLease, Budget, RefusalCount
from tests.gateway.admission.budgets import LONG_AGO, UNIT, Bank, in_thread
from tests.gateway.place import chat
from tests.gateway.upstream import Script, Upstream, answered, chunk, error, streamed
from tests.metering.books import drop_prices, reprice
from tests.metering.conftest import House, spool

pytestmark = pytest.mark.django_db(transaction=True)
TENTH = UNIT // 10
ONE = {"max_tokens": 1}  # an answer of one token costs 0.10


@pytest.fixture
async def engine() -> AsyncIterator[Upstream]:
    engine = Upstream(answered("fine", 7, 1))
    await engine.start()
    yield engine
    await engine.stop()


async def given(bank: Bank, amount: str | None = "1.00", **scope) -> Budget:
    budget = await in_thread(bank.budget, amount, **scope)
    await in_thread(bank.know)
    return budget


async def figures(bank: Bank, budget: Budget) -> tuple[int, int, int]:
    """Amount, spent, leased."""
    account = await in_thread(bank.account, budget)
    return int(account.amount), int(account.spent), int(account.leased)


async def settled(bank: Bank, budget: Budget, spent: int) -> None:
    """All is stored, and no gateway holds anything."""
    async with asyncio.timeout(30):
        while True:
            await in_thread(bank.ship)
            for place in bank.places:
                place.push(1.1)
            if await figures(bank, budget) == (int(UNIT * Decimal(budget.amount)), spent, 0):
                return
            await asyncio.sleep(0.05)


async def test_m01_parallel_calls_over_two_gateways_spend_exactly_what_there_is(bank, engine):
    key = await given(bank)
    tenant = await given(bank, "1000.00", tenant=bank.key.tenant)
    engine.scripts = [answered("fine", 7, 1, hold=asyncio.Event())]
    calls = [asyncio.create_task(bank.post(n % 2, chat(**ONE))) for n in range(50)]
    read = []
    async with asyncio.timeout(30):
        while sum(call.done() for call in calls) < 40:
            read.append(await figures(bank, key) if await in_thread(has_account, key) else None)
            await asyncio.sleep(0.01)
    engine.scripts[0].hold.set()
    answers = await asyncio.gather(*calls)
    assert sorted(answer.status for answer in answers) == [200] * 10 + [429] * 40
    assert all(amount - spent - leased >= 0 for amount, spent, leased in filter(None, read))
    await settled(bank, key, UNIT)
    await settled(bank, tenant, UNIT)
    assert await in_thread(bank.ledger) == UNIT
    refused = next(answer for answer in answers if answer.status == 429)
    assert (refused.error["type"], refused.error["code"]) == ("insufficient_quota",) * 2
    assert refused.headers["x-should-retry"] == "false"
    assert "retry-after" not in refused.headers


def has_account(budget: Budget) -> bool:
    return budget.accounts.exists()


async def test_m06_ten_thousand_small_calls_add_up_to_the_last_digit(bank, tmp_path):
    await in_thread(reprice, output_pico=123_000_000)  # 0.000123
    budget = await given(bank, "1.23")
    await in_thread(spend_before, bank, tmp_path / "before", 9_990)
    answers = [await bank.post(n % 2, chat(**ONE)) for n in range(11)]
    assert [answer.status for answer in answers] == [200] * 10 + [429]
    assert answers[-1].error["code"] == "insufficient_quota"
    await settled(bank, budget, 1_230_000_000_000)
    assert await in_thread(bank.ledger) == 1_230_000_000_000
    wanted = UsageWanted(LONG_AGO, LONG_AGO + timedelta(days=3650))
    [total] = await in_thread(facts.usage, wanted, ("tenant",))
    assert [amount.text for amount in total.amounts] == ["1.23"]
    text = b"".join(await in_thread(lambda: list(exports.usage_csv(wanted)))).decode()
    amounts = [row["amount"] for row in csv.DictReader(text.splitlines())]
    assert amounts == ["0.000123"] * 10_000
    assert sum(map(Decimal, amounts)) == Decimal("1.23")


def spend_before(bank: Bank, folder: Path, calls: int) -> None:
    house = House(bank.key.tenant, bank.key.project, bank.key, bank.version)
    now = bank.places[0].time.wall()
    when = {"started_at": now, "ended_at": now, "first_token_at": now}
    one = {"input_tokens": 7, "cached_input_tokens": 0, "output_tokens": 1, "delivered_tokens": 1}
    spool(folder, *(house.close(f"req_{n}", **when, **one) for n in range(calls)))
    ship(folder, set(), datetime.now(UTC))


async def test_r03_a_large_holds_refuse_nobody_while_there_is_room(bank, engine):
    await in_thread(reprice, output_pico=UNIT // 64_000 // 100)  # 64k: 0.01
    await given(bank, "25.00")
    engine.scripts = [answered("fine", 7, 200)]
    body = chat(max_tokens=64_000)
    answers = await asyncio.gather(*(bank.post(n % 2, body) for n in range(10)))
    assert {answer.status for answer in answers} == {200}


async def test_r03_a_a_hold_in_the_way_clears_when_it_settles(bank, engine):
    await given(bank)
    place, hold = bank.places[0], asyncio.Event()
    engine.scripts = [answered("fine", 7, 1, hold=hold)]
    first = asyncio.create_task(bank.post(0, chat(max_tokens=8)))
    await place.until(lambda: engine.seen)
    refused = await bank.post(1, chat(max_tokens=8))
    assert refused.status == 429
    assert (
        "Limit 1, Spent 0, Held by calls that run 0.8, Requested at most 0.8"
        in (refused.error["message"])
    )
    hold.set()
    assert (await first).status == 200
    assert (await bank.post(1, chat(max_tokens=8))).status == 200


async def test_r03_b_cancelled_calls_hold_nothing(bank, engine):
    budget = await given(bank, "25.00")
    half = [chunk(role=True), chunk("a", usage=(7, 1))]
    engine.scripts = [Script(b"".join(half), end="hold")]
    place = bank.places[0]
    for _ in range(20):
        async with place.stream(chat(stream=True, max_tokens=10)) as stream:
            await stream.until(b'"a"')
    await place.until(lambda: not place.shared.calls)
    assert [close.outcome for close in place.closes()] == ["client_closed"] * 20
    await settled(bank, budget, 20 * TENTH)


async def test_r03_c_a_call_that_fails_after_its_hold_gives_it_back(bank, engine):
    budget = await given(bank)
    engine.scripts = [error(500)]
    for _ in range(12):
        answer = await bank.post(0, chat(max_tokens=5))
        assert answer.status in (502, 503)
    await settled(bank, budget, 0)


async def test_r03_d_a_killed_gateways_calls_hold_nothing_once_its_spool_is_stored(bank, engine):
    budget = await given(bank)
    engine.scripts = [streamed("a", hold=asyncio.Event())]
    place = bank.places[0]
    body = chat(stream=True, max_tokens=1)
    calls = [asyncio.create_task(bank.post(0, body)) for _ in range(5)]
    await place.until(lambda: len(engine.seen) == 5)
    _, _, leased = await figures(bank, budget)
    assert leased >= 5 * TENTH
    place.shared.outbox.flush()
    place.spool.close()  # as the end of its process does
    await in_thread(bank.ship, alive=False)
    assert await figures(bank, budget) == (UNIT, 0, 0)
    for call in calls:
        call.cancel()


async def test_r03_e_a_model_without_a_price_is_refused_to_whom_a_budget_pays_for(bank, engine):
    await in_thread(drop_prices)
    await given(bank)
    place = bank.places[0]
    refused = await bank.post(0, chat(**ONE))
    assert (refused.status, refused.error["code"]) == (403, "model_not_priced")
    assert not engine.seen
    place.shared.flush_refused()
    await in_thread(bank.ship)
    assert await in_thread(RefusalCount.objects.filter(code="model_not_priced").exists)
    await in_thread(Budget.objects.all().delete)
    await in_thread(bank.know)
    assert (await bank.post(0, chat(**ONE))).status == 200


async def test_r03_e_nor_does_a_price_in_another_currency_count(bank):
    await in_thread(reprice, currency="EUR")
    await given(bank)
    assert (await bank.post(0, chat(**ONE))).error["code"] == "model_not_priced"


async def test_r05_b_what_is_spent_outlives_valkey(bank, engine, valkey):
    budget = await given(bank, "10.00")
    engine.scripts = [answered("fine", 7, 99)]
    assert (await bank.post(0, chat(max_tokens=99))).status == 200
    await in_thread(bank.ship)
    assert (await figures(bank, budget))[1] == 99 * TENTH
    valkey.flushall()
    seen = len(engine.seen)
    for number in range(2):
        refused = await bank.post(number, chat(max_tokens=5))
        assert (refused.status, refused.error["code"]) == (429, "insufficient_quota")
        assert "Limit 10, Spent 9.9," in refused.error["message"]
    assert len(engine.seen) == seen


async def test_r05_c_nothing_is_let_in_that_cannot_be_written_down(bank, engine):
    budget = await given(bank)
    place = bank.places[0]
    await in_thread(refuse_writes, on=True)
    refused = await bank.post(0, chat(**ONE))
    assert (refused.status, refused.error["code"]) == (503, "budget_unavailable")
    assert refused.headers["retry-after"] == "1"
    assert (await place.get("/ready")).json()["budgets"] == "away"
    assert not engine.seen
    await in_thread(refuse_writes, on=False)
    assert (await bank.post(0, chat(**ONE))).status == 200
    assert (await place.get("/ready")).json()["budgets"] == "known"
    await settled(bank, budget, TENTH)


def refuse_writes(*, on: bool) -> None:
    """Of those who ask for credit, connected or not."""
    with connection.cursor() as cursor:
        name = connection.settings_dict["NAME"]
        cursor.execute("SET default_transaction_read_only = off")
        cursor.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = {on}')
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = %s AND application_name = %s",
            [name, APPLICATION],
        )


async def test_tokens_are_a_budget_too(bank, engine):
    await in_thread(Budget.objects.create, key=bank.key, tokens=40)
    await in_thread(bank.know)
    engine.scripts = [answered("fine", 7, 3)]
    statuses = [(await bank.post(0, chat(max_tokens=3))).status for _ in range(5)]
    assert statuses == [200, 200, 200, 200, 429]


async def test_a_raised_budget_lets_calls_in_at_once(bank, engine):
    budget = await given(bank, "0.10")
    assert (await bank.post(0, chat(**ONE))).status == 200
    assert (await bank.post(0, chat(**ONE))).status == 429
    await in_thread(raise_to, budget, "0.20")
    await in_thread(bank.know)
    assert (await bank.post(0, chat(**ONE))).status == 200
    assert (await bank.post(0, chat(**ONE))).status == 429


def raise_to(budget: Budget, amount: str) -> None:
    budget.amount = amount
    budget.save()
    budget.accounts.update(amount=int(UNIT * Decimal(amount)))


async def test_an_answer_that_nothing_bounds_is_bounded_where_a_budget_pays(bank, engine):
    await given(bank, "10000.00")
    await bank.post(0, chat())
    assert engine.seen[-1].body["max_tokens"] == 32_768


async def test_what_an_engine_used_beyond_its_hold_is_paid(bank, engine):
    budget = await given(bank)
    engine.scripts = [answered("fine", 7, 3)]
    assert (await bank.post(0, chat(**ONE))).status == 200
    await settled(bank, budget, 3 * TENTH)
    leases = await in_thread(lambda: [int(lease.amount) for lease in AccountLease.objects.all()])
    assert not any(leases)
