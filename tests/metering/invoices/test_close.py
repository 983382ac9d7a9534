"""A month closes once, with everything in it, and stays; what comes later goes to the next."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError, connection, transaction

from control.checks import Refused
from control.metering.invoices import actions, facts
from control.metering.ledger import balances
from control.metering.rules import PICO
from control.models import (
    AuditEntry,
    BillingPeriod,
    BillingTerms,
    Charge,
    Deployment,
    Drift,
    Invoice,
    InvoiceLine,
    Price,
    Replica,
    SpoolPosition,
)
from control.states import ChargeCategory, PeriodState
from tests.metering.books import reprice
from tests.metering.conftest import AT
from tests.metering.invoices.months import (
    DECEMBER_3,
    JANUARY_3,
    close,
    owed,
    period_at,
    store,
)

CALL_PICO = 80 * 1_000_000 + 20 * 250_000 + 50 * 4_000_000  # 0.000285


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_the_lines_of_an_invoice(house, tmp_path):
    store(tmp_path, *(house.close(f"req_{n}") for n in range(1000)))
    [invoice] = close(house.tenant, AT)
    found = facts.invoice(invoice.number)
    assert invoice.number == "acme-2026-11-01-USD"
    assert [
        (line.sku, line.tokens, line.unit_price, line.exact, line.rounded) for line in found.lines
    ] == [
        ("gemma.cached_input.standard", 20_000, "0.25", "0.005", "0.01"),
        ("gemma.input.standard", 80_000, "1", "0.08", "0.08"),
        ("gemma.output.standard", 50_000, "4", "0.2", "0.20"),
        ("", None, "", "0.005", "0.00"),
    ]
    assert (found.exact, found.rounding, found.payable) == ("0.285", "0.005", "0.29")
    assert found.lines[-1].category == ChargeCategory.ADJUSTMENT


def test_what_is_owed_in_the_ledger_is_what_is_payable(house, tmp_path):
    store(tmp_path, house.close("req_1"))
    [invoice] = close(house.tenant, AT)
    assert invoice.exact_pico == CALL_PICO
    assert owed(house.tenant) == invoice.payable_pico == 0
    assert balances()[("rounding", "USD")] == CALL_PICO
    assert sum(balances().values()) == 0


def test_charges_are_by_day_of_the_tenants_calendar_and_sum_to_the_invoice(house, tmp_path):
    house.tenant.timezone = "Asia/Shanghai"
    house.tenant.save()
    instants = ["2026-11-12T15:59:59Z", "2026-11-12T16:00:00Z", "2026-11-13T15:59:59Z"]
    store(
        tmp_path,
        *(
            house.close(f"req_{n}", started_at=at(one).timestamp())
            for n, one in enumerate(instants)
        ),
    )
    [invoice] = close(house.tenant, AT)
    rows = Charge.objects.filter(invoice=invoice, token_class="input").order_by("position")
    assert [(row.begins_at, row.ends_at, row.calls, row.tokens) for row in rows] == [
        (at("2026-11-11T16:00:00Z"), at("2026-11-12T16:00:00Z"), 1, 80),
        (at("2026-11-12T16:00:00Z"), at("2026-11-13T16:00:00Z"), 2, 160),
    ]
    billed = sum(row.billed_pico for row in Charge.objects.filter(invoice=invoice))
    assert billed == invoice.payable_pico


@pytest.mark.parametrize(
    ("zone", "edge"),
    [
        ("Asia/Shanghai", "2026-11-30T16:00:00Z"),
        ("America/Panama", "2026-12-01T05:00:00Z"),
        ("UTC", "2026-12-01T00:00:00Z"),
    ],
)
def test_a_month_ends_at_the_tenants_midnight(house, tmp_path, zone, edge):
    house.tenant.timezone = zone
    house.tenant.save()
    after = at(edge)
    before = after - timedelta(seconds=1)
    store(
        tmp_path,
        house.close("req_1", started_at=before.timestamp()),
        house.close("req_2", started_at=after.timestamp()),
    )
    assert period_at(house.tenant, before).ends_at == after
    close(house.tenant, before)
    close(house.tenant, after, JANUARY_3)
    november, december = BillingPeriod.objects.order_by("begins_at")
    assert (november.calls, december.calls) == (1, 1)
    assert not Charge.objects.filter(is_correction=True).exists()


def test_closing_again_changes_nothing(house, tmp_path):
    store(tmp_path, house.close("req_1"))
    first = close(house.tenant, AT)
    assert close(house.tenant, AT) == first
    assert AuditEntry.objects.filter(action="close period").count() == 1


def test_a_period_without_charges_closes_without_an_invoice(house, tmp_path):
    store(tmp_path, house.close("req_1", outcome="rejected"))
    assert close(house.tenant, AT) == []
    assert BillingPeriod.objects.get(begins_at__lte=AT, ends_at__gt=AT).calls == 1


def test_calls_without_a_price_are_counted_and_not_billed(house, tmp_path):
    store(tmp_path, house.close("req_1", version_id=None), house.close("req_2"))
    close(house.tenant, AT)
    period = period_at(house.tenant, AT)
    assert (period.calls, period.unpriced_calls) == (2, 1)


def test_a_period_that_runs_is_not_closed(house, tmp_path):
    store(tmp_path, house.close("req_1"))
    with pytest.raises(Refused, match="it runs until 2026-12-01 00:00 UTC"):
        close(house.tenant, AT, at=AT)


def test_periods_close_in_order(house, tmp_path):
    store(tmp_path, house.close("req_1"), house.close("req_2", started_at=DECEMBER_3.timestamp()))
    with pytest.raises(Refused, match="the one from 2026-11-01 is not closed"):
        close(house.tenant, DECEMBER_3, JANUARY_3)


def test_a_spool_that_is_behind_stands_against_it(house, tmp_path):
    store(tmp_path, house.close("req_1"))
    position = SpoolPosition.objects.create(
        owner="gw-9", segment=1, offset=1, at=AT, stored_until=AT
    )
    with pytest.raises(Refused, match=r"may wait in spools \(gw-9\)"):
        close(house.tenant, AT)
    SpoolPosition.objects.update(open_calls=2)
    with pytest.raises(Refused, match="2 calls of it have not ended"):
        close(house.tenant, AT)
    position.stored_until, position.open_calls = DECEMBER_3, 2  # of the next month
    position.save()
    assert close(house.tenant, AT)


def test_drift_nobody_has_explained_stands_against_the_tenants_it_is_of(house, tmp_path):
    deployment = Deployment.objects.create(name="d", version=house.version)
    replica = Replica.objects.create(deployment=deployment, generation=1)
    store(tmp_path, house.close("req_1", replica_id=replica.pk))
    hour = {"hour": AT, "begin_at": AT, "end_at": AT + timedelta(hours=1)}
    counts = dict.fromkeys(
        (*COUNTS, *(f"{name}_{end}" for name in COUNTS[2:4] for end in ("min", "max"))), 0
    )
    drift = Drift.objects.create(replica=replica, **hour, **counts, judged_at=AT, is_incident=True)
    with pytest.raises(Refused, match=f"drift is not explained .replica {replica.pk}"):
        close(house.tenant, AT)
    Drift.objects.update(closed_at=DECEMBER_3)
    assert close(house.tenant, AT)
    assert drift.pk


COUNTS = (
    *("engine_input_tokens", "engine_output_tokens", "input_tokens", "output_tokens"),
    *("unexplained_input_tokens", "unexplained_output_tokens"),
)


def test_what_comes_late_is_a_correction_of_the_next_month(house, tmp_path):
    store(tmp_path, house.close("req_1"))
    [november] = close(house.tenant, AT)
    store(tmp_path, house.close("req_2"), house.close("req_3", started_at=DECEMBER_3.timestamp()))
    [december] = close(house.tenant, DECEMBER_3, JANUARY_3)
    late = Charge.objects.filter(invoice=december, is_correction=True)
    assert {(row.begins_at.month, row.tokens) for row in late} == {(11, 80), (11, 20), (11, 50)}
    names = {f"{november.number}:{row.position}" for row in november.charges.all() if row.model}
    assert {row.corrects for row in late} == names
    assert december.exact_pico == 2 * CALL_PICO
    assert november.exact_pico == CALL_PICO


def test_what_came_late_once_is_not_billed_again(house, tmp_path):
    store(tmp_path, house.close("req_1"))
    close(house.tenant, AT)
    store(tmp_path, house.close("req_2"))
    close(house.tenant, DECEMBER_3, JANUARY_3)
    january = datetime(2027, 1, 5, tzinfo=UTC)
    store(tmp_path, house.close("req_3", started_at=january.timestamp()))
    [invoice] = close(house.tenant, january, datetime(2027, 2, 3, tzinfo=UTC))
    assert invoice.exact_pico == CALL_PICO


def test_two_prices_in_a_month_are_two_lines(house, tmp_path):
    store(tmp_path, house.close("req_1"))
    reprice(input_pico=2_000_000)
    store(tmp_path, house.close("req_2"))
    [invoice] = close(house.tenant, AT)
    prices = InvoiceLine.objects.filter(invoice=invoice, token_class="input")
    assert [(line.unit_price_pico, line.tokens) for line in prices.order_by("position")] == [
        (1_000_000, 80),
        (2_000_000, 80),
    ]
    assert Price.objects.count() == 2


@pytest.mark.parametrize("table", ["invoice", "invoiceline", "charge", "billingperiod"])
@pytest.mark.parametrize("change", ["UPDATE control_{} SET id = id", "DELETE FROM control_{}"])
def test_the_database_refuses_to_change_what_is_closed(house, tmp_path, table, change):
    store(tmp_path, house.close("req_1"))
    close(house.tenant, AT)
    with transaction.atomic(), connection.cursor() as cursor:
        savepoint = transaction.savepoint()
        with pytest.raises(IntegrityError):
            cursor.execute(change.format(table))
        transaction.savepoint_rollback(savepoint)


def test_the_clock_opens_lets_close_and_closes_when_the_terms_say_so(house, tmp_path):
    store(tmp_path, house.close("req_1"))
    actions.tick(AT)
    assert period_at(house.tenant, AT).state == PeriodState.OPEN
    actions.tick(DECEMBER_3)
    assert period_at(house.tenant, AT).state == PeriodState.CLOSING
    names = {"issuer": "Example Ltd", "provider": "Example MaaS", "host": "Example DC"}
    BillingTerms.objects.create(pk=1, **names, close_after_hours=72)
    actions.tick(DECEMBER_3)
    assert not Invoice.objects.exists()
    actions.tick(DECEMBER_3 + timedelta(days=1))
    assert Invoice.objects.get().issuer == "Example Ltd"
    assert period_at(house.tenant, DECEMBER_3).state == PeriodState.OPEN


def test_a_new_zone_leaves_no_gap_and_no_month_of_hours(house, tmp_path):
    store(tmp_path, house.close("req_1"))
    november = period_at(house.tenant, AT)
    house.tenant.timezone = "America/Panama"
    house.tenant.save()
    december = period_at(house.tenant, DECEMBER_3)
    assert december.begins_at == november.ends_at
    assert december.ends_at == at("2027-01-01T05:00:00Z")


def test_what_an_open_period_comes_to_is_told(house, tmp_path):
    store(tmp_path, *(house.close(f"req_{n}") for n in range(100)))
    [told] = facts.preview(period_at(house.tenant, AT).pk)
    assert (told.exact, told.payable, told.issued_at) == ("0.0285", "0.03", None)
    assert int(0.0285 * PICO) == 100 * CALL_PICO
