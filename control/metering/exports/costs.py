"""What device time cost, split to whom it was allocated: FOCUS rows with split-cost columns."""

import csv
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa

from control.metering.exports import parquet, shares
from control.metering.exports.focus import columns
from control.metering.exports.focus.columns import Column, Kind, schema_of
from control.metering.exports.focus.rules import (
    EXACT,
    UNNAMED,
    as_json,
    decimal,
    decimal_text,
    instant_text,
)
from control.metering.exports.rules import harmless, month
from control.metering.exports.shares import Share
from control.metering.invoices import facts
from control.models import CostMonth

METHOD = "gpu-time-v1"
HOUR_MICROSECONDS = 3_600_000_000
FOCUS = {column.name: column for column in columns.COLUMNS}
COLUMNS = (
    Column("AllocatedMethodDetails", Kind.JSON),
    Column("AllocatedMethodId"),
    Column("AllocatedResourceId"),
    Column("AllocatedResourceName"),
    Column("AllocatedTags", Kind.JSON),
    *(
        FOCUS[name]
        for name in (
            "BilledCost",
            "BillingAccountId",
            "BillingAccountName",
            "BillingCurrency",
            "BillingPeriodEnd",
            "BillingPeriodStart",
            "ChargeCategory",
            "ChargeClass",
            "ChargeDescription",
            "ChargeFrequency",
            "ChargePeriodEnd",
            "ChargePeriodStart",
            "ConsumedQuantity",
            "ConsumedUnit",
            "ContractedCost",
            "EffectiveCost",
            "HostProviderName",
            "InvoiceIssuerName",
            "ListCost",
            "PricingQuantity",
            "PricingUnit",
            "RegionId",
            "RegionName",
            "ResourceId",
            "ResourceName",
            "ResourceType",
            "ServiceCategory",
            "ServiceName",
            "ServiceProviderName",
            "ServiceSubcategory",
            "SubAccountId",
            "SubAccountName",
        )
    ),
    Column("x_CostLine"),
)


@dataclass(frozen=True)
class CostsWanted:
    """A month in UTC: devices are of no tenant's calendar."""

    month: str


def costs_csv(wanted: CostsWanted) -> Iterator[bytes]:
    yield _csv([[column.name for column in COLUMNS]])
    for page in _pages(wanted):
        yield _csv([[_cell(column, row.get(column.name)) for column in COLUMNS] for row in page])


def costs_parquet(wanted: CostsWanted) -> Iterator[bytes]:
    schema = schema_of(COLUMNS)
    return parquet.from_tables(schema, (_table(page, schema) for page in _pages(wanted)))


def _pages(wanted: CostsWanted) -> Iterator[list[dict]]:
    """As they were when the month was frozen, or as they are now."""
    month(wanted.month)  # refuse what is none before the first byte
    frozen = CostMonth.objects.filter(month=wanted.month).first()
    of_all = _of_all(wanted, frozen or facts.terms())
    for page in shares.frozen(frozen) if frozen else shares.by_now(wanted.month):
        yield [of_all | _of_share(share) for share in page]


def _of_all(wanted: CostsWanted, terms: CostMonth | facts.TermsFacts) -> dict:
    since, until = month(wanted.month)
    provider = terms.provider or UNNAMED
    return {
        "BillingAccountId": "platform",
        "BillingAccountName": provider,
        "BillingPeriodStart": since,
        "BillingPeriodEnd": until,
        "ChargePeriodStart": since,
        "ChargePeriodEnd": until,
        "ChargeCategory": "Usage",
        "ChargeFrequency": "Usage-Based",
        "HostProviderName": terms.host or UNNAMED,
        "InvoiceIssuerName": terms.issuer or UNNAMED,
        "ServiceProviderName": provider,
        "RegionId": terms.region_id or None,
        "RegionName": terms.region_name or None,
        "ServiceName": "Accelerator Capacity",
        "ServiceCategory": "AI and Machine Learning",
        "ServiceSubcategory": "AI Platforms",
    }


def _of_share(share: Share) -> dict:
    cost, whose = decimal(share.pico), share.tenant or f"unallocated {share.line}"
    hours = EXACT.divide(Decimal(share.microseconds), Decimal(HOUR_MICROSECONDS))
    hours = hours.quantize(Decimal(1).scaleb(-9))
    element = {
        "AllocatedRatio": float(share.ratio),  # JSON's numbers; of six decimals it is exact
        "UsageUnit": "GPU-Hours",
        "UsageQuantity": float(hours),
    }
    to = "/".join(filter(None, (whose, share.deployment)))
    return {
        **dict.fromkeys(("BilledCost", "EffectiveCost", "ListCost", "ContractedCost"), cost),
        "BillingCurrency": share.currency,
        "ChargeDescription": f"{share.pool}: {share.line} time of {to}",
        "ConsumedQuantity": hours,
        "ConsumedUnit": "GPU-Hours",
        "PricingQuantity": hours,
        "PricingUnit": "GPU-Hours",
        "ResourceId": f"pool-{share.pool}",
        "ResourceName": share.pool,
        "ResourceType": "Device Pool",
        "SubAccountName": share.tenant or None,
        "SubAccountId": share.tenant or None,
        "AllocatedMethodId": METHOD,
        "AllocatedMethodDetails": json.dumps({"Elements": [element]}, separators=(",", ":")),
        "AllocatedResourceId": to,
        "AllocatedResourceName": share.deployment or whose,
        "AllocatedTags": as_json({"weir/line": share.line}),
        "x_CostLine": share.line,
    }


def _cell(column: Column, value: object) -> str | None:
    if value is None:
        return None
    match column.kind:
        case Kind.DECIMAL:
            return decimal_text(value)
        case Kind.INSTANT:
            return instant_text(value)
    return harmless(str(value))


def _table(page: list[dict], schema: pa.Schema) -> pa.Table:
    cells = {
        column.name: pa.array(
            [row.get(column.name) for row in page], schema.field(column.name).type
        )
        for column in COLUMNS
    }
    return pa.table(cells, schema=schema)


def _csv(rows: Iterable[Iterable[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()
