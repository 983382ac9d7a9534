"""Alerts as messages to their tenants' URLs."""

from datetime import datetime

from control.metering.alerts import facts, rules, secrets
from control.models import BudgetAlert
from control.webhooks.sending import Box, Message


def words(row: BudgetAlert, at: datetime) -> Message:
    alert = facts.alert_of(row)
    return Message(rules.message_id(alert), rules.message(alert), secrets.valid(row.tenant, at))


BOX = Box(BudgetAlert, "tenant", words)
