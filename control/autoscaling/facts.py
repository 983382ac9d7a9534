"""What autoscaling looks at: deployments that may change their size, and what was measured."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from django.db.models import F

from control.autoscaling.rules import Bounds, Fleet, Memory, Signs
from control.catalog import fitting
from control.fleet.scaling import Scaling, scaling_of
from control.fleet.troubles.rules import warnings
from control.models import Deployment, Replica, Reservation, ScalingState
from control.placement import wanted as placing
from control.routes.cache_use import budget_ratio
from control.states import (
    REPLICA_BEFORE_READY,
    REPLICA_LIVE,
    DeploymentState,
    Priority,
    ReplicaState,
    ReservationState,
)
from control.telemetry.messages import (
    DeploymentLoad,
    DeviceSample,
    GatewaySample,
    ReplicaSample,
    Sample,
)
from control.telemetry.store import Store

SPEEDS_SECONDS = 600
SINCES = [f"{name}_since" for name in ("busy", "idle", "late", "quiet")]


@dataclass(frozen=True)
class Look:
    """One deployment at one moment."""

    deployment: Deployment
    state: ScalingState | None
    fleet: Fleet
    signs: Signs
    memory: Memory
    scaling: Scaling
    bounds: Bounds


@dataclass(frozen=True)
class Most:
    """What one replica of a deployment can do."""

    cache_ratio: float  # of its KV cache, that gateways use
    tokens_per_second: float | None = None  # None: not measured yet


@dataclass(frozen=True)
class Heard:
    """What Valkey said; None of everything is that it said nothing."""

    gateways: tuple[GatewaySample, ...] | None = None
    samples: Mapping[str, Sample] = ()
    demand: Mapping[str, int] = ()  # deployment at zero -> calls that wait for it


def deployments() -> list[Deployment]:
    """Those whose size is not fixed, or is out of its bounds."""
    rows = Deployment.objects.filter(state=DeploymentState.ACTIVE, replicas_max__gt=0)
    able = rows.exclude(replicas_min=F("replicas_max"), replicas_wanted=F("replicas_max"))
    able = able.exclude(version__engine__kind="external")
    return list(able.select_related("version", "scaling_state").order_by("pk"))


def replicas(deployment_ids: Iterable[int]) -> dict[int, list[Replica]]:
    rows = Replica.objects.filter(deployment__in=deployment_ids, state__in=REPLICA_LIVE)
    found = defaultdict(list)
    for row in rows.defer("log_tail", "engine_key").order_by("pk"):
        found[row.deployment_id].append(row)
    return found


def devices(replica_ids: Iterable[int]) -> dict[int, set[str]]:
    """Replica -> the uuids of its GPUs."""
    held = Reservation.objects.filter(
        replica__in=replica_ids, state=ReservationState.HELD, device__kind="gpu"
    )
    found = defaultdict(set)
    for replica_id, uuid in held.values_list("replica_id", "device__uuid"):
        found[replica_id].add(uuid)
    return found


def heard(store: Store, names: list[str], replica_ids: list[int], uuids: set[str]) -> Heard:
    """Raises redis.RedisError: then nothing is known, and nothing changes."""
    gateways = store.latest(store.subjects("gateway"))
    of_fleet = [f"replica:{pk}" for pk in replica_ids] + [f"device:{uuid}" for uuid in uuids]
    return Heard(tuple(gateways.values()) or None, store.latest(of_fleet), store.demand(names))


def looks(at: datetime, store: Store) -> list[Look]:
    rows = deployments()
    of = replicas(row.pk for row in rows)
    live = [replica for launched in of.values() for replica in launched]
    on = devices(replica.pk for replica in live)
    uuids = set().union(*on.values())
    known = heard(store, [row.name for row in rows], [replica.pk for replica in live], uuids)
    versions = tuple(sorted({row.version_id for row in rows}))
    speeds = _speeds(versions, int(at.timestamp() / SPEEDS_SECONDS))
    return [
        _look(row, of[row.pk], on, known, _most(row, speeds.get(row.version_id), at))
        for row in rows
    ]


@lru_cache(maxsize=2)
def _speeds(version_ids: tuple[int, ...], _period: int) -> dict[int, fitting.Measured]:
    """Read anew every ten minutes: it is the best minute of thirty days."""
    return fitting.measured(list(version_ids))


def _look(row: Deployment, launched: list[Replica], on: dict, known: Heard, most: Most) -> Look:
    ready = [replica for replica in launched if replica.state == ReplicaState.READY]
    coming = sum(replica.state in REPLICA_BEFORE_READY for replica in launched)
    objective = placing.objective(row.objective)
    ttft_ms = objective.ttft_ms if objective else None
    state = getattr(row, "scaling_state", None)
    return Look(
        deployment=row,
        state=state,
        fleet=Fleet(row.replicas_wanted, len(ready), coming),
        signs=signs(row.name, ready, on, known, most),
        memory=_memory(state),
        scaling=scaling_of(row.scaling),
        bounds=Bounds(
            replicas_min=row.replicas_min,
            replicas_max=row.replicas_max,
            is_batch=row.priority == Priority.BATCH,
            ttft_seconds=None if ttft_ms is None else ttft_ms / 1000,
        ),
    )


def signs(
    name: str,
    ready: list[Replica],
    on: Mapping[int, set[str]],
    known: Heard,
    most: Most,
) -> Signs:
    samples = {r.pk: s for r in ready if (s := known.samples.get(f"replica:{r.pk}"))}
    if known.gateways is None:
        return Signs()
    load = DeploymentLoad()
    for gateway in known.gateways:
        load = load.plus(**gateway.loads.get(name, {}))
    asked = known.demand.get(name, 0) if not ready else 0
    use = _use(ready, samples, most)
    running = load.running + load.batch_running
    urgent = load.running / running if running else 1.0
    return Signs(
        waiting=max(load.waiting + sum(s.waiting for s in samples.values()), asked),
        batch_waiting=load.batch_waiting,
        oldest_seconds=load.oldest_seconds,
        use_ratio=use,
        urgent_ratio=None if use is None else use * urgent,
        gpu_ratio=_gpu(ready, on, known.samples),
        running=max(running, sum(s.running for s in samples.values())) if samples else None,
    )


def _most(row: Deployment, speed: fitting.Measured | None, at: datetime) -> Most:
    guarded = row.guarded_until is not None and row.guarded_until > at
    return Most(budget_ratio(guarded=guarded), speed and speed.tokens_per_second)


def _use(ready: list[Replica], samples: Mapping[int, ReplicaSample], most: Most):
    """The mean of its replicas: of slots, cache or tokens, whichever is used most. 0 to 1.

    Known only if all of them have spoken: the silent one may be the busy one.
    """
    if not ready or len(samples) < len(ready):
        return None
    uses = []
    for replica in ready:
        sample = samples[replica.pk]
        slots = sample.running / replica.slots if replica.slots else 0.0
        tokens = (sample.generation_tokens_per_second or 0.0) / (most.tokens_per_second or math.inf)
        cache = sample.kv_cache_ratio / most.cache_ratio
        uses.append(min(max(slots, cache, tokens), 1.0))
    return sum(uses) / len(uses)


def _gpu(ready: list[Replica], on: Mapping[int, set[str]], samples: Mapping[str, Sample]):
    found: list[float] = []
    for uuid in {uuid for replica in ready for uuid in on.get(replica.pk, ())}:
        sample = samples.get(f"device:{uuid}")
        if isinstance(sample, DeviceSample) and sample.utilisation_ratio is not None:
            found.append(sample.utilisation_ratio)
    return sum(found) / len(found) if found else None


def _memory(state: ScalingState | None) -> Memory:
    if state is None:
        return Memory()
    own = (*SINCES, "shrank_at", "held_until")
    return Memory(**{name: getattr(state, name) for name in own})


# --- for pages ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sizing:
    """How a deployment's size is decided, what was seen last, and why it is what it is."""

    scaling: Scaling
    is_fixed: bool
    signs: Mapping[str, float]
    reason: str
    at: datetime | None
    warnings: tuple[str, ...]


def sizing(name: str) -> Sizing | None:
    rows = Deployment.objects.filter(name=name).select_related("scaling_state")
    row = rows.first()
    if row is None:
        return None
    live = replicas([row.pk])[row.pk]
    state = getattr(row, "scaling_state", None)
    told = warnings(
        is_interactive=row.priority == Priority.INTERACTIVE,
        replicas_max=row.replicas_max,
        wanted=row.replicas_wanted,
        nodes=len({replica.node_id for replica in live}),
    )
    return Sizing(
        scaling=scaling_of(row.scaling),
        is_fixed=row.replicas_min == row.replicas_max,
        signs=state.signs if state else {},
        reason=state.reason if state else "",
        at=state.at if state else None,
        warnings=tuple(told) if row.state == DeploymentState.ACTIVE else (),
    )
