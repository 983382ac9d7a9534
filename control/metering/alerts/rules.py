"""When people are told of a budget, and in which words (pure)."""

import json
from dataclasses import dataclass
from datetime import datetime

from control.metering.rules import amount_text
from control.states import BudgetMode, BudgetUnit

THRESHOLDS = (50, 80, 100)  # percent


@dataclass(frozen=True)
class AlertFacts:
    """A part of a budget, or of a tenant's credit, that was used up at an instant."""

    id: int
    tenant: str
    scope: str
    unit: str
    currency: str
    period: str
    mode: str
    begins_at: datetime
    percent: int
    amount: int
    spent: int
    at: datetime
    seen_at: datetime | None
    seen_by: str
    url: str
    delivery: str
    tries: int
    answer: str

    @property
    def is_urgent(self) -> bool:
        """Calls are refused, or soon will be."""
        return self.percent == THRESHOLDS[-1] and self.mode == BudgetMode.HARD

    @property
    def text(self) -> str:
        spent, amount = units(self.unit, self.spent), units(self.unit, self.amount)
        what = self.currency or "tokens"
        if self.unit == BudgetUnit.CREDIT:
            return f"{self.percent} % of the prepaid credit of {self.scope} is used ({what})"
        soft = "soft " if self.mode == BudgetMode.SOFT else ""
        return (
            f"{self.percent} % of the {soft}budget of {self.scope} is used:"
            f" {spent} of {amount} {what} this {self.period}"
        )


def units(unit: str, value: int) -> str:
    return str(value) if unit == BudgetUnit.TOKENS else amount_text(value)


def message(alert: AlertFacts) -> bytes:
    """What is sent: the same bytes at each try."""
    told = {
        "type": "budget.alert",
        "id": message_id(alert),
        "timestamp": alert.at.isoformat(),
        "data": {
            "tenant": alert.tenant,
            "scope": alert.scope,
            "kind": "credit" if alert.unit == BudgetUnit.CREDIT else "budget",
            "mode": alert.mode,
            "percent": alert.percent,
            "unit": alert.currency or "tokens",
            "amount": units(alert.unit, alert.amount),
            "spent": units(alert.unit, alert.spent),
            "period": alert.period or None,
            "period_begins_at": alert.begins_at.isoformat() if alert.period else None,
            "text": alert.text,
        },
    }
    return json.dumps(told, separators=(",", ":")).encode()


def message_id(alert: AlertFacts) -> str:
    """By which a receiver knows a message that it has had."""
    return f"alert_{alert.id}"
