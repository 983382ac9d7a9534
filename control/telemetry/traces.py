"""What is kept of a call to be looked at later: its stages, and what was decided on the way."""

from typing import Any

import msgspec

# Stages in their order; what is written of each is when it ended, in microseconds from arrival.
STAGES = (
    "read",  # the request had come, whole
    "admit",  # limits were asked
    "wait",  # its turn came
    "route",  # a replica was chosen
    "connect",  # the request went out to it
    "engine_queue",  # the engine began to answer
    "first_token",
    "last_token",
    "settle",  # counted, given back, written down
)


class Try(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request to an engine that a call went on without. Its tokens are the platform's loss."""

    replica_id: int
    why: str  # code of an error, or `continued`, `requeued`
    until_us: int  # when it was given up, from the call's arrival
    input_tokens: int = 0
    output_tokens: int = 0
    begun_us: int = 0  # when it was sent, from the call's arrival
    source: str = ""  # of its tokens; of an older release nobody knows


class Trace(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of calls that failed, were slow, were refused or are among the sample."""

    kept: str  # why: failed | slow | retried | refused | sampled
    stages: dict[str, int]
    decisions: list[dict[str, Any]] = []
    error: str = ""  # the refusal's code
    engine: str = ""  # its kind
    model: str = ""
    link: str = ""  # the caller's own trace: trace id and parent id, with a dash between
    link_state: str = ""  # and its tracestate
