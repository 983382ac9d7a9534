"""What the model world is made of: launches, their processes, machines, what is wanted."""

from dataclasses import dataclass, field

from control.fleet.recycle import Recycle
from control.states import Hindrance, NodeState, ReplicaState
from tests.reconcile.worlds import AT, GIB


@dataclass
class Row:
    id: int
    deployment: int
    generation: int
    node: int
    held: tuple = ()
    ram_bytes: int = 0  # of its host, beside the card; booked while anything is held
    state: ReplicaState = ReplicaState.PLACED
    state_at: object = AT
    ready_at: object = None
    ended_at: object = None
    drain_by: object = None
    unrouted: int = 0
    calls: int = 0  # served
    cause: str = ""
    sleep_level: int = 0
    awake: tuple = ()  # what it held before it slept


@dataclass
class Engine:
    calls: int = 0
    hung: bool = False
    asleep: bool = False


@dataclass
class Machine:
    id: int
    kind: str = "cpu"
    total: int = 9 * GIB  # four launches
    ram_bytes: int = 0  # beside cards
    up: bool = True  # its agent; engines do not need it
    state: NodeState = NodeState.READY
    state_at: object = AT
    heartbeat_at: object = AT


def a_machine(number: int) -> Machine:
    """One of two has a card, where six launches fit; its RAM is enough for three."""
    if number % 2:
        return Machine(number, "gpu", 16 * GIB, 12 * GIB)
    return Machine(number)


@dataclass
class Wanted:
    id: int
    count: int
    launch_after: object = None
    note: str = ""
    hindrance: Hindrance = Hindrance.NONE
    sleep: int = 0
    recycle: Recycle = field(default_factory=lambda: Recycle(calls=50))
