"""Where one more launch would go now, and what would give way: told before anything is changed."""

from dataclasses import dataclass
from datetime import datetime

from control.models import Deployment, Version
from control.placement import books, facts
from control.placement.displacing import Displaces, NoneGivesWay, Waits, make_way
from control.placement.fleet import Fleet
from control.placement.rules import place
from control.placement.world import Placed


@dataclass(frozen=True)
class Preview:
    verdict: str  # placed, waits, displaces, unplaced
    text: str
    gives_way: tuple[str, ...] = ()  # replicas that would be drained


def read_fleet(at: datetime) -> Fleet:
    return Fleet(books.nodes(at), books.quotas())


def preview(version: Version, deployment: Deployment, fleet: Fleet) -> Preview:
    """`deployment` may be as it is asked for, not as it is stored."""
    need = facts.need(version, deployment)
    found = place(need, fleet)
    if isinstance(found, Placed):
        return Preview("placed", f"goes to {found.node}: {found.reason}")
    match make_way(need, fleet):
        case Waits() as way:
            return Preview("waits", str(way))
        case Displaces() as way:
            names = tuple(holder.name for holder in way.replicas)
            return Preview("displaces", f"goes {way}", names)
        case NoneGivesWay():
            return Preview("unplaced", f"finds no place: {found}")
