"""What any wanted value must satisfy, whoever asks: names, text, ranges, amounts. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

NAME_CHARACTERS_MAX = 63
PUBLIC_NAME_CHARACTERS_MAX = 96
TEXT_CHARACTERS_MAX = 2000
AMOUNT_DECIMALS_MAX = 6
AMOUNT_MAX = Decimal(10**9)
RATE_MAX = 1e9
BURST_SECONDS_MAX = 3600.0
URL_CHARACTERS_MAX = 500

_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9_-]*[a-zA-Z0-9])?")
_MODEL_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9._-]*[a-zA-Z0-9])?")
_PUBLIC_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9._:/-]*[a-zA-Z0-9])?")
_URL = re.compile(
    r"https?://(?P<user>[^/?#@]*@)?"
    r"([A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])"
    r"(:(?P<port>[0-9]{1,5}))?"
    r"(/[A-Za-z0-9._~%/-]*)?"
)
_CURRENCY = re.compile(r"[A-Z]{3}")


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: which field, and what to do about it."""

    field: str
    what: str

    def __str__(self) -> str:
        return f"{self.field}: {self.what}" if self.field else self.what

    def under(self, path: str) -> "Problem":
        return Problem(".".join(part for part in (path, self.field) if part), self.what)


@dataclass(frozen=True)
class Bucket:
    """What may be asked a second of a route or deployment; None is what its engines can."""

    calls_per_second: float | None = None
    tokens_per_second: float | None = None
    burst_seconds: float = 5.0


class Refused(Exception):
    """What was asked for cannot be done; every problem names its field."""

    def __init__(self, problems: Iterable[Problem]):
        self.problems = tuple(problems)
        super().__init__("; ".join(str(problem) for problem in self.problems))


class Unknown(Refused):
    """What was named is not there."""


def unknown(field: str, what: str) -> Unknown:
    return Unknown([Problem(field, what)])


def refuse(field: str, what: str) -> Refused:
    return Refused([Problem(field, what)])


def require(problems: Iterable[Problem]) -> None:
    """Raise Refused with all problems, if there is one."""
    if found := tuple(problems):
        raise Refused(found)


def name(field: str, value: str) -> list[Problem]:
    """Tenants, projects, keys, deployments, nodes: what may stand in an address."""
    return _named(field, value, _NAME, NAME_CHARACTERS_MAX, "letters, digits, - and _")


def version_name(field: str, value: str) -> list[Problem]:
    return _named(field, value, _MODEL_NAME, NAME_CHARACTERS_MAX, "letters, digits, . - and _")


def model_name(field: str, value: str) -> list[Problem]:
    """Models have dots in their names: llama-3.1-8b."""
    return _named(
        field, value, _MODEL_NAME, PUBLIC_NAME_CHARACTERS_MAX, "letters, digits, . - and _"
    )


def public_name(field: str, value: str) -> list[Problem]:
    """Routes: what a caller writes as `model`, as in org/name:tag."""
    return _named(
        field, value, _PUBLIC_NAME, PUBLIC_NAME_CHARACTERS_MAX, "letters, digits, . : / - and _"
    )


def _named(field: str, value: str, form: re.Pattern, longest: int, allowed: str) -> list[Problem]:
    if len(value) > longest:
        return [Problem(field, f"is longer than {longest} characters")]
    if not form.fullmatch(value):
        what = f"{value!r} is no name: use {allowed}, a letter or digit at both ends"
        return [Problem(field, what)]
    return []


def text(field: str, value: str, longest: int = TEXT_CHARACTERS_MAX) -> list[Problem]:
    """Words for people: line breaks are fine, other control characters are not."""
    if len(value) > longest:
        return [Problem(field, f"is longer than {longest} characters")]
    if not value.replace("\n", "").replace("\t", "").isprintable():
        return [Problem(field, "holds control characters")]
    return []


def whole(field: str, value: int | None, low: int, high: int) -> list[Problem]:
    if value is not None and not low <= value <= high:
        return [Problem(field, f"{value} is not between {low} and {high}")]
    return []


def between(field: str, value: float | None, low: float, high: float) -> list[Problem]:
    """A measure; one that is no number lies nowhere."""
    if value is not None and not low <= value <= high:
        return [Problem(field, f"{value:g} is not between {low:g} and {high:g}")]
    return []


def bucket(field: str, value: Bucket | None) -> list[Problem]:
    if value is None:
        return []
    return [
        *_rate(f"{field}.calls_per_second", value.calls_per_second),
        *_rate(f"{field}.tokens_per_second", value.tokens_per_second),
        *between(f"{field}.burst_seconds", value.burst_seconds, 0.1, BURST_SECONDS_MAX),
    ]


def _rate(field: str, value: float | None) -> list[Problem]:
    if value is not None and not 0 < value <= RATE_MAX:
        return [Problem(field, f"{value:g} is not above 0 and at most {RATE_MAX:g}")]
    return []


def amount(field: str, value: Decimal, most: Decimal = AMOUNT_MAX) -> list[Problem]:
    """Money is whole pico-units a token, so no more than six decimals."""
    if not value.is_finite() or not 0 <= value <= most:
        return [Problem(field, f"{value} is not between 0 and {most:,}")]
    if -value.as_tuple().exponent > AMOUNT_DECIMALS_MAX and value % Decimal("0.000001"):
        return [Problem(field, f"{value} has more than {AMOUNT_DECIMALS_MAX} decimals")]
    return []


def currency(field: str, value: str) -> list[Problem]:
    if not _CURRENCY.fullmatch(value):
        return [Problem(field, f"{value!r} is no currency: use three capitals, as in USD")]
    return []


def one_of(field: str, value: str, allowed: Iterable[str]) -> list[Problem]:
    names = [str(option) for option in allowed]
    return [] if value in names else [Problem(field, f"{value!r} is not one of {', '.join(names)}")]


def url(field: str, value: str) -> list[Problem]:
    """Whom operators let us call: a host and a path, in which no secret stands."""
    if len(value) > URL_CHARACTERS_MAX:
        return [Problem(field, f"is longer than {URL_CHARACTERS_MAX} characters")]
    parts = _URL.fullmatch(value)
    if parts is None or not 0 < int(parts["port"] or 80) < 65536:
        return [Problem(field, "is http:// or https:// with a host, without a query")]
    if parts["user"]:
        return [Problem(field, "holds a secret: files and pages show it; let the host trust us")]
    return []
