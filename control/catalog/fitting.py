"""What is known of a model's versions: where each fits, what sets its batch, what it took."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import starmap
from typing import NamedTuple

from django.db.models import FloatField, Max, Min
from django.db.models.fields.json import KT
from django.db.models.functions import Cast

from control.catalog import batch
from control.catalog.batch import Beside, Measured
from control.models import Device, Point, Replica, Version, VersionPeak
from control.placement import cards, fit_card, learned, memory
from control.placement.cards import DeviceKind
from control.placement.facts import known_model
from control.placement.fit_card import Fit
from control.placement.model import ModelFacts
from control.states import NodeState
from control.telemetry import cold_starts
from control.telemetry.cold_starts import ColdStartFacts
from engines.requirements import numbers

VERSIONS_MAX = 20
REPLICAS_MAX = 200  # whose points tell how quick a version was
UNKNOWN = "not known yet: its files have not been on a node, or have no safetensors headers"


@dataclass(frozen=True)
class VersionFit:
    model: str
    version: str
    guidance: str
    rests_on: str
    card: tuple[Fit, ...]
    batch: tuple[Beside, ...]
    measured: Measured
    peaks: tuple[VersionPeak, ...]
    cold_start: ColdStartFacts | None


def device_kinds() -> tuple[DeviceKind, ...]:
    """Of the fleet, the smallest of each name; then common cards."""
    rows = Device.objects.exclude(node__state=NodeState.REMOVED).filter(error="")
    found: dict[tuple[str, str, bool], list[_Row]] = defaultdict(list)
    for row in starmap(_Row, rows.values_list(*_COLUMNS)):
        found[row.name, row.kind, bool(row.card)].append(row)
    return cards.kinds([_kind(found[of]) for of in sorted(found)])


class _Row(NamedTuple):
    name: str
    kind: str
    memory_bytes: int
    card: str  # that it is a slice of
    node_id: int
    host: dict
    compute_capability: str


_COLUMNS = ("name", "kind", "memory_total_bytes", "parent_uuid", "node", "node__host")
_COLUMNS += ("compute_capability",)


def _kind(rows: list[_Row]) -> DeviceKind:
    first, on_hosts = rows[0], Counter(row.node_id for row in rows)
    return DeviceKind(
        name=first.name,
        kind=first.kind,
        memory_bytes=min(row.memory_bytes for row in rows),
        in_fleet=len(rows),
        is_slice=bool(first.card),
        host_bytes=max(row.host.get("memory_bytes", 0) for row in rows),
        on_one_host=max(on_hosts.values()),
        compute_capability=min(
            filter(None, (row.compute_capability for row in rows)), key=numbers, default=""
        ),
    )


def of_model(model: str, version: str | None = None) -> tuple[VersionFit, ...]:
    """The newest versions first; those of external engines fit nowhere and are left out."""
    rows = Version.objects.filter(model__name=model, archived_at=None).order_by("-created_at")
    if version is not None:
        rows = rows.filter(name=version)
    rows = rows.select_related("model", "measure").prefetch_related("peaks")[:VERSIONS_MAX]
    launched = [row for row in rows if row.engine.get("kind") == "vllm"]
    kinds, ids = device_kinds(), [row.pk for row in launched]
    starts, speeds = cold_starts.cold_starts(ids), measured(ids)
    return tuple(
        _version(row, kinds, starts.get(row.pk), speeds.get(row.pk, Measured())) for row in launched
    )


def card_of(
    facts: ModelFacts,
    arguments: Mapping,
    wanted: Mapping | None,
    kinds: tuple[DeviceKind, ...] = cards.COMMON,
) -> tuple[Fit, ...]:
    """Of a model that is not stored."""
    return fit_card.fit_card(facts, memory.demand_of(dict(arguments), wanted), kinds)


def _version(
    row: Version, kinds: tuple[DeviceKind, ...], cold: ColdStartFacts | None, measured: Measured
) -> VersionFit:
    facts = known_model(row)
    card, guidance = (), ""
    if facts:
        demand = memory.demand_of(row.arguments, row.memory)
        card = fit_card.fit_card(facts, demand, kinds, learned.held_beside_kv(row))
        guidance = fit_card.guidance(facts)
    return VersionFit(
        model=row.model.name,
        version=row.name,
        guidance=guidance,
        rests_on=_rests_on(facts, bool(row.peaks.all())),
        card=card,
        batch=batch.beside(row.arguments, measured),
        measured=measured,
        peaks=tuple(row.peaks.all()),
        cold_start=cold,
    )


def _rests_on(facts: ModelFacts | None, launched: bool) -> str:
    if facts is None:
        return UNKNOWN
    said = facts.weights.detail or "the headers of its files"
    said = said if facts.kv.exact else f"{said}; {facts.kv.detail}"
    return f"{said}, corrected by what its launches held" if launched else said


def measured(version_ids: list[int]) -> dict[int, Measured]:
    newest = Replica.objects.filter(version__in=version_ids).order_by("-pk")
    of = dict(newest.values_list("pk", "version_id")[:REPLICAS_MAX])
    points = Point.objects.filter(
        subject__in=[f"replica:{pk}" for pk in of],
        resolution_seconds=60,
        values__generation_tokens_per_second__gt=0,
    )
    rows = points.values("subject").annotate(
        tokens=Max(_figure("generation_tokens_per_second")),
        calls=Max(_figure("running_max")),
        tpot=Min(_figure("tpot_seconds")),
        read=Max(_figure("prompt_tokens_per_second")),
        ttft=Max(_figure("ttft_seconds")),
    )
    found: dict[int, Measured] = {}
    for row in rows:
        version_id = of[int(row["subject"].removeprefix("replica:"))]
        best = found.get(version_id, Measured()).tokens_per_second or 0.0
        if row["tokens"] > best:
            calls = None if row["calls"] is None else int(row["calls"])
            found[version_id] = Measured(
                row["tokens"], calls, row["tpot"], row["read"], row["ttft"]
            )
    return found


def _figure(name: str) -> Cast:
    return Cast(KT(f"values__{name}"), FloatField())
