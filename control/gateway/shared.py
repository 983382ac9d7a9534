"""What all calls of one gateway process share: limits, clocks, counters, replicas, the spool."""

import socket
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from control.gateway.admission.buckets import Buckets
from control.gateway.admission.counters import Counters
from control.gateway.admission.lender import Lender
from control.gateway.admission.money import Money
from control.gateway.admission.personal import Personal
from control.gateway.admission.strangers import Strangers
from control.gateway.admission.valkey import Valkey
from control.gateway.judges import Judges
from control.gateway.limits import Limits
from control.gateway.recording.counted import Counted
from control.gateway.recording.failures import Failures
from control.gateway.recording.metrics import Tally
from control.gateway.recording.outbox import Outbox
from control.gateway.recording.tracing import Room
from control.gateway.relayed import Web
from control.gateway.routing.deaths import Deaths
from control.gateway.routing.replicas import LiveReplicas
from control.gateway.routing.retries import RetryLeases
from control.gateway.routing.slots import SlotLeases
from control.gateway.routing.telemetry import Telemetry
from control.gateway.waiting.elsewhere import Elsewhere
from control.gateway.waiting.queue import Waiting
from control.gateway.waiting.starts import Starts
from control.metering.records import Record, Refused
from control.models.sealing import derived
from control.routes.snapshot import Identity


@dataclass(frozen=True)
class Clock:
    """`now` for waits, which never jumps; `wall` for records, in epoch seconds."""

    now: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time


class Spool(Protocol):
    has_room: bool

    def append(self, record: Record) -> None: ...

    def append_lines(self, lines: list[bytes]) -> int: ...

    def close(self) -> None: ...


@dataclass
class Shared:
    limits: Limits
    clock: Clock
    spool: Spool
    outbox: Outbox
    counters: Counters
    money: Money
    replicas: LiveReplicas
    slots: SlotLeases
    retries: RetryLeases
    elsewhere: Elsewhere
    waiting: Waiting
    starts: Starts
    buckets: Buckets
    strangers: Strangers
    personal: Personal
    trace_room: Room
    deaths: Deaths
    telemetry: Telemetry
    judges: Judges
    web: Web
    tally: Tally = field(default_factory=Tally)
    calls: set = field(default_factory=set)
    refused: Counter = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.counted = Counted(self.tally)
        self.failures = Failures(self.limits.failed_logs_per_second, self.clock.now)
        # Of what never became a call apart: a flood of bad requests must hide no full engine.
        self.turned_away_room = Room(self.limits.refused_traces_per_second)
        self.stranger_room = Room(self.limits.stranger_traces_per_minute, seconds=60)

    def count_refused(self, identity: Identity | None, code: str) -> None:
        """Counted by tenant, key, code and minute, since a refusal is no usage event."""
        minute = int(self.clock.wall()) // 60 * 60
        tenant = identity.tenant if identity else ""
        self.refused[tenant, identity.key_id if identity else None, code, minute] += 1
        self.tally.add("refused_total", code=code)

    def flush_refused(self) -> None:
        refused, self.refused = self.refused, Counter()
        for (tenant, key_id, code, minute), count in refused.items():
            self.spool.append(Refused(tenant, key_id, code, minute, count))


def shared(
    *,
    redis_url: str,
    processes: int,
    spool: Spool,
    limits: Limits,
    clock: Clock,
    lender: Lender | None = None,
) -> Shared:
    """Without a lender no call of a budget is let in."""
    buckets = Buckets(processes=processes, clock=clock.now)
    tally = Tally()
    waiting = Waiting(calls_max=limits.waiting_calls, clock=clock.now)
    replicas = LiveReplicas(
        processes=processes, limits=limits, clock=clock.now, tally=tally, buckets=buckets
    )
    counters = Counters(redis_url, processes=processes, limits=limits, clock=clock.now)
    deaths = Deaths(counters.valkey, tally, limits, clock, socket.gethostname())
    rotation = replicas.rotation
    rotation.on_change = waiting.advance
    rotation.on_suspected, rotation.on_death = deaths.suspected, deaths.judged
    slots = _slots(counters.valkey, replicas, waiting, processes, limits)
    wanted = slots.wanted_elsewhere
    elsewhere = Elsewhere(counters.valkey, waiting, wanted, processes=processes, limits=limits)
    return Shared(
        limits=limits,
        clock=clock,
        spool=spool,
        outbox=Outbox(spool),
        counters=counters,
        deaths=deaths,
        telemetry=Telemetry(
            counters.valkey, replicas.all, rotation.heard, now=clock.now, wall=clock.wall
        ),
        money=Money(lender, processes=processes, limits=limits, clock=clock.now, wall=clock.wall),
        replicas=replicas,
        slots=slots,
        retries=RetryLeases(counters.valkey, replicas.retries, processes=processes, limits=limits),
        elsewhere=elsewhere,
        waiting=waiting,
        starts=Starts(clock.wall),
        tally=tally,
        buckets=buckets,
        strangers=_strangers(processes, limits, clock),
        personal=Personal(derived("end-users")),
        trace_room=Room(limits.refused_traces_per_second),
        judges=Judges(limits, clock.now),
        web=Web("", limits, clock.now, clock.wall),
    )


def _slots(
    valkey: Valkey, replicas: LiveReplicas, waiting: Waiting, processes: int, limits: Limits
) -> SlotLeases:
    slots = SlotLeases(
        *(valkey, replicas.all, waiting.length_for, lambda: _resized(replicas, waiting)),
        processes=processes,
        limits=limits,
    )
    replicas.share_of = slots.share_of
    return slots


def _strangers(processes: int, limits: Limits, clock: Clock) -> Strangers:
    return Strangers(
        per_minute=limits.strangers_per_minute,
        processes=processes,
        addresses_max=limits.stranger_addresses,
        clock=clock.now,
    )


def _resized(replicas: LiveReplicas, waiting: Waiting) -> None:
    replicas.resize()
    waiting.advance()
