"""What device time cost, split to whom it was allocated: FOCUS rows with split-cost columns."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

import pyarrow as pa
from django.db.models import F, Sum

from control.metering.exports import parquet
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
from control.metering.invoices import facts
from control.models import CostHour

METHOD = "gpu-time-v1"
RATIO_DIGITS = 6
HOUR_MICROSECONDS = 3_600_000_000
ROWS_MAX = 100_000
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


class Share(NamedTuple):
    """Part of what a pool cost in one currency: a tenant's deployment, or a line of nobody's."""

    pool: str
    currency: str
    tenant: str
    deployment: str
    line: str
    microseconds: int
    pico: int


@dataclass(frozen=True)
class CostsWanted:
    """A month in UTC: devices are of no tenant's calendar."""

    month: str


def costs_csv(wanted: CostsWanted) -> Iterator[bytes]:
    text = io.StringIO()
    write = csv.writer(text, lineterminator="\n").writerow
    write([column.name for column in COLUMNS])
    for row in _rows(wanted):
        write([_cell(column, row.get(column.name)) for column in COLUMNS])
    yield text.getvalue().encode()


def costs_parquet(wanted: CostsWanted) -> Iterator[bytes]:
    schema = schema_of(COLUMNS)
    rows = _rows(wanted)
    cells = {
        column.name: pa.array(
            [row.get(column.name) for row in rows], schema.field(column.name).type
        )
        for column in COLUMNS
    }
    return parquet.from_tables(schema, [pa.table(cells, schema=schema)])


def ratios(amounts: Sequence[int]) -> list[Decimal]:
    """Parts of their sum, rounded; they sum to exactly 1: the largest takes what is left."""
    whole = sum(amounts)
    if not whole:
        return [Decimal(1)] + [Decimal(0)] * (len(amounts) - 1) if amounts else []
    step = Decimal(1).scaleb(-RATIO_DIGITS)
    found = [EXACT.divide(Decimal(one), Decimal(whole)).quantize(step) for one in amounts]
    found[amounts.index(max(amounts))] += 1 - sum(found)
    return found


def shares(wanted: CostsWanted) -> list[Share]:
    since, until = month(wanted.month)
    names = {"to_tenant": F("tenant__name"), "to_deployment": F("deployment__name")}
    kept = ("pool", "currency", "to_tenant", "to_deployment", "line")
    parts = (
        "device_microseconds",
        "hardware_pico",
        "power_pico",
        "engineering_pico",
        "spread_pico",
    )
    rows = (
        CostHour.objects.filter(hour__gte=since, hour__lt=until)
        .exclude(currency="")
        .annotate(**names)
        .values(*kept)
        .annotate(**{f"sum_{name}": Sum(name) for name in parts})
        .order_by(*kept)[:ROWS_MAX]
    )
    return [
        Share(
            *(row[name] or "" for name in kept),
            int(row["sum_device_microseconds"]),
            sum(int(row[f"sum_{name}"]) for name in parts[1:]),
        )
        for row in rows
    ]


def _rows(wanted: CostsWanted) -> list[dict]:
    origins: dict[tuple[str, str], list[Share]] = {}
    for share in shares(wanted):
        origins.setdefault((share.pool, share.currency), []).append(share)
    of_all = _of_all(wanted)
    return [
        of_all | _of_share(share, ratio)
        for origin in origins.values()
        for share, ratio in zip(origin, ratios([one.pico for one in origin]), strict=True)
    ]


def _of_all(wanted: CostsWanted) -> dict:
    since, until = month(wanted.month)
    terms = facts.terms()
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


def _of_share(share: Share, ratio: Decimal) -> dict:
    cost, whose = decimal(share.pico), share.tenant or f"unallocated {share.line}"
    hours = EXACT.divide(Decimal(share.microseconds), Decimal(HOUR_MICROSECONDS))
    hours = hours.quantize(Decimal(1).scaleb(-9))
    element = {
        "AllocatedRatio": float(ratio),  # JSON's numbers; of six decimals it is exact
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
