"""What a call costs: whole pico-units per token, no rounding, no floats."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from control import checks
from control.states import BudgetUnit, Outcome

PICO = 10**12
PICO_PER_TOKEN = PICO // 10**6  # of a price of one unit per million tokens
AMOUNT = re.compile(r"(\d{1,9})(?:\.(\d{1,6}))?")

# The caller's own doing (hanging up, reading too slowly) is not among them.
ENDED_BY_THE_PLATFORM = frozenset(
    {
        Outcome.INCOMPLETE,
        Outcome.TRUNCATED,
        Outcome.UPSTREAM_ERROR,
        Outcome.DEADLINE,
        Outcome.DRAINED,
        Outcome.LOST,
    }
)


@dataclass(frozen=True)
class PriceFacts:
    """Pico-units per token and class, in force from an instant on."""

    id: int
    currency: str
    input_pico: int
    cached_input_pico: int
    output_pico: int
    valid_from: datetime


class Tokens(NamedTuple):
    """Cached tokens are of the input, reasoning and delivered ones of the output."""

    input: int
    cached_input: int
    output: int
    reasoning: int = 0
    delivered: int = 0


class Charge(NamedTuple):
    """What a call costs, by which price, and why; the amount is what is billed x its price."""

    amount_pico: int
    currency: str
    price_id: int | None
    reason: str
    billed_input: int = 0
    billed_cached_input: int = 0
    billed_output: int = 0
    billed_reasoning: int = 0


@dataclass(frozen=True)
class PriceWanted:
    """What an operator asks for; made by `price_wanted`, which checks it."""

    model: str
    currency: str
    input_pico: int
    cached_input_pico: int
    output_pico: int


@dataclass(frozen=True)
class CostRateWanted:
    """What a device costs per hour; made by `cost_rate_wanted`, which checks it."""

    device: str
    currency: str
    hardware_per_hour: Decimal
    power_watts: Decimal
    power_per_kwh: Decimal
    pue: Decimal
    engineering_per_hour: Decimal


def clamp(tokens: Tokens) -> Tokens:
    """The nearest counts that can be true; unequal to what came in when that could not."""
    whole_input, whole_output = max(tokens.input, 0), max(tokens.output, 0)
    return Tokens(
        input=whole_input,
        cached_input=min(max(tokens.cached_input, 0), whole_input),
        output=whole_output,
        reasoning=min(max(tokens.reasoning, 0), whole_output),
        delivered=min(max(tokens.delivered, 0), whole_output),
    )


def cost_pico(tokens: Tokens, price: PriceFacts) -> int:
    """Cached input is charged at its own rate instead of the input rate, never at both."""
    uncached = tokens.input - tokens.cached_input
    return (
        uncached * price.input_pico
        + tokens.cached_input * price.cached_input_pico
        + tokens.output * price.output_pico
    )


def price_in_force(prices: Iterable[PriceFacts], at: datetime) -> PriceFacts | None:
    """The newest entry that was valid when the call started."""
    begun = [price for price in prices if price.valid_from <= at]
    return max(begun, key=lambda price: (price.valid_from, price.id), default=None)


def charge(outcome: str, tokens: Tokens, price: PriceFacts | None) -> Charge:
    """An interrupted call costs its input and what was generated for it, delivered or not.

    One that the platform ended before the first token costs nothing. Its tokens stay recorded.
    """
    if price is None:
        return Charge(0, "", None, "the model had no price when the call started")
    if outcome == Outcome.REJECTED:
        return Charge(0, price.currency, price.id, "the engine refused the call")
    if is_free(outcome, tokens):
        return Charge(0, price.currency, price.id, f"{outcome} before the first token")
    billed = (
        *(tokens.input - tokens.cached_input, tokens.cached_input),
        *(tokens.output - tokens.reasoning, tokens.reasoning),
    )
    return Charge(cost_pico(tokens, price), price.currency, price.id, "tokens x price", *billed)


def is_free(outcome: str, tokens: Tokens) -> bool:
    if outcome == Outcome.REJECTED:
        return True
    return tokens.output == 0 and outcome in ENDED_BY_THE_PLATFORM


def tokens_counted(outcome: str, tokens: Tokens) -> int:
    """Of a budget in tokens; cached ones count whole."""
    return 0 if is_free(outcome, tokens) else tokens.input + tokens.output


def units_of(unit: str, currency: str, charged: Charge, tokens: int) -> int:
    """What a call takes from a budget. Money of another currency is of another budget."""
    if unit == BudgetUnit.TOKENS:
        return tokens
    return charged.amount_pico if charged.currency == currency else 0


def amount_text(pico: int | Decimal) -> str:
    """The exact amount as a plain decimal: no exponent, no rounding, no padding."""
    sign, digits = ("-", -int(pico)) if pico < 0 else ("", int(pico))
    whole, part = divmod(digits, PICO)
    return f"{sign}{whole}.{part:012d}".rstrip("0").rstrip(".")


def per_million_text(pico: int) -> str:
    """A price per token as it was written: per million tokens."""
    return amount_text(pico * 10**6)


def price_wanted(model: str, currency: str, per_million: Mapping[str, str]) -> PriceWanted:
    """Check and convert prices per million tokens. Without a cached price the input price holds."""
    for name in sorted(set(per_million) - {"input", "cached_input", "output"}):
        raise checks.refuse(f"per_million.{name}", "is unknown: use input, cached_input, output")
    for name in ("input", "output"):
        if name not in per_million:
            raise checks.refuse(f"per_million.{name}", "is missing: name a price, 0 is one")
    cached = per_million.get("cached_input", per_million["input"])
    return PriceWanted(
        model=model,
        currency=_currency(currency),
        input_pico=_pico_per_token("per_million.input", per_million["input"]),
        cached_input_pico=_pico_per_token("per_million.cached_input", cached),
        output_pico=_pico_per_token("per_million.output", per_million["output"]),
    )


def cost_rate_wanted(device: str, currency: str, numbers: Mapping[str, object]) -> CostRateWanted:
    """Check and convert a cost rate. What is not named costs nothing; PUE is then 1."""
    defaults = {
        "hardware_per_hour": "0",
        "power_watts": "0",
        "power_per_kwh": "0",
        "pue": "1",
        "engineering_per_hour": "0",
    }
    for name in sorted(set(numbers) - set(defaults)):
        raise checks.refuse(name, f"is unknown: use {', '.join(defaults)}")
    if not device or len(device) > 128:
        raise checks.refuse("device", 'is a glob of 1 to 128 characters on a name, as in "*"')
    read = {name: _amount(name, numbers.get(name, other)) for name, other in defaults.items()}
    if read["pue"] < 1:
        raise checks.refuse("pue", "is at least 1: the room uses what its machines use")
    return CostRateWanted(device=device, currency=_currency(currency), **read)


def _currency(text: str) -> str:
    checks.require(checks.currency("currency", text))
    return text


def _pico_per_token(field: str, value: object) -> int:
    return int(_amount(field, value) * PICO_PER_TOKEN)


def _amount(field: str, value: object) -> Decimal:
    """Text or a whole number. A float has already lost what it stood for."""
    if isinstance(value, bool | float) or not AMOUNT.fullmatch(str(value)):
        raise checks.refuse(
            field,
            f"{value!r} is no amount: write it in quotes with at most nine digits and six"
            ' decimals, as in "0.40"',
        )
    return Decimal(str(value))
