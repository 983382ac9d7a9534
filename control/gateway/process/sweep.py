"""What happens once a second: every limit in time is kept here, none by a timer of its own."""

import logging
from collections.abc import Callable, Iterable
from typing import Protocol
from weakref import ref

from control.gateway.http1.listener import Listener
from control.gateway.http1.slices import in_slices
from control.gateway.serve import Gateway
from control.gateway.waiting import demand

log = logging.getLogger(__name__)

CALLS_AT_ONCE = 50  # what a call has used is counted and written down: a millisecond or two


class Swept(Protocol):
    def sweep(self, now: float) -> None: ...


def sweep(gateway: Gateway, listener: Listener, now: float) -> None:
    shared = gateway.shared
    # First: whoever has waited in vain is refused before its headers are sent for being late.
    guarded(shared.waiting.sweep, now)
    sweep_calls(shared.calls, now)
    for act in (
        shared.counters.sweep,
        shared.money.sweep,
        shared.buckets.sweep,
        shared.replicas.sweep,
        shared.deaths.sweep,
        shared.telemetry.sweep,
        shared.judges.sweep,
        shared.web.sweep,
        shared.failures.sweep,
        listener.sweep,
    ):
        guarded(act, now)
    guarded(shared.replicas.leave_overdue, shared.clock.wall())
    guarded(shared.replicas.end_guards, shared.clock.wall())
    demand.signal(shared.counters.valkey, shared.waiting, shared.replicas.is_ready)
    # A replica may be back from its ejection, or the snapshot's number of slots has grown.
    shared.waiting.advance()


def hurry(gateway: Gateway, now: float) -> None:
    """Between two sweeps: deadlines and waits may be shorter than these are apart."""
    shared = gateway.shared
    guarded(shared.waiting.end_patience, now)
    for call in tuple(shared.calls):
        if now >= call.want.ends_by:
            guarded(call.sweep, now)


def sweep_calls(calls: Iterable[Swept], now: float) -> None:
    """None is held until its turn: on a full core the last is a second away, and by then all may
    have ended and as many others begun, which is twice the memory."""
    in_slices(lambda one: _sweep_call(one(), now), tuple(map(ref, calls)), CALLS_AT_ONCE)


def _sweep_call(call: Swept | None, now: float) -> None:
    if call is not None:
        guarded(call.sweep, now)


def guarded(act: Callable[[float], None], now: float) -> None:
    try:
        act(now)
    except Exception:
        log.exception("something that is done each second failed")
