"""What an engine's answer that is no stream means: values in, a decision out."""

from typing import NamedTuple

from control.gateway.bodies.wire import Ask
from control.gateway.errors import Refusal, UpstreamFailed
from control.gateway.routing import causes
from control.gateway.routing.health import Cause
from control.gateway.streams import chunks, engine_errors


class Whole(NamedTuple):
    """All that was asked for."""

    usage: chunks.Usage | None
    finish_reason: str
    has_choices: bool


class Rejected(NamedTuple):
    """By an engine that is well, in its own words."""

    refusal: Refusal
    message: str


class Unserved(NamedTuple):
    """The engine's model has no such endpoint."""

    refusal: Refusal


class Failed(NamedTuple):
    """Another engine may do better."""

    refusal: Refusal
    cause: Cause


def meaning_of(ask: Ask, status: int, body: bytes) -> Whole | Rejected | Unserved | Failed:
    seen = chunks.look(body)
    if status != 200:
        return _of_error(ask, status, seen, body)
    if seen is None or ask.stream and not seen.error:
        return _failed(UpstreamFailed("The engine's answer is not understood."))
    if refusal := engine_errors.refusal_in(seen):
        return _failed(refusal)
    reason = (seen.choices[0].finish_reason or "") if seen.choices else ""
    return Whole(chunks.usage_of(seen), reason, bool(seen.choices))


def _of_error(
    ask: Ask, status: int, seen: chunks.Chunk | None, body: bytes
) -> Rejected | Unserved | Failed:
    if status == 404 and body == causes.UNSERVED:
        return Unserved(causes.unserved(ask.called))
    if status in causes.NOT_OURS:
        return Failed(*causes.STRANGER)
    message = engine_errors.message_of(seen) if seen else ""
    code = engine_errors.code_of(seen) if seen else None
    refusal = engine_errors.refusal_of(status, message, code)
    return Rejected(refusal, message) if refusal.status < 500 else _failed(refusal)


def _failed(refusal: Refusal) -> Failed:
    return Failed(refusal, causes.cause_of(refusal))
