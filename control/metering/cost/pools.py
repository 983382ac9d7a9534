"""Who pays for idle devices, pool by pool, as it holds at an instant."""

from datetime import datetime
from fractions import Fraction

from control.metering.cost.allocation import IdlePolicy, PoolPolicy
from control.models import CostPool


def policies(at: datetime) -> dict[str, PoolPolicy]:
    """Of pools that have an entry; others are proportional."""
    entries = CostPool.objects.filter(valid_from__lte=at)
    newest = entries.order_by("pool", "-valid_from", "-pk").distinct("pool")
    return {
        row.pool: PoolPolicy(IdlePolicy(row.idle), Fraction(row.practical_ratio)) for row in newest
    }
