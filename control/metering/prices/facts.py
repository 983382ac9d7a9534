"""Price books as pages and the operators' API read them: in force, history, proposals, margins."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from control import checks
from control.metering.cost.rules import fraction_text
from control.metering.prices import stored
from control.metering.prices.costs import ClassCosts, costs, ratio_text, texts
from control.metering.prices.proposal import below_cost, margin, proposed
from control.metering.prices.stored import BookVersion
from control.metering.prices.wanted import CLASSES, RowWanted
from control.metering.rules import per_million_text
from control.models import CatalogModel

MARGIN_PERCENT = 30


@dataclass(frozen=True)
class RowFacts:
    """Per million tokens of each class, as written; reasoning is empty where it costs as output."""

    priority: str
    from_tokens: int
    input: str
    cached_input: str
    output: str
    reasoning: str = ""


@dataclass(frozen=True)
class BookFacts:
    """One version of one book."""

    model: str
    tenant: str
    version: int
    currency: str
    rows: tuple[RowFacts, ...]
    interrupted: str
    step: str
    valid_from: datetime
    valid_until: datetime | None
    state: str  # in force, to come, ended, or withdrawal
    created_at: datetime | None
    created_by: str
    reason: str
    below_cost_reason: str
    cost: dict | None


def books(at: datetime) -> list[BookFacts]:
    """Those in force, by model, everyone's first; then those to come."""
    found = stored.versions()
    held = stored.in_force(found, at)
    coming = [one for one in reversed(found) if one.begins > at]
    return [_told(one, held, at) for one in (*held, *coming)]


def history(model: str, at: datetime) -> list[BookFacts]:
    """All versions of a model's books, newest first."""
    if not CatalogModel.objects.filter(name=model).exists():
        raise checks.unknown("model", f"there is no model {model!r}")
    found = stored.versions(model)
    held = stored.in_force(found, at)
    return [_told(one, held, at) for one in found]


def _told(one: BookVersion, held: list[BookVersion], at: datetime) -> BookFacts:
    state = "in force" if one in held else "to come" if one.begins > at else "ended"
    wanted = one.wanted
    return BookFacts(
        model=wanted.model,
        tenant=wanted.tenant,
        version=one.number,
        currency=wanted.currency,
        rows=tuple(_row(row) for row in wanted.rows),
        interrupted=wanted.interrupted,
        step=per_million_text(wanted.step_pico),
        valid_from=one.begins,
        valid_until=one.ends,
        state="withdrawal" if one.withdrawn else state,
        created_at=one.created_at,
        created_by=one.created_by,
        reason=one.reason,
        below_cost_reason=wanted.below_cost_reason,
        cost=one.cost,
    )


def _row(row: RowWanted) -> RowFacts:
    return RowFacts(row.priority, row.tier_from_tokens, **row.per_million)


@dataclass(frozen=True)
class Proposal:
    """Prices that leave the margin, at the use that was and at the use that is wanted."""

    model: str
    currency: str
    margin_percent: int
    step: str
    cost: dict[str, str] | None  # per million of each class, at practised use
    cost_at_wanted_use: dict[str, str] | None
    practised: dict[str, str] | None
    at_wanted_use: dict[str, str] | None
    utilisation: str | None
    wanted_use: str
    since: datetime
    until: datetime
    formula: str
    reason: str  # why there is none, or empty


def proposal(
    model: str, at: datetime, margin_percent: int = MARGIN_PERCENT, step_pico: int | None = None
) -> Proposal:
    """From the last 30 days; the step is that of everyone's book, unless another is named."""
    held = stored.in_force(stored.versions(model, ""), at)
    if step_pico is None:
        step_pico = held[0].wanted.step_pico if held else stored.STEP_PICO
    found = costs(model, at)

    def prices(cost: dict[str, Fraction] | None) -> dict[str, str] | None:
        return cost and proposed(cost, margin_percent, step_pico)

    return Proposal(
        model=model,
        currency=found.currency,
        margin_percent=margin_percent,
        step=per_million_text(step_pico),
        cost=texts(found.practised),
        cost_at_wanted_use=texts(found.at_wanted_use),
        practised=prices(found.practised),
        at_wanted_use=prices(found.at_wanted_use),
        utilisation=ratio_text(found.utilisation_ratio),
        wanted_use=ratio_text(found.wanted_use) or "",
        since=found.since,
        until=found.until,
        formula=found.formula,
        reason=found.reason,
    )


@dataclass(frozen=True)
class MarginRow:
    """One price beside the cost of its class; the margin is of the price."""

    model: str
    tenant: str
    priority: str
    from_tokens: int
    token_class: str
    currency: str
    price: str
    cost: str | None
    margin_percent: str | None
    is_below: bool
    below_cost_reason: str
    note: str  # why there is no margin, or empty


def margins(at: datetime) -> list[MarginRow]:
    """Every price in force against what its tokens cost in the last 30 days."""
    held = stored.in_force(stored.versions(), at)
    known = {model: costs(model, at) for model in sorted({one.wanted.model for one in held})}
    return [row for one in held for row in _margins(one, known[one.wanted.model])]


def _margins(one: BookVersion, known: ClassCosts) -> Iterable[MarginRow]:
    wanted, cost, note = one.wanted, known.practised, known.reason
    if cost and known.currency != wanted.currency:
        cost, note = None, f"its cost is in {known.currency}"
    below = below_cost(wanted.rows, cost) if cost else []
    under = {(one.row.key, one.token_class) for one in below}
    for row in wanted.rows:
        picos = (row.input_pico, row.cached_input_pico, row.output_pico, row.reasoning_pico)
        for name, pico in zip(CLASSES, picos, strict=True):
            if pico is None:
                continue
            share = margin(pico, cost[name]) if cost else None
            yield MarginRow(
                model=wanted.model,
                tenant=wanted.tenant,
                priority=row.priority,
                from_tokens=row.tier_from_tokens,
                token_class=name,
                currency=wanted.currency,
                price=per_million_text(pico),
                cost=fraction_text(cost[name]) if cost else None,
                margin_percent=None if share is None else fraction_text(share * 100, 1),
                is_below=(row.key, name) in under,
                below_cost_reason=wanted.below_cost_reason,
                note=note if cost is None else "",
            )


def without_prices(at: datetime) -> list[str]:
    """Models that are served, or could be, at no charge."""
    held = {one.wanted.model for one in stored.in_force(stored.versions(tenant=""), at)}
    models = CatalogModel.objects.filter(archived_at=None).order_by("name")
    return [name for name in models.values_list("name", flat=True) if name not in held]
