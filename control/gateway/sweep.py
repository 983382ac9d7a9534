"""What happens once a second: every limit in time is kept here, none by a timer of its own."""

import logging

from control.gateway.http1.listener import Listener
from control.gateway.serve import Gateway
from control.gateway.waiting import demand

log = logging.getLogger(__name__)


def sweep(gateway: Gateway, listener: Listener, now: float) -> None:
    shared = gateway.shared
    for act in (
        *(call.sweep for call in tuple(shared.calls)),
        shared.waiting.sweep,
        shared.counters.sweep,
        shared.buckets.sweep,
        shared.replicas.sweep,
        shared.deaths.sweep,
        listener.sweep,
    ):
        try:
            act(now)
        except Exception:
            log.exception("something that is done each second failed")
    demand.signal(shared.counters.valkey, shared.waiting, shared.replicas.is_ready)
    # A replica may be back from its ejection, or the snapshot's number of slots has grown.
    shared.waiting.advance()
