"""How long the rules of placement take: a thousand launches on fleets of two sizes."""

import time
from dataclasses import dataclass

from control.placement.displacing import seek
from control.placement.fleet import Fleet
from control.placement.memory import GIB, Sizes
from control.placement.wanted import Sharing
from control.placement.world import DeviceFacts, Holder, Need, NodeFacts, Placed
from control.states import Priority

CARD = 80 * GIB
CARDS = 8  # of a host, all linked
NEEDS = 1000
TWINS = 20  # replicas of one deployment
SMALL, LARGE = 10_000, 100_000
ROUNDS = 2


@dataclass(frozen=True)
class Taken:
    """CPU seconds: the index of what is free, and all launches."""

    index: float
    places: float
    placed: int

    @property
    def seconds(self) -> float:
        return self.index + self.places


def measure(devices: int) -> Taken:
    """The best of some rounds: what else the machine does can only add."""
    nodes = tuple(_node(number) for number in range(devices // CARDS))
    return min((_round(nodes) for _ in range(ROUNDS)), key=lambda taken: taken.seconds)


def _round(nodes: tuple[NodeFacts, ...]) -> Taken:
    began = time.process_time()
    fleet = Fleet(nodes)
    indexed = time.process_time()
    placed = 0
    for number in range(NEEDS):
        need = _need(number)
        found = seek(need, fleet)
        if isinstance(found, Placed):
            fleet.reserve(found, need)
            placed += 1
    return Taken(indexed - began, time.process_time() - indexed, placed)


def _node(number: int) -> NodeFacts:
    names = [f"GPU-{number}-{card}" for card in range(CARDS)]
    links = frozenset(names)
    devices = tuple(_card(number, card, name, links - {name}) for card, name in enumerate(names))
    held = {holder.deployment_id for device in devices for holder in device.holders}
    return NodeFacts(
        number + 1,
        f"n{number:05}",
        devices=devices,
        deployments=frozenset(held),
        weights=frozenset({1 + number % 50}),
        pool=("default", "large")[number % 4 == 0],
    )


def _card(node: int, card: int, name: str, links: frozenset[str]) -> DeviceFacts:
    """A host in five is empty; elsewhere a third of the cards is, a third shared, a third full."""
    number = node * CARDS + card
    held = (0, 20 + number % 7 * 5, 80)[(number * 7 + node) % 3] * GIB if node % 5 else 0
    holders = ()
    if held:
        of = number % 500 + 10_000
        priority = list(Priority)[number % 3]
        holders = (Holder(number + 1, of, f"d{of}#1", of, priority, None, ((0, held),)),)
    booked = tuple(span for holder in holders for span in holder.ranges)
    return DeviceFacts(
        number + 1, name, f"card {card}", "gpu", CARD, booked=booked, holders=holders, links=links
    )


def _need(number: int) -> Need:
    """Of its own or shared, on one card, two or four; each is wanted twenty times."""
    deployment = number // TWINS + 1
    kind = deployment % 5
    size = Sizes((10 + deployment % 6 * 5) * GIB, GIB, 4 * GIB, GIB)
    return Need(
        version_id=deployment,
        deployment_id=deployment,
        devices=(1, 1, 1, 2, 4)[kind],
        sizes={"gpu": size},
        model_id=deployment,
        name=f"d{deployment}",
        priority=list(Priority)[deployment % 3],
        share=Sharing.OWN if kind in (0, 3, 4) else Sharing.SHARED,
        pool=("", "large")[deployment % 7 == 0],
    )
