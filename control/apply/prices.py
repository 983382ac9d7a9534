"""The price books of a service.yaml: one row, or many by priority and volume."""

from collections.abc import Mapping

from control.apply.entries import all_bad
from control.apply.fields import Fields, Findings
from control.metering.prices.wanted import CLASSES, PriceWanted, price_wanted


def price(fields: Fields, findings: Findings) -> PriceWanted | None:
    amounts = {f"per_million.{name}": text for name, text in _classes(fields).items()}
    values = {"model": fields.required("model"), "currency": fields.required("currency")}
    terms = {
        "tenant": fields.text("tenant", ""),
        "interrupted": fields.text("interrupted", ""),
        "step": fields.number("step"),
        "valid_from": fields.instant("valid_from"),
        "valid_until": fields.instant("valid_until"),
        "below_cost_reason": fields.text("below_cost_reason", ""),
    }
    shapes = []
    for number, inner in enumerate(fields.items("rows")):
        shapes.append(
            {"priority": inner.text("priority", ""), "from_tokens": inner.whole("from_tokens", 0)}
        )
        classes = _classes(inner)
        amounts |= {f"rows[{number}].per_million.{name}": it for name, it in classes.items()}
        inner.end()
    fields.end()

    def make(values: Mapping[str, object]) -> PriceWanted:
        further = [
            shape | {"per_million": _named(values, f"rows[{number}].per_million.")}
            for number, shape in enumerate(shapes)
        ]
        named = {name: values[name] for name in terms}
        base = _named(values, "per_million.")
        return price_wanted(values["model"], values["currency"], base, further=further, terms=named)

    return all_bad(make, values | terms | amounts, fields.path, findings)


def _classes(fields: Fields) -> dict[str, str | None]:
    inner = fields.mapping("per_million")
    amounts = {name: inner.number(name) for name in CLASSES}
    inner.end()
    return amounts


def _named(values: Mapping[str, object], path: str) -> dict[str, object]:
    named = {name: values[f"{path}{name}"] for name in CLASSES}
    return {name: value for name, value in named.items() if value is not None}
