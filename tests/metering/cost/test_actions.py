"""Cost rates: new entries from now on, equal ones change nothing."""

from datetime import UTC, datetime, timedelta

import pytest

from control.metering.cost import actions
from control.metering.cost.wanted import cost_rate_wanted
from control.models import AuditEntry, CostRate

pytestmark = pytest.mark.django_db

AT = datetime(2026, 11, 29, 12, tzinfo=UTC)
LATER = AT + timedelta(days=1)
WHO = {"by": "anna", "reason": "a test"}


def test_a_cost_rate_is_an_entry_and_an_equal_one_is_none():
    one = cost_rate_wanted("*", "USD", {"hardware_per_hour": "2.50", "pue": "1.35"})
    same = cost_rate_wanted("*", "USD", {"hardware_per_hour": "2.5", "pue": "1.350"})
    other = cost_rate_wanted("*H100*", "USD", {"hardware_per_hour": "2.50"})
    for wanted, at in ((one, AT), (same, LATER), (other, LATER)):
        actions.save_cost_rate(wanted, at=at, **WHO)
    assert list(CostRate.objects.order_by("pk").values_list("device", flat=True)) == ["*", "*H100*"]
    assert AuditEntry.objects.first().after["hardware_per_hour"] == "2.50"
