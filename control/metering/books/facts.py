"""Do the books agree? What events say, what the ledger says, what the sums by the hour say."""

from dataclasses import dataclass

from django.db import connection

from control.metering.rules import amount_text

_EVENTS = (
    "SELECT currency, count(*) FILTER (WHERE kind = 'final'), sum(amount_pico)"
    " FROM control_usageevent GROUP BY 1"
)
_HOURS = "SELECT currency, sum(calls), sum(amount_pico) FROM control_usagehour GROUP BY 1"
_LEDGER = (
    "SELECT currency, sum(amount_pico) FROM control_posting JOIN control_transfer transfer"
    " ON transfer.id = transfer_id WHERE idempotency_key LIKE 'usage:%%'"
    " AND account = 'receivable' GROUP BY 1"
)
_ALL = "SELECT currency, sum(amount_pico) FROM control_posting GROUP BY 1"
# Of a batch and tenant: what its events cost against what its transfers moved.
OWED = """
WITH charged AS (
    SELECT batch, tenant_id, currency, sum(amount_pico) AS amount FROM control_usageevent
     WHERE amount_pico <> 0 GROUP BY 1, 2, 3
), posted AS (
    SELECT CASE WHEN split_part(idempotency_key, ':', 4) IN ('final', '') THEN 0
                ELSE split_part(idempotency_key, ':', 2)::bigint END AS batch,
           tenant_id, currency, sum(amount_pico) AS amount
      FROM control_posting JOIN control_transfer transfer ON transfer.id = transfer_id
     WHERE idempotency_key LIKE 'usage:%%' AND account = 'receivable' GROUP BY 1, 2, 3
)
SELECT batch, tenant_id, currency, coalesce(charged.amount, 0) - coalesce(posted.amount, 0)
  FROM charged FULL JOIN posted USING (batch, tenant_id, currency)
 WHERE charged.amount IS DISTINCT FROM posted.amount
   AND coalesce(charged.amount, 0) <> coalesce(posted.amount, 0)
 ORDER BY 1, 2, 3
"""


@dataclass(frozen=True)
class Agreement:
    """Of one currency; empty is of calls that had no price."""

    currency: str
    calls: int
    calls_in_hours: int
    charged_pico: int
    owed_pico: int  # by what usage has moved in the ledger
    in_hours_pico: int
    balance_pico: int  # of all accounts together

    @property
    def holds(self) -> bool:
        amounts = {self.charged_pico, self.owed_pico, self.in_hours_pico}
        return len(amounts) == 1 and self.calls == self.calls_in_hours and not self.balance_pico

    @property
    def text(self) -> str:
        told = (
            f"{self.calls} calls and {amount_text(self.charged_pico)} in events,"
            f" {self.calls_in_hours} and {amount_text(self.in_hours_pico)} by the hour,"
            f" {amount_text(self.owed_pico)} in the ledger,"
            f" whose accounts sum to {amount_text(self.balance_pico)}"
        )
        return f"{self.currency or 'without a price'}: {told}"


def agreement() -> list[Agreement]:
    """By currency. Reads all there is: seconds, for many millions of calls."""
    with connection.cursor() as cursor:
        events, hours, ledger, balances = (
            {row[0]: row[1:] for row in _rows(cursor, query)}
            for query in (_EVENTS, _HOURS, _LEDGER, _ALL)
        )
    return [
        Agreement(
            currency,
            *_both(events.get(currency), hours.get(currency)),
            charged_pico=int(events.get(currency, (0, 0))[1]),
            owed_pico=int(ledger.get(currency, (0,))[0]),
            in_hours_pico=int(hours.get(currency, (0, 0))[1]),
            balance_pico=int(balances.get(currency, (0,))[0]),
        )
        for currency in sorted({*events, *hours, *ledger, *balances})
    ]


def _both(events: tuple | None, hours: tuple | None) -> tuple[int, int]:
    return int(events[0]) if events else 0, int(hours[0]) if hours else 0


def _rows(cursor, query: str) -> list[tuple]:
    cursor.execute(query, [])
    return cursor.fetchall()
