"""A charge → the cells of its FOCUS row, exact; null is None. Pure."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Context, Decimal

from control.metering.invoices.rules import ChargeFacts, described
from control.states import ChargeCategory, TokenClass

MILLION = 10**6
UNNAMED = "Operator"  # no column of names is empty before the billing terms are set
EXACT = Context(prec=60)
SERVICE = {
    "ServiceName": "Model Inference",
    "ServiceCategory": "AI and Machine Learning",
    "ServiceSubcategory": "Generative AI",
}
CREDIT_SKU = {
    "SkuId": "prepaid-credit",
    "SkuMeter": "Prepaid Credit",
    "SkuPriceId": "prepaid-credit",
    "PricingUnit": "Credits",
    "PricingCategory": "Standard",
    "ListUnitPrice": Decimal(1),
    "ContractedUnitPrice": Decimal(1),
}
FREQUENCIES = {
    ChargeCategory.USAGE: "Usage-Based",
    ChargeCategory.PURCHASE: "One-Time",
    ChargeCategory.CREDIT: "One-Time",
    ChargeCategory.ADJUSTMENT: "One-Time",
}
TYPES = {
    TokenClass.INPUT: "Input",
    TokenClass.CACHED_INPUT: "Cached Input",
    TokenClass.OUTPUT: "Output",
    TokenClass.REASONING: "Reasoning",
}


@dataclass(frozen=True)
class Bill:
    """What all rows of one tenant's period in one currency share."""

    tenant_id: int
    tenant: str
    begins_at: datetime
    ends_at: datetime
    invoice: str  # its number; empty until it is issued
    issuer: str
    provider: str
    host: str
    region_id: str
    region_name: str


Row = dict[str, object]


def row(charge: ChargeFacts, bill: Bill, position: int, line: int | None) -> Row:
    """Cells by column; a version of FOCUS takes those that it has."""
    billed = decimal(charge.billed_pico)
    return {
        **_of_bill(bill),
        **SERVICE,
        "BilledCost": billed,
        "EffectiveCost": decimal(charge.effective_pico),
        "ListCost": billed,
        "ContractedCost": billed,
        "BillingCurrency": charge.currency,
        "ChargePeriodStart": charge.begins_at,
        "ChargePeriodEnd": charge.ends_at,
        "ChargeCategory": str(charge.category),
        "ChargeClass": "Correction" if charge.is_correction else None,
        "ChargeDescription": charge.description or described(charge) or None,
        "ChargeFrequency": FREQUENCIES[ChargeCategory(charge.category)],
        "InvoiceDetailId": f"{bill.invoice}-{line}" if bill.invoice and line else None,
        "SubAccountId": _id("p", charge.project_id),
        "SubAccountName": charge.project or None,
        "x_CorrectsRowId": charge.corrects or None,
        "x_LedgerBatchId": charge.transfer or None,
        "x_RowId": f"{bill.invoice}:{position}" if bill.invoice else None,
        **_priced(charge),
    }


def _of_bill(bill: Bill) -> Row:
    provider = bill.provider or UNNAMED
    return {
        "BillingAccountId": _id("t", bill.tenant_id),
        "BillingAccountName": bill.tenant,
        "BillingPeriodStart": bill.begins_at,
        "BillingPeriodEnd": bill.ends_at,
        "InvoiceId": bill.invoice or None,
        "InvoiceIssuerName": bill.issuer or UNNAMED,
        "HostProviderName": bill.host or UNNAMED,
        "ServiceProviderName": provider,
        "ProviderName": provider,
        "PublisherName": provider,
        "RegionId": bill.region_id or None,
        "RegionName": bill.region_name or None,
    }


def _priced(charge: ChargeFacts) -> Row:
    match ChargeCategory(charge.category):
        case ChargeCategory.USAGE:
            return _usage(charge)
        case ChargeCategory.PURCHASE:
            # One credit costs one of its currency: a price that a list can hold.
            return CREDIT_SKU | {"PricingQuantity": decimal(charge.billed_pico)}
    return {}


def _usage(charge: ChargeFacts) -> Row:
    """Unit prices are per million tokens, so that they have no more decimals than were written."""
    tokens, kind = charge.tokens or 0, TYPES[TokenClass(charge.token_class)]
    sku = f"{charge.model}.{charge.token_class}"
    details = {
        "x_ModelName": charge.model,
        "x_ServiceTier": charge.priority,
        "x_TokenType": kind,
    }
    return {
        "ConsumedQuantity": Decimal(tokens),
        "ConsumedUnit": "Tokens",
        "PricingQuantity": EXACT.divide(Decimal(tokens), Decimal(MILLION)),
        "PricingUnit": "1000000 Tokens",
        "PricingCategory": "Standard",
        "ContractedUnitPrice": decimal(charge.unit_price_pico * MILLION),
        "ContractedCost": decimal(charge.unit_price_pico * tokens),
        "ListUnitPrice": decimal(charge.list_price_pico * MILLION),
        "ListCost": decimal(charge.list_price_pico * tokens),
        "SkuId": sku,
        "SkuMeter": f"{kind} Tokens",
        "SkuPriceId": f"{sku}.{charge.priority}",
        "SkuPriceDetails": as_json(details),
        "ResourceId": f"{charge.model}:{charge.version}" if charge.version else None,
        "ResourceName": charge.version or None,
        "ResourceType": "Model Version" if charge.version else None,
        "Tags": as_json({"weir/key": charge.key}) if charge.key else None,
        "x_ApiKeyId": _id("key", charge.key_id),
        "x_CostBasis": "Paid ahead" if charge.is_paid_ahead else "Metered",
        "x_Model": charge.model,
        "x_RequestCount": Decimal(charge.calls or 0),
        "x_ServiceTier": charge.priority,
        "x_TokenType": kind,
    }


def decimal(pico: int) -> Decimal:
    return Decimal(pico).scaleb(-12, EXACT)


def decimal_text(number: Decimal) -> str:
    """Plain: no exponent, no zeros at the end, no minus before nothing."""
    text = f"{number:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text in ("-0", "") else text


def instant_text(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def as_json(members: dict[str, str]) -> str:
    return json.dumps(members, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _id(prefix: str, id_: int | None) -> str | None:
    return None if id_ is None else f"{prefix}-{id_}"
