"""What is stored of cost, as a service.yaml says it: the newest entry of each subject."""

from collections.abc import Iterator
from dataclasses import fields
from datetime import datetime

from control.apply.plan import Seen
from control.catalog.advice.rules import VariantWanted
from control.metering.cost.wanted import CostPoolWanted, CostRateWanted, TokenWeightsWanted
from control.models import CostPool, CostRate, TokenWeights, Variant

GIVEN = "given"


def seen(at: datetime) -> Iterator[tuple[str, Seen]]:
    yield from _rates(at)
    yield from _pools(at)
    yield from _weights(at)
    for row in Variant.objects.select_related("of__model", "version__model"):
        wanted = VariantWanted(str(row.of), str(row.version), row.kind)
        yield f"variant {wanted.subject}", Seen(wanted)


def _rates(at: datetime) -> Iterator[tuple[str, Seen]]:
    entries = CostRate.objects.filter(valid_from__lte=at)
    newest = entries.order_by("device", "pool", "-valid_from", "-pk").distinct("device", "pool")
    for row in newest:
        names = [field.name for field in fields(CostRateWanted)]
        wanted = CostRateWanted(**{name: getattr(row, name) for name in names})
        yield f"cost_rate {wanted.subject}", Seen(wanted)


def _pools(at: datetime) -> Iterator[tuple[str, Seen]]:
    entries = CostPool.objects.filter(valid_from__lte=at)
    for row in entries.order_by("pool", "-valid_from", "-pk").distinct("pool"):
        yield f"cost_pool {row.pool}", Seen(CostPoolWanted(row.pool, row.idle, row.practical_ratio))


def _weights(at: datetime) -> Iterator[tuple[str, Seen]]:
    """Measured ones are not a file's: it says again what it gives, and is left in peace by them."""
    entries = TokenWeights.objects.filter(valid_from__lte=at, source=GIVEN)
    newest = entries.order_by("model", "version", "-valid_from", "-pk").distinct("model", "version")
    for row in newest.select_related("model", "version"):
        wanted = TokenWeightsWanted(
            row.model.name,
            row.version.name if row.version else "",
            row.cached_input,
            row.output,
        )
        yield f"token_weight {wanted.subject}", Seen(wanted)
