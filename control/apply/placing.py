"""What a deployment of a service.yaml says of its place: members, defaults, and as fields."""

from control.apply.fields import Fields
from control.apply.scaling import scaling
from control.fleet.rules import DeploymentWanted
from control.fleet.scaling import stored
from control.placement import wanted as placing
from control.placement.wanted import Objective, PlacementWanted
from control.states import Priority


def members(fields: Fields) -> dict:
    """The arguments of DeploymentWanted that say how urgent it is and where it goes."""
    return {
        "priority": fields.text("priority", Priority.STANDARD),
        "project": fields.text("project", ""),
        "placement": _placement(fields),
        "objective": _objective(fields),
        "scaling": scaling(fields),
    }


def flat(wanted: DeploymentWanted) -> dict:
    parts = placing.named(wanted.placement)
    return {
        "priority": str(wanted.priority),
        "project": wanted.project,
        **{f"placement.{name}": parts.get(name) for name in PlacementWanted.__dataclass_fields__},
        "objective": placing.named(wanted.objective) or None,
        **{f"scaling.{name}": value for name, value in stored(wanted.scaling).items()},
    }


def _placement(fields: Fields) -> PlacementWanted:
    default, inner = PlacementWanted(), fields.mapping("placement")
    wanted = PlacementWanted(
        share=inner.text("share", default.share),
        policy=inner.text("policy", default.policy),
        anti_affinity=inner.text("anti_affinity", default.anti_affinity),
        pool=inner.text("pool", default.pool),
        devices=inner.texts("devices") or (),
    )
    inner.end()
    return wanted


def _objective(fields: Fields) -> Objective | None:
    there = fields.has("objective")
    inner = fields.mapping("objective")
    wanted = Objective(ttft_ms=inner.whole("ttft_ms"), tpot_ms=inner.whole("tpot_ms"))
    inner.end()
    return wanted if there else None
