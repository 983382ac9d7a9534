"""A gateway worker's journal of calls: appended at once, fsynced in groups, then shipped."""

import msgspec


class Open(msgspec.Struct, tag="open", frozen=True):
    """An admitted call was dispatched. Times are epoch seconds; estimates are upper bounds."""

    call_id: str
    tenant_id: int
    project_id: int
    key_id: int
    route: str
    version_id: int | None
    replica_id: int | None
    endpoint: str
    stream: bool
    priority: str
    started_at: float
    input_estimate: int


class Progress(msgspec.Struct, tag="progress", frozen=True):
    """Once a second while streaming: tokens so far, as the engine reports them."""

    call_id: str
    input_tokens: int
    cached_input_tokens: int
    output_tokens: int


class Close(msgspec.Struct, tag="close", frozen=True):
    """The end of a call, whole: an event can be made of it alone."""

    call_id: str
    tenant_id: int
    project_id: int
    key_id: int
    route: str
    version_id: int | None
    replica_id: int | None
    endpoint: str
    stream: bool
    priority: str
    attempts: int
    outcome: str
    status: int
    finish_reason: str
    input_tokens: int
    cached_input_tokens: int
    output_tokens: int
    reasoning_tokens: int
    delivered_tokens: int
    tokens_source: str
    started_at: float
    first_token_at: float | None
    ended_at: float


class Refused(msgspec.Struct, tag="refused", frozen=True):
    """Refusals before admission, counted per tenant, key, code and minute (epoch seconds)."""

    tenant: str
    key_id: int | None
    code: str
    minute: int
    count: int


Record = Open | Progress | Close | Refused
