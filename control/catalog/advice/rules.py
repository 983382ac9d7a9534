"""What other versions would have cost for the same calls, and what a quantisation really gave."""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from control import checks
from control.metering.cost.rules import MILLION, PerMillion, Volume

MORE_THAN_PROMISED = Fraction(105, 100)  # of weights: below that it is measurement
NEVER_SERVED = "has served nothing on our devices lately: there is nothing to judge it by"


class VariantKind(StrEnum):
    SMALLER = "smaller"
    QUANTISED = "quantised"
    DISTILLED = "distilled"
    NONE = "none"  # no longer one


@dataclass(frozen=True)
class VariantWanted:
    """`version` could serve the calls of `of` for less; both as model:version."""

    of: str
    version: str
    kind: str

    @property
    def subject(self) -> str:
        return f"{self.version} for {self.of}"


@dataclass(frozen=True)
class Served:
    """What a version did in a time: its tokens, their cost, how soon the first one came."""

    volume: Volume
    per_million: PerMillion | None
    currency: str
    ttft_ms: Fraction | None


@dataclass(frozen=True)
class Cheaper:
    """The same calls on another version."""

    cost: Fraction
    saving: Fraction
    saving_ratio: Fraction


@dataclass(frozen=True)
class NotKnown:
    reason: str


@dataclass(frozen=True)
class Weighed:
    """What a quantised version was to take of a device, and took; bytes of weights."""

    promised_bytes: int
    measured_bytes: int

    @property
    def is_less_than_promised(self) -> bool:
        return self.measured_bytes > self.promised_bytes * MORE_THAN_PROMISED


def variant_wanted(of: str, version: str, kind: str) -> VariantWanted:
    for field, name in (("of", of), ("version", version)):
        model, separator, rest = name.partition(":")
        if not separator or not model or not rest:
            raise checks.refuse(field, f"{name!r} is no version: write model:version")
    if kind not in list(VariantKind):
        raise checks.refuse("kind", f"{kind!r} is unknown: use {', '.join(VariantKind)}")
    if of == version:
        raise checks.refuse("version", "is the version itself")
    return VariantWanted(of, version, kind)


def same_calls(cost: Fraction, served: Served, other: Served) -> Cheaper | NotKnown:
    """A negative saving is one too: then the other version would have cost more."""
    if other.per_million is None:
        return NotKnown(NEVER_SERVED)
    if other.currency != served.currency:
        return NotKnown(f"its cost is in {other.currency}, not in {served.currency}")
    if not cost:
        return NotKnown("its own cost is not known")
    volume, price = served.volume, other.per_million
    uncached = volume.input_tokens - volume.cached_input_tokens
    would = (
        uncached * price.input
        + volume.cached_input_tokens * price.cached_input
        + volume.output_tokens * price.output
    ) / MILLION
    return Cheaper(would, cost - would, (cost - would) / cost)
