"""How a deployment's replicas are kept: on which node, for how long, and at what context (pure)."""

from dataclasses import dataclass

from control import checks
from control.checks import Problem
from control.fleet import recycle
from control.fleet.recycle import Recycle


@dataclass(frozen=True)
class Upkeep:
    """Whole: what is left out has its default."""

    node: str = ""  # the only one it may run on; none named is any
    recycle: Recycle | None = None
    allow_shorter_context: bool = False  # rather than not at all


def problems(wanted) -> list[Problem]:
    """Of a deployment, or of its Upkeep alone: the same fields."""
    return [
        *(checks.name("node", wanted.node) if wanted.node else []),
        *recycle.problems("recycle", wanted.recycle),
    ]


def external_problems(wanted) -> list[Problem]:
    """An external engine is where it is, and as old as it is."""
    found = []
    if wanted.recycle:
        what = "an external engine is not launched by Weir, so not anew either: leave it out"
        found.append(Problem("recycle", what))
    if wanted.node:
        found.append(Problem("node", "an external engine is on no node: leave it out"))
    return found
