"""Files of what was used and billed. Named here is what other rooms call."""

from control.metering.exports.rules import UsageWanted, month
from control.metering.exports.usage import usage_csv, usage_csv_stream, usage_parquet

__all__ = ["UsageWanted", "month", "usage_csv", "usage_csv_stream", "usage_parquet"]
