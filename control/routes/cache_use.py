"""How much of a replica's KV cache its gateways use (pure)."""

USABLE_PERCENT = 90  # of what the cache holds: an engine that fills it preempts
GUARDED_SHARE = 0.8  # of that, while its deployment is guarded


def budget_ratio(*, guarded: bool) -> float:
    """Of the cache: a replica that uses so much of it is full."""
    return USABLE_PERCENT / 100 * (GUARDED_SHARE if guarded else 1.0)
