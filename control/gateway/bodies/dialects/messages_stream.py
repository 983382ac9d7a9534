"""A chat stream told as the events of Anthropic's Messages."""

from collections.abc import Callable
from typing import Any

import msgspec

from control.gateway import errors
from control.gateway.bodies.dialects import chat
from control.gateway.bodies.dialects.dialect import event
from control.gateway.bodies.dialects.messages_words import Stop, id_of, message_of, usage_of
from control.gateway.errors import Refusal

_encode = msgspec.json.encode


class MessagesStream:
    """One block is open at a time: thinking, text, or a call of a tool."""

    def __init__(
        self,
        call_id: str,
        model: str,
        stop: Stop,
        fail: Callable[[Refusal, str], bytes],
        tier: str = "",
    ) -> None:
        self._call_id = call_id
        self._model = model
        self._tier = tier
        self._stop = stop
        self._fail = fail
        self._usage = chat.Usage()
        self._begun = False
        self._open = ""  # kind of the open block
        self._index = -1  # of the newest block
        self._tools: dict[int, int] = {}  # blocks by the calls' own numbers

    def chunk(self, data: bytes) -> bytes:
        if data.startswith(b"[DONE]"):
            return self._end()
        seen = chat.chunk(data)
        if seen is None:
            return b""
        if seen.usage:
            self._usage = seen.usage
        told: list[bytes] = []
        self._begin(told)
        for choice in seen.choices[:1]:
            self._stop.note(choice)
            if choice.delta:
                self._delta(choice.delta, told)
        return b"".join(told)

    def fail(self, refusal: Refusal) -> bytes:
        return self._fail(refusal, self._call_id)

    def _begin(self, told: list[bytes]) -> None:
        if self._begun:
            return
        self._begun = True
        usage = usage_of(self._usage) | {"output_tokens": 0}
        message = message_of(id_of(self._call_id), self._model, usage, self._tier)
        told.append(_event("message_start", message=message))

    def _delta(self, delta: chat.Message, told: list[bytes]) -> None:
        if thought := delta.thought:
            self._block("thinking", {"thinking": "", "signature": ""}, told)
            self._tell({"type": "thinking_delta", "thinking": thought}, told)
        if text := delta.content or delta.refusal:
            self._block("text", {"text": ""}, told)
            self._tell({"type": "text_delta", "text": text}, told)
        for call in delta.tool_calls or ():
            self._call(call, told)

    def _call(self, call: chat.ToolCall, told: list[bytes]) -> None:
        function = call.function or chat.Function()
        if call.index not in self._tools:
            self._close(told)
            given = {"id": call.id or "", "name": function.name or "", "input": {}}
            self._block("tool_use", given, told)
            self._tools[call.index] = self._index
        if function.arguments:
            delta = {"type": "input_json_delta", "partial_json": function.arguments}
            self._tell(delta, told, self._tools[call.index])

    def _block(self, kind: str, members: dict[str, Any], told: list[bytes]) -> None:
        if self._open == kind:
            return
        self._close(told)
        self._open = kind
        self._index += 1
        block = {"type": kind, **members}
        told.append(_event("content_block_start", index=self._index, content_block=block))

    def _tell(self, delta: dict[str, Any], told: list[bytes], index: int | None = None) -> None:
        at = self._index if index is None else index
        told.append(_event("content_block_delta", index=at, delta=delta))

    def _close(self, told: list[bytes]) -> None:
        if self._open:
            self._open = ""
            told.append(_event("content_block_stop", index=self._index))

    def _end(self) -> bytes:
        if self._stop.reason is None:
            return self.fail(errors.UpstreamFailed("The engine's answer broke off."))
        told: list[bytes] = []
        self._begin(told)
        self._close(told)
        told.append(_event("message_delta", delta=self._stop.told(), usage=usage_of(self._usage)))
        told.append(_event("message_stop"))
        return b"".join(told)


def _event(kind: str, **members: Any) -> bytes:
    return event(kind, _encode({"type": kind, **members}))
