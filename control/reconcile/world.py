"""What reconcile sees, and the steps it can take."""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from control.fleet.recycle import Recycle
from control.placement.world import Need, NodeFacts, Placed, ProjectQuota
from control.states import DeploymentState, Hindrance, NodeState, ReplicaState


@dataclass(frozen=True)
class Policy:
    unknown_seconds: float = 15
    lost_seconds: float = 60
    claim_seconds: float = 120  # a placed launch that its node does not take
    stall_seconds: float = 900  # by the last sign of progress, not by the whole time
    backoff_seconds: float = 2
    backoff_seconds_max: float = 300
    stable_seconds: float = 600  # ready that long: earlier failures are forgiven
    crash_loop_failures: int = 5
    crash_loop_stops: int = 10  # the back-off has reached its limit: nothing is launched any more


@dataclass(frozen=True)
class Heartbeat:
    node_id: int
    name: str
    state: NodeState
    at: datetime | None
    state_at: datetime | None = None


@dataclass(frozen=True)
class ReplicaFacts:
    id: int
    generation: int
    state: ReplicaState
    state_at: datetime
    is_current: bool = True  # launched with the version that is wanted now
    leaving: str = ""  # why it is replaced, successor first
    node: str = ""
    node_state: NodeState | None = None
    progress_at: datetime | None = None
    ready_at: datetime | None = None
    calls: int = 0  # that it has served
    host_memory_bytes: int | None = None
    host_memory_ready_bytes: int | None = None
    sleep_level: int = 0  # that it falls asleep to, once drained
    on_preemptible: bool = False  # its node can be taken away at any moment
    leaves_by: datetime | None = None  # when its host goes; None: when its successor is ready
    leaves_since: datetime | None = None  # when that was said


@dataclass(frozen=True)
class Ended:
    """A launch of the wanted version that is over."""

    state: ReplicaState
    ended_at: datetime
    ready_at: datetime | None = None
    cause: str = ""
    reason: str = ""
    retry: bool = True
    cured: bool = False  # the next launch does something otherwise


@dataclass(frozen=True)
class DeploymentFacts:
    id: int
    state: DeploymentState
    version_id: int
    wanted: int
    need: Need | None = None  # of those to which one more may be launched now
    is_external: bool = False  # takes no device, and is not ours to start or stop
    note: str = ""
    hindrance: Hindrance = Hindrance.NONE
    launch_after: datetime | None = None
    retry_at: datetime | None = None  # failures before it count no longer
    generation: int = 0  # of its last launch
    recycle: Recycle | None = None
    sleep: int = 0  # level at which the last replica sleeps; 0: it is stopped
    replicas: tuple[ReplicaFacts, ...] = ()  # not final
    ended: tuple[Ended, ...] = ()  # newest first


@dataclass(frozen=True)
class World:
    at: datetime
    deployments: tuple[DeploymentFacts, ...] = ()
    nodes: tuple[NodeFacts, ...] = ()  # of a world in which something is to be placed
    quotas: tuple[ProjectQuota, ...] = ()
    heartbeats: tuple[Heartbeat, ...] = ()
    policy: Policy = Policy()

    @cached_property
    def makes_room(self) -> bool:
        """Something is being drained: what finds no place may find one when that has ended."""
        return any(
            replica.state is ReplicaState.DRAINING
            for deployment in self.deployments
            for replica in deployment.replicas
        )


@dataclass(frozen=True)
class MoveNode:
    node_id: int
    old: NodeState
    new: NodeState
    reason: str


@dataclass(frozen=True)
class Start:
    deployment_id: int
    version_id: int
    generation: int
    placed: Placed | None  # None: an external engine
    reason: str


@dataclass(frozen=True)
class Drain:
    replica_id: int
    reason: str
    by: datetime | None = None  # before the usual time is over: its host goes
    sleep: int = 0  # level to fall asleep to, once drained; 0: it is stopped


@dataclass(frozen=True)
class Wake:
    """A sleeper takes its memory again; where another has it by now, it is stopped instead."""

    replica_id: int
    reason: str


@dataclass(frozen=True)
class Stop:
    """Nothing runs that would have to be stopped first."""

    replica_id: int
    reason: str


@dataclass(frozen=True)
class Fail:
    replica_id: int
    cause: str
    reason: str
    release: bool = False  # its node was removed by a person: nobody is left to see it gone


@dataclass(frozen=True)
class Lose:
    replica_id: int
    reason: str


@dataclass(frozen=True)
class BackOff:
    deployment_id: int
    launch_after: datetime
    note: str
    hindrance: Hindrance = Hindrance.BACK_OFF
    cause: str = ""


@dataclass(frozen=True)
class Note:
    """What it waits for; empty when it waits for nothing.

    The hindrance is for tenants, and only while none of its replicas serves or will.
    """

    deployment_id: int
    note: str
    hindrance: Hindrance = Hindrance.NONE
    cause: str = ""  # of its last failed launch


Action = MoveNode | Start | Wake | Drain | Stop | Fail | Lose | BackOff | Note
