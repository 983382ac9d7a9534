"""Where a deployment wants its replicas: what an operator may ask of placement. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum

from control import checks
from control.checks import Problem

DEVICES_NAMED_MAX = 256
DEVICE_CHARACTERS_MAX = 96
OBJECTIVE_MS_MAX = 600_000


class Sharing(StrEnum):
    OWN = "own"  # a card for one replica, reserved whole
    SHARED = "shared"  # a fixed part of a card


class Policy(StrEnum):
    PACK = "pack"  # the tightest fit: large gaps and whole hosts stay free
    SPREAD = "spread"  # the emptiest device: the least to lose with one


class AntiAffinity(StrEnum):
    PREFERRED = "preferred"  # replicas of one deployment on different nodes, if there is room
    REQUIRED = "required"


@dataclass(frozen=True)
class PlacementWanted:
    share: str = Sharing.OWN  # of cards; a host's RAM is always shared
    policy: str = Policy.PACK
    anti_affinity: str = AntiAffinity.PREFERRED
    pool: str = ""  # of nodes; none named is any
    devices: tuple[str, ...] = ()  # uuids; none named is any


@dataclass(frozen=True)
class Objective:
    """What a deployment's calls should see; None is the platform's default."""

    ttft_ms: int | None = None
    tpot_ms: int | None = None


def problems(field: str, wanted: PlacementWanted) -> list[Problem]:
    named = wanted.devices
    found = [
        *checks.one_of(f"{field}.share", wanted.share, Sharing),
        *checks.one_of(f"{field}.policy", wanted.policy, Policy),
        *checks.one_of(f"{field}.anti_affinity", wanted.anti_affinity, AntiAffinity),
        *(checks.name(f"{field}.pool", wanted.pool) if wanted.pool else []),
    ]
    if len(named) > DEVICES_NAMED_MAX:
        found.append(Problem(f"{field}.devices", f"names more than {DEVICES_NAMED_MAX} devices"))
    for number, uuid in enumerate(named[:DEVICES_NAMED_MAX]):
        path = f"{field}.devices[{number}]"
        if uuid in named[:number]:
            found.append(Problem(path, f"{uuid!r} is named twice"))
        if not uuid or uuid != uuid.strip() or not uuid.isprintable():
            found.append(Problem(path, "is no uuid: `weir status` and the nodes page show them"))
        elif len(uuid) > DEVICE_CHARACTERS_MAX:
            found.append(Problem(path, f"is longer than {DEVICE_CHARACTERS_MAX} characters"))
    return found


def objective_problems(field: str, wanted: Objective | None) -> list[Problem]:
    if wanted is None:
        return []
    if wanted == Objective():
        return [Problem(field, "names nothing: give ttft_ms, tpot_ms, or leave it out")]
    return [
        *checks.whole(f"{field}.ttft_ms", wanted.ttft_ms, 1, OBJECTIVE_MS_MAX),
        *checks.whole(f"{field}.tpot_ms", wanted.tpot_ms, 1, OBJECTIVE_MS_MAX),
    ]


def named(wanted: PlacementWanted | Objective | None) -> dict:
    """What differs from the defaults, as it is stored and shown."""
    if wanted is None:
        return {}
    plain = asdict(type(wanted)())
    found = {name: value for name, value in asdict(wanted).items() if value != plain[name]}
    return {name: list(it) if isinstance(it, tuple) else it for name, it in found.items()}


def placement(stored: Mapping | None) -> PlacementWanted:
    """As it was stored; what a newer release wrote beside is passed over."""
    known = {name: it for name, it in (stored or {}).items() if name in _MEMBERS}
    if "devices" in known:
        known["devices"] = tuple(known["devices"])
    return PlacementWanted(**known)


def objective(stored: Mapping | None) -> Objective | None:
    known = {name: it for name, it in (stored or {}).items() if name in ("ttft_ms", "tpot_ms")}
    return Objective(**known) if known else None


_MEMBERS = frozenset(PlacementWanted.__dataclass_fields__)
