"""Sums of usage by the hour: grown in the transaction that stores events, rebuilt from them."""

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
_GROUPED = ", ".join(str(number) for number in range(1, len(ALIKE) + 1))
GROW = f"ON CONFLICT ({', '.join(ALIKE)}) DO UPDATE SET " + ", ".join(
    f"{name} = control_usagehour.{name} + excluded.{name}" for name in SUMS
)


def of_events(source: str) -> str:
    """Sums over the events of a table; in order, so that two never wait for each other."""
    return f"SELECT {_SELECTED} FROM {source} GROUP BY {_GROUPED} ORDER BY {_GROUPED}"


def grown_by(source: str) -> str:
    """The statement that adds those sums to what is there."""
    return f"INSERT INTO control_usagehour ({COLUMN_LIST}) {of_events(source)} {GROW}"
