"""Which price a call has, and what it costs by it: whole pico-units, no rounding, no floats."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from control.metering.rules import ENDED_BY_THE_PLATFORM, Tokens
from control.states import BudgetUnit, Interrupted, Outcome


@dataclass(frozen=True)
class PriceFacts:
    """A row of a price book: pico-units per token and class, for a priority and from a volume on.

    Rows of one version share `book`; 0 is a row of an older release, a version alone.
    """

    id: int
    currency: str
    input_pico: int
    cached_input_pico: int
    output_pico: int
    valid_from: datetime
    reasoning_pico: int | None = None  # as output
    priority: str = ""  # every one that has no row of its own
    tier_from_tokens: int = 0
    interrupted: str = Interrupted.GENERATED
    valid_until: datetime | None = None
    book: int = 0


Rows = tuple[PriceFacts, ...]


class Billed(NamedTuple):
    """Tokens that are charged, each in one class."""

    input: int = 0
    cached_input: int = 0
    output: int = 0
    reasoning: int = 0


class Charge(NamedTuple):
    """What a call costs, by which price, and why; amount = sum of what is billed x its price."""

    amount_pico: int
    currency: str
    price_id: int | None
    reason: str
    billed_input: int = 0
    billed_cached_input: int = 0
    billed_output: int = 0
    billed_reasoning: int = 0

    @property
    def billed(self) -> Billed:
        return Billed(*self[4:])


class Span(NamedTuple):
    """When one version of a book may hold, and its rows for a priority, by volume."""

    begins: datetime | int  # epoch microseconds, where many calls are asked about
    ends: datetime | int | None
    tiers: Rows


NONE_BILLED = Billed()


# --- what a call costs ---


def charge(outcome: str, tokens: Tokens, price: PriceFacts | None) -> Charge:
    """What it costs as it ended; `tokens` are clamped. They stay recorded, billed or not."""
    if price is None:
        return Charge(0, "", None, "the model had no price when the call started")
    if outcome == "complete":  # nearly all: no other question is asked
        fresh, cached, output, reasoning, _ = tokens
        billed, reason = (fresh - cached, cached, output - reasoning, reasoning), "tokens x price"
    else:
        billed = billed_of(outcome, tokens, price.interrupted)
        reason = _why(outcome, tokens, price.interrupted)
    return Charge(cost_pico(billed, price), price.currency, price.id, reason, *billed)


def billed_of(outcome: str, tokens: Tokens, interrupted: str = Interrupted.GENERATED) -> Billed:
    """By the policy of the book: what an interrupted call generated, what of it arrived, nothing.

    One that the platform ended before the first token costs nothing by any of them. Reasoning is
    generated first, so it is what was delivered first.
    """
    if outcome == Outcome.COMPLETE:
        return _whole(tokens)
    if outcome == Outcome.REJECTED or interrupted == Interrupted.NOTHING:
        return NONE_BILLED
    if interrupted == Interrupted.DELIVERED:
        sent = min(tokens.delivered, tokens.output)
        reasoning = min(tokens.reasoning, sent)
        return _whole(tokens._replace(output=sent, reasoning=reasoning)) if sent else NONE_BILLED
    if tokens.output == 0 and outcome in ENDED_BY_THE_PLATFORM:
        return NONE_BILLED
    return _whole(tokens)


def _whole(tokens: Tokens) -> Billed:
    """Cached input is charged at its own rate instead of the input rate, never at both."""
    return Billed(
        tokens.input - tokens.cached_input,
        tokens.cached_input,
        tokens.output - tokens.reasoning,
        tokens.reasoning,
    )


def _why(outcome: str, tokens: Tokens, interrupted: str) -> str:
    if outcome == Outcome.REJECTED:
        return "the engine refused the call"
    if interrupted == Interrupted.NOTHING:
        return "interrupted calls cost nothing"
    if interrupted == Interrupted.DELIVERED:
        return "tokens delivered x price" if tokens.delivered else "nothing was delivered"
    if tokens.output == 0 and outcome in ENDED_BY_THE_PLATFORM:
        return f"{outcome} before the first token"
    return "tokens x price"


def cost_pico(billed: tuple[int, int, int, int], price: PriceFacts) -> int:
    fresh, cached, output, reasoning = billed
    amount = fresh * price.input_pico + cached * price.cached_input_pico
    if reasoning and price.reasoning_pico is not None:
        return amount + output * price.output_pico + reasoning * price.reasoning_pico
    return amount + (output + reasoning) * price.output_pico


def tokens_counted(outcome: str, tokens: Tokens, price: PriceFacts | None = None) -> int:
    """Of a budget in tokens, and of a tier's volume: what is billed, cached ones whole."""
    return sum(billed_of(outcome, tokens, price.interrupted if price else Interrupted.GENERATED))


def units_of(unit: str, currency: str, charged: Charge, tokens: int) -> int:
    """What a call takes from a budget. Money of another currency is of another budget."""
    if unit == BudgetUnit.TOKENS:
        return tokens
    return charged.amount_pico if charged.currency == currency else 0


# --- which price it has ---


def spans_of(general: Iterable[PriceFacts], own: Iterable[PriceFacts], priority: str) -> list[Span]:
    """The first that holds an instant prices its calls: the tenant's own before everyone's.

    Of each the newest begun that has not ended; a version that ended gives way to the one before.
    """
    return [*_spans(own, priority), *_spans(general, priority)]


def _spans(rows: Iterable[PriceFacts], priority: str) -> list[Span]:
    versions: dict[int, list[PriceFacts]] = defaultdict(list)
    for row in rows:
        versions[row.book or -row.id].append(row)
    newest_first = sorted(
        versions.values(), key=lambda version: (version[0].valid_from, version[-1].id), reverse=True
    )
    found = []
    for version in newest_first:
        tiers = [row for row in version if row.priority == priority]
        tiers = tiers or [row for row in version if not row.priority]
        if tiers:
            by_volume = tuple(sorted(tiers, key=lambda row: row.tier_from_tokens))
            found.append(Span(version[0].valid_from, version[0].valid_until, by_volume))
    return found


def tiers_in_force(spans: Iterable[Span], at: datetime | int) -> Rows:
    """Its rows by volume, least first; none, if nothing is priced at that instant."""
    for begins, ends, tiers in spans:
        if begins <= at and (ends is None or at < ends):
            return tiers
    return ()


def row_of(tiers: Sequence[PriceFacts], volume_tokens: int) -> PriceFacts | None:
    """The row that the volume before the call has reached: it prices the call whole."""
    found = None
    for row in tiers:
        if row.tier_from_tokens <= volume_tokens:
            found = row
    return found


def dearest(tiers: Sequence[PriceFacts], outcome: str, tokens: Tokens) -> PriceFacts | None:
    """The row that charges most for it: which tier holds is known only where events are stored."""
    if len(tiers) < 2:
        return tiers[0] if tiers else None
    billed = billed_of(outcome, tokens, tiers[0].interrupted)
    return max(tiers, key=lambda row: cost_pico(billed, row))


def most_pico(tiers: Iterable[PriceFacts], input_tokens: int, output_tokens: int) -> int:
    """The most that so many tokens may cost, whatever class they turn out to be of."""
    return max(
        input_tokens * max(row.input_pico, row.cached_input_pico)
        + output_tokens * max(row.output_pico, row.reasoning_pico or 0)
        for row in tiers
    )


class Prices:
    """What models cost whom, worked out once for each tenant, model and priority."""

    __slots__ = ("_general", "_own", "_spans")

    def __init__(
        self,
        general: Mapping[str, Rows],
        own: Mapping[int, Mapping[str, Rows]] | None = None,  # by tenant
    ) -> None:
        self._general = general
        self._own = own or {}
        self._spans: dict[tuple[int, str, str], list[Span]] = {}

    def tiers(self, tenant_id: int, model: str, priority: str, at: datetime) -> Rows:
        """In force at that instant, by volume; none of a model without a price."""
        name = (tenant_id, model, priority)
        spans = self._spans.get(name)
        if spans is None:
            own = self._own[tenant_id].get(model, ()) if tenant_id in self._own else ()
            spans = self._spans[name] = spans_of(self._general.get(model, ()), own, priority)
        return tiers_in_force(spans, at)


# --- when versions end ---


def end_of(
    begins: datetime, ends: datetime | None, number: int, withdrawals: Iterable[tuple]
) -> datetime | None:
    """A version ends with the first withdrawal, (from, number), that came after it."""
    later = [at for at, withdrawn in withdrawals if (at, withdrawn) > (begins, number)]
    return min([*later, *([ends] if ends else [])], default=None)
