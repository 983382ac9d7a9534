"""Tokens as they can be true, amounts as text and as numbers: no rounding, no floats."""

import re
from decimal import Decimal
from typing import NamedTuple

from control import checks
from control.states import Outcome

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


class Tokens(NamedTuple):
    """Cached tokens are of the input, reasoning and delivered ones of the output."""

    input: int
    cached_input: int
    output: int
    reasoning: int = 0
    delivered: int = 0


def could_be(tokens: Tokens) -> bool:
    whole, cached, output, reasoning, delivered = tokens
    return 0 <= cached <= whole and 0 <= reasoning <= output and 0 <= delivered <= output


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


def amount_text(pico: int | Decimal) -> str:
    """The exact amount as a plain decimal: no exponent, no rounding, no padding."""
    sign, digits = ("-", -int(pico)) if pico < 0 else ("", int(pico))
    whole, part = divmod(digits, PICO)
    return f"{sign}{whole}.{part:012d}".rstrip("0").rstrip(".")


def per_million_text(pico: int) -> str:
    """A price per token as it was written: per million tokens."""
    return amount_text(pico * 10**6)


def currency_of(text: str) -> str:
    checks.require(checks.currency("currency", text))
    return text


def pico_per_token(field: str, value: object) -> int:
    return int(amount_of(field, value) * PICO_PER_TOKEN)


def amount_of(field: str, value: object) -> Decimal:
    """Text or a whole number. A float has already lost what it stood for."""
    if isinstance(value, bool | float) or not AMOUNT.fullmatch(str(value)):
        raise checks.refuse(
            field,
            f"{value!r} is no amount: write it in quotes with at most nine digits and six"
            ' decimals, as in "0.40"',
        )
    return Decimal(str(value))
