"""vLLM 0.32's answers, member for member in its order; what differs there differs here too."""

import json
from dataclasses import dataclass
from typing import Any

FINGERPRINT = "vllm-0.32.0-stub"
DONE = b"data: [DONE]\n\n"


@dataclass
class Answer:
    """One call's answer in the making. `made` counts tokens over all choices."""

    call_id: str
    created: int
    arrived_seconds: float  # on the monotonic clock
    model: str
    chat: bool
    prompt_tokens: int
    cached_tokens: int
    reasoning_tokens: int
    include_usage: bool
    running_usage: bool
    prompt_ids: tuple[int, ...] | None = None  # None if no token ids are told
    made: int = 0

    def role(self, index: int) -> bytes:
        choice = {
            "index": index,
            "delta": {"role": "assistant", "content": ""},
            "logprobs": None,
            "finish_reason": None,
        }
        return self._chunk([choice], {"prompt_token_ids": self.prompt_ids, "prompt_text": None})

    def token(
        self, index: int, text: str, finish: str | None, *, thought: bool, id_: int, first: bool
    ) -> bytes:
        ids = None if self.prompt_ids is None else [id_]
        last = {} if finish is None or self.include_usage else {"system_fingerprint": FINGERPRINT}
        if not self.chat:
            told = {"prompt_token_ids": self.prompt_ids if first else None, "token_ids": ids}
            return self._chunk([self._text_choice(index, text, finish) | told], last)
        choice: dict[str, Any] = {
            "index": index,
            "delta": {"reasoning" if thought else "content": text},
            "logprobs": None,
            "finish_reason": finish,
        }
        if finish is not None:
            choice["stop_reason"] = None
        return self._chunk([choice | {"token_ids": ids}], last)

    def usage_only(self) -> bytes:
        usage = self._counts() | {"prompt_tokens_details": self._cached()}
        if self.chat and self.reasoning_tokens:
            usage["completion_tokens_details"] = self._reasoned()
        head = self._head(".chunk" if self.chat else "")
        return event(head | {"choices": [], "usage": usage, "system_fingerprint": FINGERPRINT})

    def whole(self, texts: list[str], thoughts: list[str], finishes: list[str]) -> dict[str, Any]:
        choices = [
            self._message_choice(index, text, thought, finish)
            if self.chat
            else self._text_choice(index, text, finish)
            for index, (text, thought, finish) in enumerate(
                zip(texts, thoughts, finishes, strict=True)
            )
        ]
        details = self._cached() | {"multimodal_tokens": None}
        usage = self._counts() | {
            "prompt_tokens_details": details,
            "completion_tokens_details": self._reasoned() if self.reasoning_tokens else None,
        }
        tail = {"service_tier": None, "system_fingerprint": FINGERPRINT, "usage": usage}
        return self._head() | {"choices": choices} | tail | {"metrics": None}

    def _head(self, suffix: str = "") -> dict[str, Any]:
        return {
            "id": self.call_id,
            "object": f"chat.completion{suffix}" if self.chat else "text_completion",
            "created": self.created,
            "model": self.model,
        }

    def _chunk(self, choices: list[dict], last: dict[str, Any]) -> bytes:
        chunk = self._head(".chunk" if self.chat else "") | {"choices": choices}
        if self.include_usage and self.running_usage:
            details = {"completion_tokens_details": None} if self.chat else {}
            chunk["usage"] = self._counts() | details
        return event(chunk | last)

    def _counts(self) -> dict[str, int]:
        return {
            "prompt_tokens": self.prompt_tokens,
            "total_tokens": self.prompt_tokens + self.made,
            "completion_tokens": self.made,
        }

    def _cached(self) -> dict[str, Any]:
        return {"cached_tokens": self.cached_tokens}

    def _reasoned(self) -> dict[str, Any]:
        return {"reasoning_tokens": min(self.reasoning_tokens, self.made)}

    @staticmethod
    def _text_choice(index: int, text: str, finish: str | None) -> dict[str, Any]:
        return {
            "index": index,
            "text": text,
            "logprobs": None,
            "finish_reason": finish,
            "stop_reason": None,
            "prompt_token_ids": None,
            "token_ids": None,
        }

    @staticmethod
    def _message_choice(index: int, text: str, thought: str, finish: str) -> dict[str, Any]:
        return {
            "index": index,
            "message": {
                "role": "assistant",
                "content": text,
                "refusal": None,
                "annotations": None,
                "audio": None,
                "function_call": None,
                "reasoning": thought or None,
            },
            "logprobs": None,
            "finish_reason": finish,
            "stop_reason": None,
            "token_ids": None,
        }


def event(value: dict[str, Any]) -> bytes:
    return b"data: " + encode(value) + b"\n\n"


def encode(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def error_body(status: int, message: str, kind: str, param: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": param, "code": status}}


def engine_died() -> bytes:
    """What a stream gets when the engine core is gone: an event under a 200, and [DONE]."""
    said = "EngineCore encountered an issue. See stack trace (above) for the root cause."
    return event(error_body(500, said, "InternalServerError")) + DONE
