"""The tables of what is closed refuse every change, whoever asks."""

from datetime import UTC, datetime

import pytest
from django.db import IntegrityError, connection, transaction

from control.models import BillingPeriod
from control.states import PeriodState

BEGINS, ENDS = datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)
APPEND_ONLY = ("invoice", "invoiceline", "charge", "goodwillcredit", "costmonth", "costshare")


def a_period(house) -> BillingPeriod:
    return BillingPeriod.objects.create(
        tenant=house.tenant, begins_at=BEGINS, ends_at=ENDS, timezone="UTC"
    )


def refuses(statement: str) -> bool:
    with transaction.atomic(), connection.cursor() as cursor:
        try:
            with transaction.atomic():
                cursor.execute(statement)
        except IntegrityError:
            return True
    return False


def test_an_open_period_moves_and_a_closed_one_stays(house):
    period = a_period(house)
    BillingPeriod.objects.update(state=PeriodState.CLOSED)
    assert refuses("UPDATE control_billingperiod SET state = 'open'")
    assert refuses("DELETE FROM control_billingperiod")
    period.refresh_from_db()
    assert period.state == PeriodState.CLOSED


@pytest.mark.parametrize("table", [*APPEND_ONLY, "billingperiod"])
def test_no_table_of_bills_is_truncated(db, table):
    assert refuses(f"TRUNCATE control_{table} CASCADE")
