"""What a choice is made from: replicas as one gateway process sees them, and a call's wishes."""

from typing import NamedTuple

import msgspec

from control.gateway.routing.room import Room, batch_part
from control.gateway.routing.tempo import Tempo

LOAD_SECONDS_MAX = 3.0  # figures that are older say nothing
KV_RATIO_MAX = 0.95  # above it the next call makes the engine preempt another


class EngineLoad(NamedTuple):
    """What an engine itself last said, with all gateways' calls in it."""

    running: int
    waiting: int
    kv_ratio: float
    at: float  # by the clock of waits
    own_in_flight: int  # calls of this process that were already at the engine then


class Figures(msgspec.Struct, frozen=True, gc=False):
    """One candidate at the moment of a choice; a reference and some numbers, hence cheap."""

    id: int
    in_flight: int
    slots: int
    engine: EngineLoad | None


class Candidate:
    """`slots` is what this process may use of it now, 0 none at all; `capacity` all that it has.

    Counts change with each call, so that a choice builds nothing for a replica.
    """

    __slots__ = (
        "batch_in_flight",
        "capacity",
        "coming",
        "engine",
        "id",
        "in_flight",
        "kept",
        "lent",
        "refused_until",
        "room",
        "seed",
        "slots",
        "tempo",
    )

    def __init__(self, id_: int, slots: int, in_flight: int = 0, seed: int = 0) -> None:
        self.id = id_
        self.slots = slots
        self.capacity = slots
        self.in_flight = in_flight
        self.batch_in_flight = 0  # of those
        self.kept = 0  # of its slots, for interactive calls alone
        self.room = Room(None)
        self.tempo = Tempo()
        self.engine: EngineLoad | None = None
        self.lent = False  # other processes use all of its slots, and return them
        self.coming = False  # without slots, but that may change at any moment
        self.refused_until = 0.0  # the engine's own queue was full
        self.seed = seed or id_  # its place in the order of each key

    def has_room(self, pick: "Pick") -> bool:
        slots = self.slots
        if self.in_flight >= slots - (0 if pick.passes else self.kept):
            return False
        share = 0.0
        if pick.batch:
            share = self.tempo.batch_share
            if self.batch_in_flight >= batch_part(slots, share):
                return False
        in_all = self.capacity
        return self.room.fits(pick.kv_tokens, batch=share, slots=slots, slots_in_all=in_all)

    def own_load(self) -> float:
        """The share of its slots that this process uses."""
        return self.in_flight / self.slots if self.slots else 1.0

    def load(self, now: float) -> float:
        """The share of the engine that is used: of its slots or of its cache, and its queue.

        Calls sent since the engine spoke are added; without fresh figures only our own count.
        """
        engine = self.engine
        if engine is None or now - engine.at > LOAD_SECONDS_MAX or not self.slots:
            return self.own_load()
        unseen = self.in_flight - engine.own_in_flight
        calls = max(engine.running + engine.waiting + unseen, self.in_flight)
        return max(calls / self.capacity, engine.kv_ratio) + engine.waiting / self.capacity

    def saturated(self, now: float) -> bool:
        """Its own queue is in use, or was full a moment ago: a retry here would only add to it."""
        if self.refused_until > now:
            return True
        engine = self.engine
        if engine is None or now - engine.at > LOAD_SECONDS_MAX:
            return False
        return engine.waiting > 0 or engine.kv_ratio >= KV_RATIO_MAX

    def figures(self) -> Figures:
        return Figures(self.id, self.in_flight, self.slots, self.engine)


class Pick(msgspec.Struct, gc=False):
    """What one call wants of its replica. `tie` is a number by chance, at least 32 bits."""

    tie: int
    policy: str = "load_aware"  # one of states.RoutingPolicy
    key: int | None = None  # of its prefix or conversation
    batch: bool = False
    passes: bool = False  # it may take what is kept for interactive calls
    kv_tokens: int = 0  # of its prompt and the answer that is expected
    turn: int = 0  # of round robin
    tried: frozenset[int] = frozenset()  # not tried again
    calm: bool = False  # only a replica that does not queue: the one before was saturated
