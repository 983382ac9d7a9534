"""What an ordinary call asks for, and the request that an engine gets of it, as a template."""

from typing import NamedTuple

from control.gateway.bodies import ordinary
from control.gateway.calls.outgoing import head_of, request_with
from control.gateway.recording.trace_context import TRACEPARENT
from control.gateway.routing.live import Live


class Asked(NamedTuple):
    """What one call asks for."""

    raw: bytes
    chat: ordinary.Chat  # as it will be written for the engine
    text_bytes: int
    output_tokens: int  # that are expected
    max_tokens: int | None


def template(live: Live) -> bytes:
    """Of a request to it: of its call's id the trace and the span are parts."""
    head = head_of(live, ordinary.ENDPOINT)
    written = request_with(head.replace(b"%", b"%%"), b"%b", TRACEPARENT, b"")
    return written.replace(b"content-length: 0", b"content-length: %d") + b"%b"
