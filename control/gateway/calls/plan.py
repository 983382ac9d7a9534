"""What goes to one engine for a call, and what of its answer is ours to look after."""

import functools

import msgspec

from control.gateway.bodies import wire
from control.gateway.bodies.wire import Ask
from control.gateway.calls import continuation
from control.gateway.limits import Limits
from control.gateway.streams import stops
from control.gateway.streams.ids import TokenIds
from control.gateway.streams.names import Name, name_of
from control.gateway.streams.relay import Reader
from control.gateway.streams.stops import Words
from control.routes.snapshot import ReplicaInfo, RouteInfo

_STOPPABLE = frozenset({"chat.completions", "completions"})
_SALTED = frozenset({"vllm", "stub"})  # engines that know `cache_salt`
_WORDS_MAX = 1024  # sets of stop words remembered at once


class Plan(msgspec.Struct, frozen=True, gc=False):
    """`stops` are those no engine looks for; token ids are asked for to go on elsewhere."""

    endpoint: str
    body: bytes
    stops: Words | None = None
    token_ids: bool = False
    name: Name | None = None  # what the answer is to call its model, if the engine does not


def plan_of(ask: Ask, route: RouteInfo, info: ReplicaInfo, max_tokens: int | None) -> Plan:
    asked, ours = ask.fields.get("stop"), ()
    to_engine: tuple[str, ...] = ()
    if (asked or route.stop) and ask.endpoint in _STOPPABLE:
        to_engine, ours = stops.split(asked, route.stop, info.engine)
    token_ids = continuation.asks_ids(ask, route, info.engine, to_engine)
    body = wire.for_engine(
        ask,
        served_name=info.served_name,
        stop=to_engine,
        max_tokens=max_tokens,
        token_ids=token_ids,
        salted=is_salted(ask.endpoint, info.engine),
    )
    name = name_of(route.name, info.served_name, ask.tier) if ask.dialect is None else None
    if not ours:
        return Plan(ask.endpoint, body, None, token_ids, name)
    included = ask.fields.get("include_stop_str_in_output") is True
    return Plan(ask.endpoint, body, _words(ours, included), token_ids, name)


def is_salted(endpoint: str, engine: str) -> bool:
    return endpoint in _STOPPABLE and engine in _SALTED


def reader_of(plan: Plan, ask: Ask, limits: Limits) -> Reader:
    """For the stream that comes back."""
    ids = None
    if plan.token_ids:
        shown = ask.fields.get("return_token_ids") is True
        ids = TokenIds(limits.token_id_bytes, shown=shown)
    reader = Reader(
        include_usage=ask.include_usage,
        running_usage=ask.running_usage,
        choices=ask.choices,
        event_bytes_max=limits.event_bytes,
        token_ids=ids,
        stops=plan.stops,
    )
    reader.name = plan.name
    return reader


def shown(plan: Plan, body: bytes, *, has_choices: bool) -> bytes:
    """A whole answer as the tenant reads it."""
    if plan.stops and has_choices:
        body = stops.cut(body, plan.stops)
    return plan.name.renamed(body) if plan.name else body


@functools.lru_cache(_WORDS_MAX)
def _words(words: tuple[str, ...], included: bool) -> Words:
    return Words(words, included=included)
