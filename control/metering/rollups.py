"""Sums of usage by the hour: grown in the transaction that stores events, rebuilt from them."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from operator import add

from control.metering.rows import Made

ALIKE = (
    *("hour", "tenant_id", "project_id", "key_id", "version_id", "route", "endpoint"),
    *("priority", "outcome", "price_id", "currency"),
)
SUMS = (
    *("calls", "input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens"),
    *("delivered_tokens", "billed_input", "billed_cached_input", "billed_output"),
    *("billed_reasoning", "amount_pico", "ttft_ms_sum", "ttft_calls", "duration_ms_sum"),
)
COLUMN_LIST = ", ".join((*ALIKE, *SUMS))
_TYPES = (
    *("timestamptz", "bigint", "bigint", "bigint", "bigint", "text", "text", "text", "text"),
    *("bigint", "text"),
    *("numeric" if name == "amount_pico" else "bigint" for name in SUMS),
)
_IN_ORDER = ", ".join(str(number) for number in range(1, len(ALIKE) + 1))
_GROWN = f"ON CONFLICT ({', '.join(ALIKE)}) DO UPDATE SET " + ", ".join(
    f"{name} = control_usagehour.{name} + excluded.{name}" for name in SUMS
)
# In order, so that two shippers never wait for each other.
GROW = (
    f"INSERT INTO control_usagehour ({COLUMN_LIST})"
    f" SELECT * FROM unnest({', '.join(f'%s::{type_}[]' for type_ in _TYPES)})"
    f" ORDER BY {_IN_ORDER} {_GROWN}"
)
_OF_EVENTS = {
    "hour": "date_trunc('hour', started_at, 'UTC')",
    "calls": "count(*) FILTER (WHERE kind = 'final')",
    "ttft_ms_sum": (
        "coalesce(sum(floor(extract(epoch FROM first_token_at - started_at) * 1000)), 0)"
    ),
    "ttft_calls": "count(first_token_at)",
    "duration_ms_sum": "sum(floor(extract(epoch FROM ended_at - started_at) * 1000))",
}
_SELECTED = ", ".join(
    f"{_OF_EVENTS.get(name) or (name if name in ALIKE else f'sum({name})')} AS {name}"
    for name in (*ALIKE, *SUMS)
)
OF_EVENTS = (  # the same from what is stored
    f"SELECT {_SELECTED} FROM control_usageevent"
    " WHERE started_at >= %(since)s AND started_at < %(until)s"
    f" GROUP BY {_IN_ORDER}"
)
_AMOUNT = SUMS.index("amount_pico")
_TENANT, _CURRENCY = ALIKE.index("tenant_id"), ALIKE.index("currency")
_HOUR_US = 3600 * 10**6


def sums_of(made: Iterable[Made]) -> dict[tuple, list[int]]:
    """Of calls, by what of them is alike."""
    groups: dict[tuple, list[Made]] = defaultdict(list)
    for one in made:
        groups[one.alike, one.started_us // _HOUR_US, one.charged.price_id].append(one)
    found: dict[tuple, list[int]] = {}
    for (_, hour, price_id), ones in groups.items():
        close = ones[0].close
        key = (
            *(hour, close.tenant_id, close.project_id, close.key_id, close.version_id),
            *(close.route, close.endpoint, close.priority, close.outcome),
            *(price_id, ones[0].charged.currency),
        )
        sums, others = _sums(ones), found.get(key)
        found[key] = [*map(add, sums, others)] if others else sums
    return found


def _sums(ones: list[Made]) -> list[int]:
    amounts, _, _, _, *billed = zip(*[one.charged for one in ones], strict=True)
    firsts = [one.first_us - one.started_us for one in ones if one.first_us]
    return [
        len(ones),
        *map(sum, zip(*[one.tokens for one in ones], strict=True)),
        *map(sum, billed),
        sum(amounts),
        sum([first // 1000 for first in firsts]),
        len(firsts),
        sum([(one.ended_us - one.started_us) // 1000 for one in ones]),
    ]


def amounts_of(sums: dict[tuple, list[int]]) -> dict[tuple[int, str], int]:
    """What each tenant owes, by currency."""
    amounts: dict[tuple[int, str], int] = defaultdict(int)
    for alike, values in sums.items():
        if amount := values[_AMOUNT]:
            amounts[alike[_TENANT], alike[_CURRENCY]] += amount
    return amounts


def grow(cursor, sums: dict[tuple, list[int]]) -> None:
    """Add them to the table; its foreign keys say whether there is such a tenant, key, …"""
    rows = [
        (datetime.fromtimestamp(hour * 3600, UTC), *alike, *values)
        for (hour, *alike), values in sums.items()
    ]
    columns = [
        list(column) if type_ in ("text", "timestamptz") else numbers(column)
        for type_, column in zip(_TYPES, zip(*rows, strict=True), strict=True)
    ]
    cursor.execute(GROW, columns)


def numbers(column: Iterable[int | None]) -> str:
    """An array as text: made in a tenth of the time that its elements take one by one."""
    return "{" + ",".join(["NULL" if one is None else str(one) for one in column]) + "}"
