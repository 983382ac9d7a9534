"""Answers of OpenAI's Responses: the object, of whole answers and at both ends of streams."""

from typing import Any

import msgspec

from control.gateway.bodies.dialects import chat
from control.gateway.bodies.dialects.dialect import Translator
from control.gateway.bodies.dialects.responses_stream import ResponsesStream
from control.gateway.bodies.dialects.responses_words import Items, Result
from control.gateway.errors import Headers
from control.gateway.waiting.rules import TIER_OF
from control.states import Priority

Fields = dict[str, Any]


class Responses:
    """How one call is answered; `fields` are the tenant's own, told again in the answer."""

    def __init__(self, fields: Fields) -> None:
        self._fields = fields

    def serve(self, priority: Priority) -> None:
        self._fields = self._fields | {"service_tier": TIER_OF[priority]}

    def whole(self, body: bytes, call_id: str) -> bytes:
        answer, choice = chat.whole(body)
        items = Items(call_id)
        message = choice.message
        if message.thought:
            items.add(items.reasoning(message.thought))
        if text := message.content or message.refusal:
            items.add(items.message(text, chat.logprobs_of(choice)))
        for call in message.tool_calls or ():
            function = call.function or chat.Function()
            items.add(items.call(call.id or "", function.name or "", function.arguments or ""))
        result = Result(call_id, self._fields, answer.created)
        result.note(choice.finish_reason, answer.usage)
        return msgspec.json.encode(result.told(items.done))

    def translator(self, call_id: str) -> Translator:
        return ResponsesStream(call_id, self._fields)

    def headers(self, call_id: str) -> Headers:
        return ()
