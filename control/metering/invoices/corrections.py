"""A call that was counted wrongly: reversed and counted anew, as rows beside the first."""

from dataclasses import dataclass, replace
from datetime import datetime

from django.db import connection, transaction

from control import checks
from control.metering import budgets, ledger, rollups
from control.metering.budgets import Spending
from control.metering.prices.rules import Charge
from control.metering.rules import Tokens
from control.models import Tenant, UsageEvent
from control.models.audit import record

FIRST = "final"
OWNER = "corrections"  # holds no lease of any account
TOKENS_MAX = 10**12
# The first row's, with other counts: what it cost is of the price that it was priced by.
ROW = """
INSERT INTO control_usageevent (tenant_id, project_id, key_id, call_id, kind, month, corrects,
    route, version_id, replica_id, endpoint, stream, priority, attempts, outcome, status,
    finish_reason, input_tokens, cached_input_tokens, output_tokens, reasoning_tokens,
    delivered_tokens, billed_input, billed_cached_input, billed_output, billed_reasoning,
    tokens_source, started_at, first_token_at, ended_at, price_id, currency, amount_pico, batch,
    content_hash, ingested_at)
SELECT tenant_id, project_id, key_id, call_id, %(kind)s, month, %(corrects)s,
    route, version_id, replica_id, endpoint, stream, priority, attempts, outcome, status,
    finish_reason, %(input)s, %(cached)s, %(output)s, %(reasoning)s, %(delivered)s,
    %(billed_input)s, %(cached)s, %(billed_output)s, %(reasoning)s,
    tokens_source, started_at, NULL, started_at, price_id, currency, %(amount)s, %(batch)s,
    md5(%(kind)s || ' of ' || content_hash), %(at)s
  FROM control_usageevent WHERE tenant_id = %(tenant)s AND call_id = %(call)s AND kind = 'final'
"""
NEW_BATCH = "SELECT nextval('weir_usage_batches')"


@dataclass(frozen=True)
class Counts:
    """Of one row, as it is billed: the four classes do not overlap."""

    input: int
    cached_input: int
    output: int
    reasoning: int

    def __neg__(self) -> "Counts":
        return Counts(-self.input, -self.cached_input, -self.output, -self.reasoning)

    @property
    def total(self) -> int:
        return self.input + self.cached_input + self.output + self.reasoning


def counts_of(tokens: Tokens) -> Counts:
    """What a call costs that used these; cached ones are of the input, reasoning of the output."""
    for name, count in tokens._asdict().items():
        checks.require(checks.whole(name, count, 0, TOKENS_MAX))
    if tokens.cached_input > tokens.input:
        raise checks.refuse("cached_input", "is more than the input, which holds it")
    if tokens.reasoning > tokens.output:
        raise checks.refuse("reasoning", "is more than the output, which holds it")
    return Counts(
        tokens.input - tokens.cached_input,
        tokens.cached_input,
        tokens.output - tokens.reasoning,
        tokens.reasoning,
    )


def correct_call(
    call: tuple[str, str], tokens: Tokens, *, by: str, reason: str, at: datetime
) -> tuple[str, ...]:
    """Bill a call, `call` = (tenant, call id), by other counts; returns the kinds of the new rows.

    In a period that is closed nothing changes: what is open bills the reversal and the new row.
    """
    right = counts_of(tokens)
    if not reason.strip():
        raise checks.refuse("reason", "is required: it stands in the audit")
    tenant_name, call_id = call
    with transaction.atomic():
        tenant = Tenant.objects.select_for_update().filter(name=tenant_name).first()
        rows = UsageEvent.objects.filter(tenant=tenant, call_id=call_id) if tenant else ()
        of_kind = {row.kind: row for row in rows}
        if FIRST not in of_kind:
            raise checks.unknown("call", f"tenant {tenant_name!r} has no call {call_id!r}")
        last = of_kind[_last_kind(of_kind)]
        wrong = _counts(last)
        if wrong == right:
            raise checks.refuse("tokens", "are those that the call is billed by already")
        number = len(of_kind) // 2 * 2 + 1
        kinds = (f"adj{number}", f"adj{number + 1}")
        changes = ((kinds[0], -wrong), (kinds[1], right))
        total = sum(_store(last, kind, counts, at) for kind, counts in changes)
        _spend(last, right.total - wrong.total, total, at)
        change = (_told(wrong), _told(right))
        record(
            "correct call", f"{tenant_name} {call_id}", by=by, reason=reason, at=at, change=change
        )
    return kinds


def _last_kind(of_kind: dict) -> str:
    """The newest that is no reversal: they come in pairs."""
    number = len(of_kind) // 2 * 2
    return f"adj{number}" if number else FIRST


def _counts(row: UsageEvent) -> Counts:
    return Counts(
        row.billed_input, row.billed_cached_input, row.billed_output, row.billed_reasoning
    )


def _told(counts: Counts) -> dict:
    return dict(counts.__dict__)


def _store(last: UsageEvent, kind: str, counts: Counts, at: datetime) -> int:
    """One row, what it adds to the roll-ups, its transfer; returns what it costs."""
    amount = _amount(last, counts)
    values = {
        "tenant": last.tenant_id,
        "call": last.call_id,
        "kind": kind,
        "corrects": last.kind,
        "input": counts.input + counts.cached_input,
        "cached": counts.cached_input,
        "output": counts.output + counts.reasoning,
        "reasoning": counts.reasoning,
        "delivered": 0,
        "billed_input": counts.input,
        "billed_output": counts.output,
        "amount": amount,
        "at": at,
    }
    with connection.cursor() as cursor:
        cursor.execute(NEW_BATCH)
        [batch] = cursor.fetchone()
        cursor.execute(ROW, {**values, "batch": batch})
        rollups.grow(cursor, {_alike(last): _sums(counts, amount)})
    if amount:
        transfer = ledger.usage_transfer(batch, last.tenant_id, last.currency, amount, at)
        ledger.post([replace(transfer, reason=f"{kind} of {last.call_id}")])
    return amount


def _alike(row: UsageEvent) -> tuple:
    """What it shares with the call's own row in the roll-ups, in their order."""
    hour = int(row.started_at.timestamp()) // 3600
    return (hour, *(getattr(row, name) for name in rollups.ALIKE[1:]))


def _sums(counts: Counts, amount: int) -> list[int]:
    sums = dict.fromkeys(rollups.SUMS, 0) | {
        "input_tokens": counts.input + counts.cached_input,
        "cached_input_tokens": counts.cached_input,
        "output_tokens": counts.output + counts.reasoning,
        "reasoning_tokens": counts.reasoning,
        "billed_input": counts.input,
        "billed_cached_input": counts.cached_input,
        "billed_output": counts.output,
        "billed_reasoning": counts.reasoning,
        "amount_pico": amount,
    }
    return list(sums.values())


def _amount(row: UsageEvent, counts: Counts) -> int:
    price = row.price if row.price_id else None
    if price is None:
        return 0
    reasoning = price.output_pico if price.reasoning_pico is None else price.reasoning_pico
    return (
        counts.input * price.input_pico
        + counts.cached_input * price.cached_input_pico
        + counts.output * price.output_pico
        + counts.reasoning * reasoning
    )


def _spend(last: UsageEvent, tokens: int, pico: int, at: datetime) -> None:
    """Of the budgets of the call's own period, and of credit paid ahead."""
    charged = Charge(pico, last.currency, last.price_id, "correction")
    names = (last.tenant_id, last.project_id, last.key_id, last.started_at)
    budgets.spend(OWNER, [Spending(*names, charged, tokens)], at=at)
