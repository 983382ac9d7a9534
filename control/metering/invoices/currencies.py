"""What can be paid in a currency: its minor unit, amounts rounded to it and read in it. Pure."""

from control import checks
from control.metering.rules import PICO, amount_text

# Of ISO 4217; every other currency has two.
MINOR_DIGITS = {
    **dict.fromkeys(("BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF"), 0),
    **dict.fromkeys(("UGX", "UYI", "VND", "VUV", "XAF", "XOF", "XPF"), 0),
    **dict.fromkeys(("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"), 3),
    **dict.fromkeys(("CLF", "UYW"), 4),
}
MINOR_DIGITS_USUAL = 2
CREDIT_MAX_PICO = 10**9 * PICO


def minor_digits(currency: str) -> int:
    return MINOR_DIGITS.get(currency, MINOR_DIGITS_USUAL)


def rounded(pico: int, currency: str) -> int:
    """Half up, away from zero, to what can be paid in this currency."""
    unit = PICO // 10 ** minor_digits(currency)
    whole = (2 * abs(pico) + unit) // (2 * unit) * unit
    return whole if pico >= 0 else -whole


def credit_pico(currency: str, amount: str) -> int:
    """A credit is paid out, so it is of whole minor units."""
    digits = minor_digits(currency)
    whole, _, part = amount.strip().partition(".")
    if not (whole.isascii() and whole.isdigit()) or (part and not part.isdigit()) or "." in part:
        raise checks.refuse("amount", f'{amount!r} is no amount: write it as in "12.50"')
    if len(part.rstrip("0")) > digits:
        raise checks.refuse("amount", f"{amount} has more than the {digits} decimals of {currency}")
    pico = int(whole) * PICO + int(part.rstrip("0").ljust(12, "0") or 0)
    if not 0 < pico <= CREDIT_MAX_PICO:
        raise checks.refuse("amount", f"{amount} is not above 0 and at most 1,000,000,000")
    return pico


def money(pico: int, currency: str) -> str:
    """What can be paid, with all its decimals: 5.50."""
    digits, text = minor_digits(currency), amount_text(pico)
    whole, _, part = text.partition(".")
    return f"{whole}.{part.ljust(digits, '0')}" if digits or part else whole
