"""What tokens cost: device time over tokens; exact fractions; parts sum to the whole."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction

MILLION = 10**6
HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Weights:
    """How much device time a token of a class takes, beside one of uncached input."""

    cached_input: Fraction = Fraction(1, 10)
    output: Fraction = Fraction(4)


WEIGHTS = Weights()


@dataclass(frozen=True)
class Volume:
    """Tokens served. Cached ones are of the input."""

    input_tokens: int
    cached_input_tokens: int
    output_tokens: int

    def __add__(self, other: "Volume") -> "Volume":
        return Volume(
            self.input_tokens + other.input_tokens,
            self.cached_input_tokens + other.cached_input_tokens,
            self.output_tokens + other.output_tokens,
        )

    def weighted(self, weights: Weights = WEIGHTS) -> Fraction:
        uncached = self.input_tokens - self.cached_input_tokens
        return (
            Fraction(uncached)
            + self.cached_input_tokens * weights.cached_input
            + self.output_tokens * weights.output
        )


@dataclass(frozen=True)
class PerMillion:
    """Cost of a million tokens of each class."""

    input: Fraction
    cached_input: Fraction
    output: Fraction


@dataclass(frozen=True)
class NoTokens:
    """Why there is no cost per token; the whole cost is then cost of idleness."""

    reason: str


@dataclass(frozen=True)
class Possible:
    """A claimed price of output follows with this weight of an output token."""

    output_weight: Fraction


@dataclass(frozen=True)
class Impossible:
    """A claimed price of output does not follow from cost and volume, and why."""

    output_weight: Fraction | None
    reason: str


def hour_of(at: datetime) -> datetime:
    """The beginning of the hour that an instant is in, in UTC."""
    return at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def cost_per_million(
    cost: Fraction, served: Sequence[tuple[Volume, Weights]]
) -> PerMillion | NoTokens:
    """The whole cost over the tokens served: idle time is in it, for someone has to pay it.

    Versions have weights of their own: each class is at the mean of its tokens. The sum over the
    classes of cost x tokens / 1,000,000 is `cost` again, exactly.
    """
    weighted = sum((volume.weighted(weights) for volume, weights in served), Fraction(0))
    if not weighted:
        return NoTokens("no tokens were served in this time")
    unit = cost / weighted * MILLION
    last = served[-1][1]
    cached = [(volume.cached_input_tokens, weights.cached_input) for volume, weights in served]
    output = [(volume.output_tokens, weights.output) for volume, weights in served]
    return PerMillion(
        unit,
        unit * _mean(cached, last.cached_input),
        unit * _mean(output, last.output),
    )


def _mean(weighted: Sequence[tuple[int, Fraction]], otherwise: Fraction) -> Fraction:
    count = sum(tokens for tokens, _ in weighted)
    if not count:
        return otherwise
    return sum((tokens * weight for tokens, weight in weighted), Fraction(0)) / count


def at_use(cost: Fraction, practised: Fraction | None, wanted: Fraction) -> Fraction | None:
    """What the same work would cost were its devices busy for `wanted` of their time.

    The busy time stays what it was; more or fewer device hours would be paid for around it.
    """
    if practised is None or not practised:
        return None
    return cost * practised / wanted


def formula(weights: Weights = WEIGHTS) -> str:
    """Shown beside every figure that was made with it."""
    return (
        "device hours x (hardware + (device + host watts) / 1000 x PUE x tariff + engineering) / "
        f"(input + {fraction_text(weights.cached_input)} x cached input"
        f" + {fraction_text(weights.output)} x output) x 1,000,000; idle time included"
    )


def rounded(parts: Mapping[str, Fraction], places: int = 2) -> dict[str, Decimal]:
    """Round so that the rounded parts still sum to the rounded whole.

    The largest part takes the remainder: there it is the smallest change in proportion.
    """
    whole = round_half_up(sum(parts.values(), Fraction(0)), places)
    result = {name: round_half_up(part, places) for name, part in parts.items()}
    if result:
        largest = max(parts, key=lambda name: (abs(parts[name]), name))
        result[largest] += whole - sum(result.values())
    return result


def check_claim(
    cost: Fraction, volume: Volume, output_per_million: Fraction, weights: Weights = WEIGHTS
) -> Possible | Impossible:
    """Whether a price per million output tokens can follow from this cost and volume.

    Solved for the weight of an output token: k = p W_in / (C - p n_out), where W_in is the input
    with cached tokens at their weight. An output token takes more device time, never less.
    """
    price = output_per_million / MILLION
    weighted_input = volume.weighted(replace(weights, output=Fraction(0)))
    rest = cost - price * volume.output_tokens
    if rest < 0:
        return Impossible(None, "output alone would bring in more than everything costs")
    if rest == 0 and weighted_input:
        return Impossible(None, "input would have to be free")
    weight = price * weighted_input / rest if rest else Fraction(1)
    if weight >= 1:
        return Possible(weight)
    absorbed = price * volume.output_tokens / cost * 100
    return Impossible(
        weight,
        f"it pays {fraction_text(absorbed, 1)} % of the cost, and an output token would have to be"
        f" {fraction_text(1 / weight, 1) if weight else 'infinitely'} times cheaper than an"
        " input token: state another volume, share of the devices or cost basis",
    )


def round_half_up(value: Fraction, places: int) -> Decimal:
    """Rounding is stated: half up, away from zero (Decimal's own default is half even)."""
    scaled = abs(value) * 10**places
    whole = int(scaled)
    if scaled - whole >= Fraction(1, 2):
        whole += 1
    with localcontext() as context:
        context.prec = 60
        sign = -1 if value < 0 else 1
        return (Decimal(sign * whole) / 10**places).quantize(
            Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP
        )


def fraction_text(value: Fraction, places: int = 6) -> str:
    """A plain decimal, without padding."""
    text = f"{round_half_up(value, places):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
