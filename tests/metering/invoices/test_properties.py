"""However events, closes, corrections and credits follow each other, all books agree."""

import csv
import io
import shutil
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from django.db import transaction
from django.db.models import Sum
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from control.checks import Refused
from control.metering.exports import UsageWanted, usage_csv
from control.metering.invoices import actions, corrections, periods
from control.metering.ledger import balances
from control.metering.rules import PICO, Tokens
from control.models import (
    Account,
    BillingPeriod,
    Charge,
    GoodwillCredit,
    Invoice,
    UsageEvent,
    UsageHour,
)
from control.states import ChargeCategory, PeriodState
from control.tenancy.actions import save_tenant
from control.tenancy.rules import TenantWanted
from tests.metering.invoices.months import store

FIRST = datetime(2026, 11, 5, tzinfo=UTC)
AFTER = datetime(2027, 6, 1, tzinfo=UTC)

calls = st.tuples(st.just("call"), st.integers(0, 75), st.integers(0, 3000))  # day, tokens
again = st.tuples(st.just("again"), st.integers(0, 9), st.just(0))
closes = st.tuples(st.just("close"), st.integers(0, 2), st.just(0))
fixes = st.tuples(st.just("correct"), st.integers(0, 9), st.integers(0, 2000))
gifts = st.tuples(st.just("credit"), st.integers(0, 75), st.integers(1, 300))
pays = st.tuples(st.just("pays"), st.integers(0, 75), st.integers(0, 1))  # from a day on
steps = st.lists(st.one_of(calls, calls, calls, again, closes, fixes, gifts, pays), max_size=10)


class Books:
    """One tenant's, moved by steps."""

    def __init__(self, house, directory):
        self.house, self.directory = house, directory
        self.closes = []
        self.credits = 0
        self.now = FIRST

    def call(self, day: int, tokens: int) -> None:
        at = (FIRST + timedelta(days=day, seconds=len(self.closes))).timestamp()
        counts = {
            "input_tokens": tokens + 7,
            "cached_input_tokens": 7,
            "output_tokens": tokens % 97,
        }
        name = f"req_{len(self.closes)}"
        self.closes.append(
            self.house.close(name, **counts, started_at=at, ended_at=at + 1, first_token_at=None)
        )
        store(self.directory, self.closes[-1], at=AFTER)

    def again(self, number: int, _: int) -> None:
        if self.closes:
            store(self.directory, self.closes[number % len(self.closes)], at=AFTER)

    def close(self, _: int, __: int) -> None:
        periods.open_until(self.house.tenant, AFTER)
        period = (
            BillingPeriod.objects.exclude(state=PeriodState.CLOSED).order_by("begins_at").first()
        )
        if period and period.ends_at <= AFTER:
            actions.close(period, by="ada", reason="month end", at=AFTER)
            self.now = max(self.now, period.ends_at)

    def pays(self, day: int, ahead: int) -> None:
        """From now on, which is after every month that is closed."""
        self.now = max(self.now, FIRST + timedelta(days=day))
        wanted = TenantWanted("acme", prepaid="USD" if ahead else "")
        save_tenant(wanted, by="ada", reason="pays so", at=self.now)

    def correct(self, number: int, tokens: int) -> None:
        if self.closes:
            call = ("acme", self.closes[number % len(self.closes)].call_id)
            right = Tokens(tokens, tokens // 3, tokens // 2, tokens // 5)
            with suppress(Refused):  # it is billed so already
                corrections.correct_call(call, right, by="ada", reason="recount", at=AFTER)

    def credit(self, day: int, cents: int) -> None:
        self.credits += 1
        at, money = FIRST + timedelta(days=day), (f"{cents / 100:.2f}", "USD")
        actions.grant_credit("acme", money, f"c{self.credits}", by="ada", reason="sorry", at=at)


def exported() -> int:
    wanted = UsageWanted(datetime(2026, 1, 1, tzinfo=UTC), AFTER)
    rows = csv.DictReader(io.StringIO(b"".join(usage_csv(wanted)).decode()))
    return sum(int(Decimal(row["amount"]) * PICO) for row in rows)


def total(rows, field: str) -> int:
    return int(rows.aggregate(total=Sum(field))["total"] or 0)


@given(steps)
@settings(
    max_examples=10,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_events_ledger_rollups_exports_and_invoices_agree(house, tmp_path, taken):
    with transaction.atomic():
        directory = tmp_path / "spool"
        books = Books(house, directory)
        for step, *numbers in taken:
            getattr(books, step)(*numbers)
            posted = balances(house.tenant.pk)
            assert sum(posted.values()) == 0
            events = total(UsageEvent.objects, "amount_pico")
            assert -posted.get(("revenue", "USD"), 0) == events
            assert total(UsageHour.objects, "amount_pico") == events
        for _ in range(8):  # all that has ended by then
            books.close(0, 0)
        assert exported() == total(UsageEvent.objects, "amount_pico")
        usage = Charge.objects.filter(category=ChargeCategory.USAGE)
        ahead = total(Account.objects, "spent")
        assert total(usage, "billed_pico") + ahead == total(UsageEvent.objects, "amount_pico")
        assert total(usage, "effective_pico") == total(UsageEvent.objects, "amount_pico")
        assert balances(house.tenant.pk).get(("prepaid", "USD"), 0) == ahead
        payable = total(Invoice.objects, "payable_pico")
        assert payable == total(Charge.objects, "billed_pico")
        assert payable == balances(house.tenant.pk).get(("receivable", "USD"), 0)
        given_away = Charge.objects.filter(category=ChargeCategory.CREDIT)
        assert -total(given_away, "billed_pico") == total(GoodwillCredit.objects, "amount_pico")
        for invoice in Invoice.objects.all():
            lines = invoice.lines.aggregate(exact=Sum("exact_pico"), rounded=Sum("rounded_pico"))
            assert lines == {"exact": invoice.payable_pico, "rounded": invoice.payable_pico}
        transaction.set_rollback(True)
    shutil.rmtree(directory, ignore_errors=True)
