"""What whole and streamed answers of OpenAI's Responses have in common."""

from typing import Any

from control.gateway.bodies.dialects import chat
from control.gateway.errors import Refusal

Fields = dict[str, Any]

# Finish reasons that leave an answer without its end, and what it is called here.
_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
_CODES = {429: "rate_limit_exceeded", 400: "invalid_prompt"}


class Items:
    """The items of one answer. Their ids are of the call and of their place in it."""

    def __init__(self, call_id: str) -> None:
        self.done: list[Fields] = []
        self._suffix = call_id.removeprefix("req_")

    def add(self, item: Fields) -> None:
        self.done.append(item)

    def id_of(self, prefix: str) -> str:
        return f"{prefix}_{self._suffix}{len(self.done):02x}"

    def reasoning(self, text: str, status: str = "completed") -> Fields:
        content = [reasoning_part(text)] if text else []
        return {
            "id": self.id_of("rs"),
            "type": "reasoning",
            "summary": [],
            "content": content,
            "status": status,
        }

    def message(self, text: str, logprobs: list[Fields], status: str = "completed") -> Fields:
        content = [text_part(text, logprobs)] if status == "completed" else []
        return {
            "id": self.id_of("msg"),
            "type": "message",
            "role": "assistant",
            "status": status,
            "content": content,
        }

    def call(self, call_id: str, name: str, arguments: str, status: str = "completed") -> Fields:
        return {
            "id": self.id_of("fc"),
            "type": "function_call",
            "call_id": call_id,
            "name": name,
            "arguments": arguments,
            "status": status,
        }


def text_part(text: str, logprobs: list[Fields]) -> Fields:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}


def reasoning_part(text: str) -> Fields:
    return {"type": "reasoning_text", "text": text}


class Result:
    """How an answer ended, and the object that says so."""

    def __init__(self, call_id: str, fields: Fields, created: int) -> None:
        self.status = "in_progress"
        self._id = "resp_" + call_id.removeprefix("req_")
        self._fields = fields
        self._created = created
        self._reason: str | None = None
        self._usage: chat.Usage | None = None
        self._error: Fields | None = None

    def note(self, finish_reason: str | None, usage: chat.Usage | None) -> None:
        self._usage = usage
        self._reason = _INCOMPLETE.get(finish_reason or "")
        self.status = "incomplete" if self._reason else "completed"

    def note_failure(self, refusal: Refusal) -> None:
        code = _CODES.get(refusal.status, "server_error")
        self.status, self._reason = "failed", None
        self._error = {"code": code, "message": refusal.message}

    def told(self, output: list[Fields]) -> Fields:
        given = self._fields
        text, reasoning = given.get("text", {}), given.get("reasoning", {})
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "status": self.status,
            "background": False,
            "error": self._error,
            "incomplete_details": {"reason": self._reason} if self._reason else None,
            "instructions": given.get("instructions"),
            "max_output_tokens": given.get("max_output_tokens"),
            "metadata": given.get("metadata", {}),
            "model": given["model"],
            "output": output,
            "parallel_tool_calls": given.get("parallel_tool_calls", True),
            "previous_response_id": None,
            "reasoning": {"effort": reasoning.get("effort"), "summary": reasoning.get("summary")},
            "service_tier": given.get("service_tier"),
            "store": False,
            "temperature": given.get("temperature"),
            "text": {"format": text.get("format") or {"type": "text"}},
            "tool_choice": given.get("tool_choice", "auto"),
            "tools": given.get("tools", []),
            "top_logprobs": given.get("top_logprobs"),
            "top_p": given.get("top_p"),
            "truncation": "disabled",
            "usage": usage_of(self._usage) if self._usage else None,
            "user": given.get("user"),
        }


def usage_of(usage: chat.Usage) -> Fields:
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": 0},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input + usage.output,
    }
