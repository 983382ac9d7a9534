"""An alert reaches its tenant's URL, signed by what that tenant's page shows."""

import json

from control.metering.alerts import actions, letters, secrets
from control.models import Budget, BudgetAlert, Tenant
from control.webhooks import rules, sending
from tests.metering.conftest import AT
from tests.metering.prepaid.test_actions import spend
from tests.webhooks.hook import running


def test_an_alert_arrives_once_and_signed(house):
    with running() as hook:
        Tenant.objects.update(alert_url=hook.url)
        Budget.objects.create(tenant=house.tenant, amount="1.00", currency="USD")
        actions.watch(AT)
        spend(house, 6 * 10**11)
        actions.watch(AT)
        alert = BudgetAlert.objects.latest("pk")
        assert sending.send((letters.BOX,), AT) == 1
        assert sending.send((letters.BOX,), AT) == 0
    [(headers, body)] = hook.seen
    assert json.loads(body)["data"]["percent"] == 50
    expected = rules.signed(body, f"alert_{alert.pk}", AT, *secrets.valid(house.tenant, AT))
    told = {name.lower(): value for name, value in headers.items()}
    assert {name: told[name] for name in expected} == expected
    alert.refresh_from_db()
    assert (alert.delivery, alert.tries, alert.answer) == ("delivered", 1, "")
