"""Advice of a month: the same calls on variants, and quantisations that gave less than promised."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from control.catalog.advice import rules
from control.catalog.advice.rules import Cheaper, NotKnown, Served, VariantKind, Weighed
from control.metering.cost import figures
from control.metering.cost.figures import Figure
from control.metering.cost.rules import PerMillion, Volume, at_use, round_half_up
from control.models import Variant, Version
from control.placement import cards, fit_card, memory
from control.placement.facts import known_model

LATELY = timedelta(days=90)  # in which a variant has served, to be judged by
PLACES = 2
ROWS_MAX = 1000


@dataclass(frozen=True)
class Advice:
    """The calls of one deployment in a time, had another version served them."""

    deployment: str
    version: str
    variant: str
    kind: str
    calls: int
    currency: str
    cost: Decimal | None
    would_cost: Decimal | None
    saving: Decimal | None
    saving_ratio: float | None
    utilisation_ratio: float | None  # at which both are told
    ttft_ms: float | None
    would_ttft_ms: float | None
    reason: str  # why a figure is missing, or empty


@dataclass(frozen=True)
class Quantised:
    """A quantised version on one kind of device: memory promised by its files, and taken."""

    version: str
    device: str
    promised_bytes: int
    measured_bytes: int
    less_than_promised: bool
    tokens_saved_ratio: float | None  # of its output's cost, beside the version that it is for


def advice(since: datetime, until: datetime) -> list[Advice]:
    """Per deployment that served, every variant of its version; the greatest saving first."""
    variants = defaultdict(list)
    for row in Variant.objects.select_related("of__model", "version__model"):
        variants[str(row.of)].append(row)
    if not variants:
        return []
    lately = _by_version(until - LATELY, until)
    found = []
    for figure in figures.figures(["deployment", "model", "version"], since, until):
        deployment, model, version = figure.group
        if deployment is None or not figure.calls:
            continue
        for row in variants[f"{model}:{version}"]:
            found.append(_advice(figure, row, lately.get(str(row.version))))
    found.sort(key=lambda one: (-(one.saving or 0), one.deployment, one.variant))
    return found[:ROWS_MAX]


def _advice(figure: Figure, row: Variant, other: Figure | None) -> Advice:
    mine = _served(figure, figure.utilisation)
    theirs = _served(other, figure.utilisation) if other else _NOTHING
    judged = rules.same_calls(Fraction(0) if figure.reason() else figure.cost, mine, theirs)
    known = isinstance(judged, Cheaper)
    return Advice(
        deployment=figure.group[0],
        version=str(row.of),
        variant=str(row.version),
        kind=row.kind,
        calls=figure.calls,
        currency=figure.currency,
        cost=None if figure.reason() else round_half_up(figure.cost, PLACES),
        would_cost=round_half_up(judged.cost, PLACES) if known else None,
        saving=round_half_up(judged.saving, PLACES) if known else None,
        saving_ratio=float(judged.saving_ratio) if known else None,
        utilisation_ratio=None if figure.utilisation is None else float(figure.utilisation),
        ttft_ms=_plain(mine.ttft_ms),
        would_ttft_ms=_plain(theirs.ttft_ms),
        reason=judged.reason if isinstance(judged, NotKnown) else "",
    )


_NOTHING = Served(Volume(0, 0, 0), None, "", None)


def _served(figure: Figure, use: Fraction | None) -> Served:
    """Its cost at the use that is asked for: how idle a trial was says nothing of its tokens."""
    cost = at_use(figure.cost, figure.utilisation, use) if use else None
    per_million = None if cost is None or figure.reason() else figure.per_million(cost)
    return Served(
        volume=figure.volume,
        per_million=per_million if isinstance(per_million, PerMillion) else None,
        currency=figure.currency,
        ttft_ms=Fraction(figure.ttft_ms_sum, figure.ttft_calls) if figure.ttft_calls else None,
    )


def quantised(until: datetime) -> list[Quantised]:
    """Of each quantised variant that was launched: what its files promised, and what it took."""
    rows = Variant.objects.filter(kind=VariantKind.QUANTISED).select_related("of__model")
    rows = rows.select_related("version__model", "version__measure", "of__model")
    lately = _by_version(until - LATELY, until)
    found = []
    for row in rows.prefetch_related("version__peaks")[:ROWS_MAX]:
        saved = _saved(lately.get(str(row.of)), lately.get(str(row.version)))
        for device, weighed in _weighed(row.version):
            found.append(
                Quantised(
                    version=str(row.version),
                    device=device,
                    promised_bytes=weighed.promised_bytes,
                    measured_bytes=weighed.measured_bytes,
                    less_than_promised=weighed.is_less_than_promised,
                    tokens_saved_ratio=saved,
                )
            )
    return found


def _weighed(version: Version) -> Iterable[tuple[str, Weighed]]:
    """The fit card before any launch taught it, beside the most that launches took."""
    facts = known_model(version)
    if facts is None:
        return
    demand = memory.demand_of(version.arguments, version.memory)
    for peak in version.peaks.all():
        if peak.weights_bytes is None:
            continue
        kind = cards.DeviceKind(peak.device_name, peak.device_kind, 2**50, 1)
        [fit] = fit_card.fit_card(facts, demand, [kind])
        yield peak.device_name, Weighed(fit.weights_bytes, peak.weights_bytes)


def _saved(of: Figure | None, version: Figure | None) -> float | None:
    """At the same use, how much less an output token cost than on the version it stands for."""
    if of is None or version is None or not of.utilisation:
        return None
    mine, theirs = _served(of, of.utilisation), _served(version, of.utilisation)
    if mine.per_million is None or theirs.per_million is None or not mine.per_million.output:
        return None
    if mine.currency != theirs.currency:
        return None
    return float(1 - theirs.per_million.output / mine.per_million.output)


def _by_version(since: datetime, until: datetime) -> dict[str, Figure]:
    return {
        f"{figure.group[0]}:{figure.group[1]}": figure
        for figure in figures.figures(["model", "version"], since, until)
        if figure.group[0] is not None
    }


def _plain(value: Fraction | None) -> float | None:
    return None if value is None else float(value)
