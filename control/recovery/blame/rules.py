"""Whose fault deaths of engines are: the version's, or the device's. Pure."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

POOL_PART_MAX = 0.1  # of a pool's cards in quarantine by themselves, one at least
DEATHS_BLAMED = 2  # devices of one version, or versions of one device
# Ends that either may be to blame for; others name what was wrong themselves.
UNEXPLAINED = frozenset({"crashed", "exited", "killed", "worker_died", "hung", "gpu_lost"})


@dataclass(frozen=True)
class Death:
    version_id: int
    version: str
    device_id: int


@dataclass(frozen=True)
class Card:
    id: int
    pool: str
    evidence: str = ""  # what its driver told against it
    quarantined: bool = False


@dataclass(frozen=True)
class Quarantine:
    device_id: int
    reason: str


@dataclass(frozen=True)
class Spared:
    """To blame, but too many of its pool are in quarantine already."""

    device_id: int
    reason: str


def at_fault(deaths: Iterable[Death]) -> dict[int, str]:
    """Versions that died on two devices, and why that speaks against them."""
    devices, names = defaultdict(set), {}
    for death in deaths:
        devices[death.version_id].add(death.device_id)
        names[death.version_id] = death.version
    return {
        version: f"{names[version]} died on {len(found)} devices: it is the version"
        for version, found in devices.items()
        if len(found) >= DEATHS_BLAMED
    }


def judge(cards: Iterable[Card], deaths: Iterable[Death]) -> list[Quarantine | Spared]:
    """Each card that is to blame, within the part of its pool that may be taken away."""
    cards, deaths = list(cards), list(deaths)
    total, away = defaultdict(int), defaultdict(int)
    for card in cards:
        total[card.pool] += 1
        away[card.pool] += card.quarantined
    against = _by_deaths(deaths)
    found: list[Quarantine | Spared] = []
    # What the driver says weighs more than what was concluded.
    for card in sorted(cards, key=lambda it: (not it.evidence, it.id)):
        reason = card.evidence or against.get(card.id, "")
        if card.quarantined or not reason:
            continue
        most = max(1, int(total[card.pool] * POOL_PART_MAX))
        if away[card.pool] >= most:
            what = f"{reason}; left in use: {away[card.pool]} of pool {card.pool} are away"
            found.append(Spared(card.id, what))
            continue
        away[card.pool] += 1
        found.append(Quarantine(card.id, reason))
    return found


def _by_deaths(deaths: list[Death]) -> dict[int, str]:
    """Cards on which two versions died, of which neither dies elsewhere too."""
    guilty = at_fault(deaths)
    versions = defaultdict(set)
    for death in deaths:
        if death.version_id not in guilty:
            versions[death.device_id].add(death.version)
    return {
        device: f"{' and '.join(sorted(found)[:2])} died on it"
        for device, found in versions.items()
        if len(found) >= DEATHS_BLAMED
    }
