"""Files of what was used and billed. Named here is what other rooms call."""

from control.metering.exports.rules import UsageWanted, month
from control.metering.exports.usage import (
    in_thread,
    usage_csv,
    usage_parquet,
)

__all__ = [
    "UsageWanted",
    "in_thread",
    "month",
    "usage_csv",
    "usage_parquet",
]
