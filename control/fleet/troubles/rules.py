"""What of the fleet somebody should look at now: open as long as it lasts (pure)."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from control.states import Hindrance, NodeState

UNPLACED_FOR = timedelta(minutes=5)  # a place may be on its way: somebody drains, a node joins
FINGERPRINT_SHOWN = 12  # characters
CRASH_LOOP = "crash loop"  # so a note begins of a deployment that fails again and again


class Kind(StrEnum):
    CRASH_LOOP = "crash loop"
    UNPLACED = "unplaced"
    NODE_LOST = "node lost"
    QUARANTINE = "quarantine"
    STUCK = "stuck card"
    FEW_REPLICAS = "few replicas"
    DEADLY_PROMPT = "deadly prompt"


@dataclass(frozen=True)
class Trouble:
    kind: Kind
    about: str  # name of the deployment or the node, or the beginning of a prompt's fingerprint
    what: str
    since: datetime | None = None
    is_urgent: bool = True  # calls fail, or capacity is gone; else a warning


@dataclass(frozen=True)
class Wanted:
    """An active deployment."""

    name: str
    note: str
    hindrance: str
    hindered_at: datetime | None
    is_interactive: bool
    replicas_wanted: int
    replicas_max: int
    nodes: int  # that its replicas are on


@dataclass(frozen=True)
class Host:
    name: str
    state: str
    state_at: datetime | None
    note: str = ""


@dataclass(frozen=True)
class Card:
    node: str
    name: str
    quarantined_at: datetime
    reason: str


@dataclass(frozen=True)
class Prompt:
    """One that gateways refuse, since engines died while they worked on it."""

    fingerprint: str
    launches: tuple[str, ...]  # replica:generation
    until: datetime


def of_deployment(wanted: Wanted, at: datetime) -> Iterator[Trouble]:
    since = wanted.hindered_at if wanted.hindrance else None
    if wanted.hindrance == Hindrance.GIVEN_UP or wanted.note.startswith(CRASH_LOOP):
        yield Trouble(Kind.CRASH_LOOP, wanted.name, wanted.note, since)
    elif wanted.hindrance == Hindrance.UNPLACED and since and at - since >= UNPLACED_FOR:
        yield Trouble(Kind.UNPLACED, wanted.name, wanted.note, since)
    told = warnings(
        is_interactive=wanted.is_interactive,
        replicas_max=wanted.replicas_max,
        wanted=wanted.replicas_wanted,
        nodes=wanted.nodes,
    )
    for what in told:
        yield Trouble(Kind.FEW_REPLICAS, wanted.name, what, is_urgent=False)


def of_node(host: Host) -> Iterator[Trouble]:
    if host.state == NodeState.LOST:
        what = f"{host.note or 'it is silent'}; its replicas are started elsewhere"
        yield Trouble(Kind.NODE_LOST, host.name, what, host.state_at)


def of_card(card: Card) -> Iterator[Trouble]:
    what = f"{card.name}: {card.reason}"
    yield Trouble(Kind.QUARANTINE, card.node, what, card.quarantined_at, is_urgent=False)


def of_prompt(prompt: Prompt) -> Iterator[Trouble]:
    replicas = " and ".join(f"#{launch.partition(':')[0]}" for launch in prompt.launches)
    what = (
        f"replicas {replicas} died while they worked on it; exactly this request is refused until"
        f" {prompt.until:%H:%M} UTC"
    )
    yield Trouble(Kind.DEADLY_PROMPT, prompt.fingerprint[:FINGERPRINT_SHOWN], what)


def of_stuck(node: str, card: str, what: str, since: datetime) -> Trouble:
    """Processes of a launch that has ended will not die, and nothing is placed there."""
    return Trouble(Kind.STUCK, node, f"{card} {what}", since, is_urgent=False)


def warnings(*, is_interactive: bool, replicas_max: int, wanted: int, nodes: int) -> list[str]:
    """Of an active deployment whose `wanted` replicas are on so many nodes."""
    if not is_interactive:
        return []
    if min(wanted, replicas_max) < 2:
        return ["interactive calls stop when its only replica does: let it have two"]
    if nodes == 1:
        return ["all of its replicas are on one node: interactive calls stop with that"]
    return []
