"""Answers, streams and errors in the words of Anthropic's Messages."""

from typing import Any

import msgspec

from control.gateway import errors
from control.gateway.bodies.dialects import chat
from control.gateway.bodies.dialects.dialect import Translator, event
from control.gateway.bodies.dialects.messages_stream import MessagesStream
from control.gateway.bodies.dialects.messages_words import Stop, id_of, message_of, usage_of
from control.gateway.errors import Headers, Refusal
from control.states import Priority

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
_TIERS = {
    Priority.INTERACTIVE: "priority",
    Priority.STANDARD: "standard",
    Priority.BATCH: "batch",
}
_OVERLOADED = 529  # what their clients know for 503


class Messages:
    """How one call is answered. `stops` are the words that the tenant named."""

    def __init__(self, model: str, stops: tuple[str, ...]) -> None:
        self._model = model
        self._stops = stops
        self._tier = ""

    def serve(self, priority: Priority) -> None:
        self._tier = _TIERS[priority]

    def whole(self, body: bytes, call_id: str) -> bytes:
        answer, choice = chat.whole(body)
        stop = Stop(self._stops)
        stop.note(choice)
        usage = usage_of(answer.usage or chat.Usage())
        message = message_of(id_of(call_id), self._model, usage, self._tier)
        message |= {"content": _blocks(choice.message), **stop.told()}
        return msgspec.json.encode(message)

    def translator(self, call_id: str) -> Translator:
        return MessagesStream(call_id, self._model, Stop(self._stops), fail_event, self._tier)

    def headers(self, call_id: str) -> Headers:
        return headers_of(call_id)


class Counted:
    """What an engine has counted, of a call that generates nothing."""

    def serve(self, priority: Priority) -> None:
        """Its answer has no place for it."""

    def whole(self, body: bytes, call_id: str) -> bytes:
        try:
            count = _counted(body).count
        except msgspec.DecodeError:
            raise errors.UpstreamFailed("The engine's answer is not understood.") from None
        return msgspec.json.encode({"input_tokens": count})

    def translator(self, call_id: str) -> Translator:
        return MessagesStream(call_id, "", Stop(()), fail_event)

    def headers(self, call_id: str) -> Headers:
        return headers_of(call_id)


class _Count(msgspec.Struct):
    count: int


_counted = msgspec.json.Decoder(_Count).decode


def _blocks(message: chat.Message) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if message.thought:
        blocks.append({"type": "thinking", "thinking": message.thought, "signature": ""})
    if text := message.content or message.refusal:
        blocks.append({"type": "text", "text": text})
    for call in message.tool_calls or ():
        function = call.function or chat.Function()
        given = chat.object_of(function.arguments)
        blocks.append(
            {"type": "tool_use", "id": call.id or "", "name": function.name or "", "input": given}
        )
    return blocks


# --- refusals -------------------------------------------------------------------------------


def headers_of(call_id: str) -> Headers:
    return ((b"request-id", call_id.encode()),)


def status_of(refusal: Refusal) -> int:
    return _OVERLOADED if refusal.status == 503 else refusal.status


def body_of(refusal: Refusal, call_id: str) -> bytes:
    kind = _TYPES.get(refusal.status)
    if kind is None:
        kind = "api_error" if refusal.status >= 500 else "invalid_request_error"
    error = {"type": kind, "message": refusal.message}
    return msgspec.json.encode({"type": "error", "error": error, "request_id": call_id})


def fail_event(refusal: Refusal, call_id: str) -> bytes:
    return event("error", body_of(refusal, call_id))
