"""The columns of a FOCUS file: their types, which may be empty, and what versions have them."""

from enum import StrEnum
from typing import NamedTuple

import pyarrow as pa

from control import checks
from control.metering.exports.wanted import FOCUS_VERSIONS

SCALE = 12  # money is whole pico-units
PRECISION = 38
NEW, OLD = ("1.4",), ("1.2",)
GENERATOR = "Weir"
STYLE = (
    "Append-only. A closed billing period is never restated: corrections come with a later one,"
    " each as a full reversal and a new row, and what was stored late as a new row; all have"
    " ChargeClass Correction and the charge period of the original."
)


class Kind(StrEnum):
    DECIMAL = "Decimal"
    INSTANT = "DateTime"
    TEXT = "String"
    JSON = "JSON"


class Column(NamedTuple):
    name: str
    kind: Kind = Kind.TEXT
    nullable: bool = True
    versions: tuple[str, ...] = FOCUS_VERSIONS


D, T, J = Kind.DECIMAL, Kind.INSTANT, Kind.JSON
COLUMNS = (
    Column("BilledCost", D, nullable=False),
    Column("BillingAccountId", nullable=False),
    Column("BillingAccountName"),
    Column("BillingCurrency", nullable=False),
    Column("BillingPeriodEnd", T, nullable=False),
    Column("BillingPeriodStart", T, nullable=False),
    Column("ChargeCategory", nullable=False),
    Column("ChargeClass"),
    Column("ChargeDescription"),
    Column("ChargeFrequency", nullable=False),
    Column("ChargePeriodEnd", T, nullable=False),
    Column("ChargePeriodStart", T, nullable=False),
    Column("ConsumedQuantity", D),
    Column("ConsumedUnit"),
    Column("ContractedCost", D, nullable=False),
    Column("ContractedUnitPrice", D),
    Column("EffectiveCost", D, nullable=False),
    Column("HostProviderName", nullable=False, versions=NEW),
    Column("InvoiceDetailId", versions=NEW),
    Column("InvoiceId"),
    Column("InvoiceIssuerName", nullable=False),
    Column("ListCost", D, nullable=False),
    Column("ListUnitPrice", D),
    Column("PricingCategory"),
    Column("PricingQuantity", D),
    Column("PricingUnit"),
    Column("ProviderName", nullable=False, versions=OLD),
    Column("PublisherName", nullable=False, versions=OLD),
    Column("RegionId"),
    Column("RegionName"),
    Column("ResourceId"),
    Column("ResourceName"),
    Column("ResourceType"),
    Column("ServiceCategory", nullable=False),
    Column("ServiceName", nullable=False),
    Column("ServiceProviderName", nullable=False, versions=NEW),
    Column("ServiceSubcategory", nullable=False),
    Column("SkuId"),
    Column("SkuMeter"),
    Column("SkuPriceDetails", J),
    Column("SkuPriceId"),
    Column("SubAccountId"),
    Column("SubAccountName"),
    Column("Tags", J),
    Column("x_ApiKeyId"),
    Column("x_CorrectsRowId"),
    Column("x_CostBasis"),
    Column("x_LedgerBatchId"),
    Column("x_Model"),
    Column("x_RequestCount", D),
    Column("x_RowId"),
    Column("x_ServiceTier"),
    Column("x_TokenType"),
)
_TYPES = {
    Kind.DECIMAL: pa.decimal128(PRECISION, SCALE),
    Kind.INSTANT: pa.timestamp("ms", tz="UTC"),  # Parquet knows no seconds
    Kind.TEXT: pa.string(),
    Kind.JSON: pa.string(),
}


def columns_of(version: str) -> tuple[Column, ...]:
    checks.require(checks.one_of("version", version, FOCUS_VERSIONS))
    return tuple(column for column in COLUMNS if version in column.versions)


def schema_of(columns: tuple[Column, ...]) -> pa.Schema:
    return pa.schema(
        [pa.field(one.name, _TYPES[one.kind], nullable=one.nullable) for one in columns]
    )


def described(version: str) -> dict:
    """The file that goes with every delivery; the same columns have the same id."""
    return {
        "SchemaId": f"weir-focus-{version}-2",
        "FocusVersion": version,
        "DataGenerator": GENERATOR,
        "DataGeneratorNotes": STYLE,
        "CreationDate": "2026-11-30T00:00:00Z",
        "ColumnDefinition": [_definition(column) for column in columns_of(version)],
    }


def _definition(column: Column) -> dict:
    told = {
        "ColumnName": column.name,
        "DataType": column.kind.upper(),
        "AllowsNull": column.nullable,
    }
    if column.kind is Kind.DECIMAL:
        told |= {"NumericPrecision": PRECISION, "NumberScale": SCALE}
    return told
