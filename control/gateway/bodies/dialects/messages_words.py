"""What whole and streamed answers of Anthropic's Messages have in common."""

from typing import Any

from control.gateway.bodies.dialects import chat

_REASONS = {
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}


class Stop:
    """Why the answer ended, and by which of the words that the tenant named."""

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = stops
        self.reason: str | None = None
        self._sequence: str | None = None

    def note(self, choice: chat.Choice) -> None:
        if choice.finish_reason is None or self.reason is not None:
            return
        self.reason = _REASONS.get(choice.finish_reason, "end_turn")
        if choice.finish_reason == "stop" and choice.stop_reason in self._stops:
            self.reason, self._sequence = "stop_sequence", str(choice.stop_reason)

    def told(self) -> dict[str, Any]:
        return {"stop_reason": self.reason, "stop_sequence": self._sequence}


def id_of(call_id: str) -> str:
    return "msg_" + call_id.removeprefix("req_")


def message_of(id_: str, model: str, usage: dict[str, Any], tier: str) -> dict[str, Any]:
    """Without an answer yet."""
    return {
        "id": id_,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage | {"service_tier": tier} if tier else usage,
    }


def usage_of(usage: chat.Usage) -> dict[str, Any]:
    """Their classes are apart from each other; of OpenAI's, cached tokens are part of the input."""
    return {
        "input_tokens": usage.input - usage.cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.output,
    }
