"""What a version and its deployment need, as placement sees it."""

from control.models import Deployment, Version
from control.placement import learned, memory, overrides, wanted
from control.placement.kv_cache import KvCost
from control.placement.memory import Demand
from control.placement.model import ModelFacts
from control.placement.world import Need
from control.states import Priority
from engines.vllm import choices
from engines.vllm.choices import CardWanted

DEVICE_KINDS = ("gpu", "cpu")


def need(
    version: Version,
    deployment: Deployment,
    *,
    avoid: frozenset[int] = frozenset(),
    expendable: bool = False,
) -> Need:
    """By measure where one was taken; else by a guess that says so."""
    cured = overrides.in_force(version, deployment)
    demand = memory.demand_of({**version.arguments, **cured.arguments()}, version.memory)
    weights_bytes, cost = known_cost(version)
    placing = wanted.placement(deployment.placement)
    return Need(
        version_id=version.pk,
        deployment_id=deployment.pk,
        devices=demand.devices,
        sizes={
            kind: cured.enlarged(size)
            for kind, size in sizes_by_kind(version, weights_bytes, cost, demand).items()
        },
        pin=deployment.node,
        stated=cost.detail,
        model_id=version.model_id,
        name=deployment.name,
        priority=deployment.priority,
        project_id=deployment.project_id,
        share=placing.share,
        policy=placing.policy,
        anti_affinity=placing.anti_affinity,
        pool=placing.pool,
        uuids=placing.devices,
        avoid=avoid | frozenset(cured.avoid),
        card=_card_wanted(version, demand),
        expendable=expendable or deployment.priority == Priority.BATCH,
    )


def _card_wanted(version: Version, demand: Demand) -> CardWanted | None:
    if version.engine.get("kind") != "vllm":
        return None
    model = known_model(version)
    if model is None:
        named = str(version.arguments.get("quantization", ""))
        return choices.card_wanted(named, demand.dtype, demand.kv_dtype)
    return memory.card_wanted(model, demand)


def known_cost(version: Version) -> tuple[int, KvCost]:
    measure = getattr(version, "measure", None)
    if measure is not None:
        return measure.weights_bytes, KvCost.from_dict(measure.kv_cost)
    return memory.unmeasured((version.source or {}).get("size_bytes"))


def sizes_by_kind(
    version: Version, weights_bytes: int, cost: KvCost, demand: Demand
) -> dict[str, memory.Sizes]:
    if version.engine.get("kind") == "stub":
        return dict.fromkeys(DEVICE_KINDS, memory.STUB)
    model, beside = known_model(version), learned.held_beside_kv(version)
    return {
        kind: memory.sizes(weights_bytes, cost, demand, kind, model, beside.get(kind))
        for kind in DEVICE_KINDS
    }


def known_model(version: Version) -> ModelFacts | None:
    """What its files said; None until some node has them."""
    measure = getattr(version, "measure", None)
    return ModelFacts.from_dict(measure.facts) if measure and measure.facts else None
