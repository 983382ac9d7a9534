"""What placement sees, what a launch asks for, and what it is told. Pure."""

from dataclasses import dataclass, field
from enum import StrEnum

from control.placement.memory import Sizes
from control.placement.wanted import AntiAffinity, Policy, Sharing
from control.states import Priority
from engines.vllm.choices import CardWanted

Range = tuple[int, int]  # bytes [lower, upper) of a device's memory


class Room(StrEnum):
    """How memory of a device is given away."""

    OWN = "own"  # a card, whole
    SHARED = "shared"  # a fixed part of a card
    RAM = "ram"  # a part of a host's memory


@dataclass(frozen=True)
class Holder:
    """A launch that holds memory of a device."""

    replica_id: int
    deployment_id: int
    name: str = ""  # deployment#generation
    model_id: int = 0
    priority: str = Priority.STANDARD
    project_id: int | None = None
    ranges: tuple[Range, ...] = ()
    ends: bool = False  # it drains or is over: what it holds is soon free
    asleep: bool = False  # it holds little, and gives way to what needs that
    starts: bool = False  # it may not have taken yet what it holds
    taken_bytes: int | None = None  # of a host's RAM, lately read; None: not read yet
    host_bytes: int = 0  # of it, that is booked beside cards


@dataclass(frozen=True)
class DeviceFacts:
    id: int
    uuid: str
    name: str
    kind: str  # "gpu" | "cpu"
    memory_total_bytes: int
    foreign_bytes: int = 0  # held by processes that are not ours
    booked: tuple[Range, ...] = ()
    blocked: str = ""  # why nothing is placed on it: its reading failed or is old
    memory_free_bytes: int | None = None  # as the driver says; None: it does not
    coming_bytes: int = 0  # of a host's RAM: booked, and not taken yet
    holders: tuple[Holder, ...] = ()
    links: frozenset[str] = frozenset()  # uuids that NVLink leads to
    is_slice: bool = False  # of a card, by MIG: CUDA shows a process one of them alone
    compute_capability: str = ""  # "8.9"; empty: it does not say


@dataclass(frozen=True)
class NodeFacts:
    id: int
    name: str
    blocked: str = ""  # why nothing is placed on it: cordoned, silent, removed
    devices: tuple[DeviceFacts, ...] = ()
    weights: frozenset[int] = frozenset()  # versions whose files are on its disk
    deployments: frozenset[int] = frozenset()  # that have a replica on it
    pool: str = "default"
    preemptible: bool = False  # it may be taken away at any time
    ram_bytes: int = 0  # of a host with cards; 0: it has not said
    ram_booked_bytes: int = 0  # for engines, and for weights that cards there do not hold
    ram_available_bytes: int | None = None  # as its kernel said; None: not lately
    ram_coming_bytes: int = 0  # of what is booked, not taken yet at that reading


@dataclass(frozen=True)
class Need:
    """What one launch asks for; sizes by kind of device, for an engine may run on either."""

    version_id: int
    deployment_id: int
    devices: int
    sizes: dict[str, Sizes]
    pin: str = ""  # node name
    stated: str = ""  # what the sizes rest on, if not on a measure
    model_id: int = 0
    name: str = ""  # of the deployment
    priority: str = Priority.STANDARD
    project_id: int | None = None
    share: str = Sharing.OWN
    policy: str = Policy.PACK
    anti_affinity: str = AntiAffinity.PREFERRED
    pool: str = ""  # of nodes; empty is any
    uuids: tuple[str, ...] = ()  # of the only devices it may use; none is any
    avoid: frozenset[int] = frozenset()  # devices that a replica of it leaves
    card: CardWanted | None = None  # what its engine and formats want of one; None is any
    expendable: bool = False  # batch, or above the least that is wanted: may be lost at any time


@dataclass(frozen=True)
class ProjectQuota:
    id: int
    name: str  # tenant/project
    guaranteed: int = 0
    maximum: int | None = None


@dataclass(frozen=True)
class Share:
    """What a launch holds of one device."""

    device_id: int
    ranges: tuple[Range, ...]


@dataclass(frozen=True)
class Placed:
    node_id: int
    node: str
    shares: tuple[Share, ...]
    kv_bytes: int  # on each device
    reason: str
    room: Room = Room.RAM
    host_bytes: int = 0  # of the node's RAM, beside its cards


@dataclass(frozen=True)
class Unplaced:
    """Node, or node/device, and why not; what could be changed; and how many are not named."""

    reasons: dict[str, str]
    advice: tuple[str, ...] = ()
    more: int = field(default=0, compare=False)

    def __str__(self) -> str:
        if not self.reasons:
            return "no node has joined yet: start one with `weir node`"
        told = "; ".join(f"{where} {why}" for where, why in sorted(self.reasons.items()))
        more = f"; and {self.more} more" if self.more else ""
        advice = f". To change it: {', or '.join(self.advice)}" if self.advice else ""
        return f"{told}{more}{advice}"
