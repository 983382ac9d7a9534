"""A chat stream told as the events of OpenAI's Responses."""

from typing import Any

import msgspec

from control.gateway import errors
from control.gateway.bodies.dialects import chat
from control.gateway.bodies.dialects.dialect import event
from control.gateway.bodies.dialects.responses_words import Items, Result, reasoning_part, text_part
from control.gateway.errors import Refusal

Fields = dict[str, Any]

_TEXTS = {"message": "response.output_text", "reasoning": "response.reasoning_text"}
_encode = msgspec.json.encode


class ResponsesStream:
    """One item is open at a time: what is thought, what is said, or a call of a tool."""

    def __init__(self, call_id: str, fields: Fields) -> None:
        self._call_id = call_id
        self._fields = fields
        self._items = Items(call_id)
        self._result: Result | None = None
        self._number = 0  # of the next event
        self._usage: chat.Usage | None = None
        self._finish: str | None = None
        self._open: Fields | None = None
        self._texts: list[str] = []  # of the open item
        self._logprobs: list[Fields] = []
        self._call_index = -1  # the engine's number of the open call

    def chunk(self, data: bytes) -> bytes:
        if data.startswith(b"[DONE]"):
            return self._end()
        seen = chat.chunk(data)
        if seen is None:
            return b""
        if seen.usage:
            self._usage = seen.usage
        told: list[bytes] = []
        self._begin(seen.created, told)
        for choice in seen.choices[:1]:
            self._finish = self._finish or choice.finish_reason
            if choice.delta:
                self._delta(choice.delta, choice, told)
        return b"".join(told)

    def fail(self, refusal: Refusal) -> bytes:
        """Clients yield an `error` event as one more, so the failed object is the last word."""
        told: list[bytes] = []
        self._begin(0, told)
        self._result.note_failure(refusal)
        self._say("response.failed", told, response=self._result.told(self._items.done))
        return b"".join(told)

    def _begin(self, created: int, told: list[bytes]) -> None:
        if self._result:
            return
        self._result = Result(self._call_id, self._fields, created)
        for name in ("response.created", "response.in_progress"):
            self._say(name, told, response=self._result.told([]))

    def _end(self) -> bytes:
        if self._finish is None:
            return self.fail(errors.UpstreamFailed("The engine's answer broke off."))
        told: list[bytes] = []
        self._begin(0, told)
        self._close(told)
        self._result.note(self._finish, self._usage)
        name = f"response.{self._result.status}"
        self._say(name, told, response=self._result.told(self._items.done))
        return b"".join(told)

    # --- items ---

    def _delta(self, delta: chat.Message, choice: chat.Choice, told: list[bytes]) -> None:
        if thought := delta.thought:
            self._add_text("reasoning", thought, {}, told)
        if text := delta.content or delta.refusal:
            logprobs = chat.logprobs_of(choice)
            self._logprobs += logprobs
            self._add_text("message", text, {"logprobs": logprobs}, told)
        for call in delta.tool_calls or ():
            self._add_call(call, told)

    def _add_text(self, kind: str, text: str, more: Fields, told: list[bytes]) -> None:
        if self._open is None or self._open["type"] != kind:
            self._close(told)
            begun = "in_progress"
            items = self._items
            item = items.message("", [], begun) if kind == "message" else items.reasoning("", begun)
            self._start(item, told)
            part = text_part("", []) if kind == "message" else reasoning_part("")
            self._say_part("response.content_part.added", told, part=part)
        self._texts.append(text)
        self._say_part(f"{_TEXTS[kind]}.delta", told, delta=text, **more)

    def _add_call(self, call: chat.ToolCall, told: list[bytes]) -> None:
        function = call.function or chat.Function()
        is_open = self._open is not None and self._open["type"] == "function_call"
        if not is_open or call.index != self._call_index:
            self._close(told)
            self._call_index = call.index
            name, id_ = function.name or "", call.id or ""
            self._start(self._items.call(id_, name, "", "in_progress"), told)
        if function.arguments:
            self._texts.append(function.arguments)
            name = "response.function_call_arguments.delta"
            self._say_item(name, told, delta=function.arguments)

    def _start(self, item: Fields, told: list[bytes]) -> None:
        self._open, self._texts = item, []
        at = len(self._items.done)
        self._say("response.output_item.added", told, output_index=at, item=item)

    def _close(self, told: list[bytes]) -> None:
        if self._open is None:
            return
        item, text = self._open, "".join(self._texts)
        kind = item["type"]
        if kind == "function_call":
            item = item | {"arguments": text}
            name = "response.function_call_arguments.done"
            self._say_item(name, told, arguments=text, name=item["name"])
        else:
            item = item | {"content": [self._close_text(kind, text, told)]}
        item["status"] = "completed"
        at = len(self._items.done)
        self._say("response.output_item.done", told, output_index=at, item=item)
        self._items.add(item)
        self._open = None

    def _close_text(self, kind: str, text: str, told: list[bytes]) -> Fields:
        logprobs, self._logprobs = self._logprobs, []
        more = {"logprobs": logprobs} if kind == "message" else {}
        part = text_part(text, logprobs) if kind == "message" else reasoning_part(text)
        self._say_part(f"{_TEXTS[kind]}.done", told, text=text, **more)
        self._say_part("response.content_part.done", told, part=part)
        return part

    # --- events ---

    def _say_part(self, name: str, told: list[bytes], /, **members: Any) -> None:
        self._say_item(name, told, content_index=0, **members)

    def _say_item(self, name: str, told: list[bytes], /, **members: Any) -> None:
        at = len(self._items.done)
        self._say(name, told, item_id=self._open["id"], output_index=at, **members)

    def _say(self, name: str, told: list[bytes], /, **members: Any) -> None:
        data = {"type": name, "sequence_number": self._number, **members}
        self._number += 1
        told.append(event(name, _encode(data)))
