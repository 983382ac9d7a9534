"""What a service.yaml says of cost: rates of devices, policies of pools, weights, variants."""

from collections.abc import Mapping

from control.apply.entries import all_bad
from control.apply.fields import Fields, Findings
from control.catalog.advice.rules import VariantWanted, variant_wanted
from control.metering.cost.wanted import (
    NUMBERS,
    OWNED,
    THOUSANDTHS,
    CostPoolWanted,
    CostRateWanted,
    TokenWeightsWanted,
    cost_pool_wanted,
    cost_rate_wanted,
    token_weights_wanted,
)


def cost_rate(fields: Fields, findings: Findings) -> CostRateWanted | None:
    values = {"device": fields.required("device"), "currency": fields.required("currency")}
    values |= {"pool": fields.text("pool", "")}
    values |= {name: fields.number(name) for name in NUMBERS}
    is_owned = fields.has("owned")
    inner = fields.mapping("owned")
    values |= {
        f"owned.{name}": inner.whole(name) if name == "months" else inner.number(name)
        for name in OWNED
    }
    inner.end()
    fields.end()
    for name in THOUSANDTHS:
        if len((values[name] or "").partition(".")[2].rstrip("0")) > 3:
            findings.add(fields.at(name), f"{values[name]} has more than 3 decimals")

    def make(values: Mapping[str, object]) -> CostRateWanted:
        named = {name: values[name] for name in NUMBERS if values[name] is not None}
        # A stand-in for "owned" says that it is left out after all.
        owned = {name: values[f"owned.{name}"] for name in OWNED} if is_owned else None
        if "owned" in values:
            owned = None
        return cost_rate_wanted(
            values["device"], values["currency"], named, pool=values["pool"], owned=owned
        )

    return all_bad(make, values, fields.path, findings)


def cost_pool(fields: Fields, findings: Findings) -> CostPoolWanted | None:
    values = {
        "pool": fields.required("pool"),
        "idle": fields.required("idle"),
        "practical_use": fields.number("practical_use"),
    }
    fields.end()
    return all_bad(lambda values: cost_pool_wanted(**values), values, fields.path, findings)


def token_weight(fields: Fields, findings: Findings) -> TokenWeightsWanted | None:
    values = {
        "model": fields.required("model"),
        "version": fields.text("version", ""),
        "cached_input": fields.number("cached_input", "0.1"),
        "output": fields.number("output", "4"),
    }
    fields.end()
    return all_bad(lambda values: token_weights_wanted(**values), values, fields.path, findings)


def variant(fields: Fields, findings: Findings) -> VariantWanted | None:
    names = ("of", "version", "kind")
    values = {name: fields.required(name) for name in names}
    fields.end()
    if not all(values.values()):
        return None
    return all_bad(lambda values: variant_wanted(**values), values, fields.path, findings)
