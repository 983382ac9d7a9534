"""Chunks of our own making, each like the last one that the engine sent (pure)."""

from collections.abc import Iterable
from typing import Any

import msgspec

from control.gateway.streams import ids
from control.gateway.streams.chunks import Usage
from control.gateway.streams.sse import event_of


def usage_chunk(last: bytes, usage: bytes) -> bytes:
    """For an engine that reports usage only beside content: the chunk the tenant asked for."""
    members = msgspec.json.decode(last, type=dict[str, msgspec.Raw])
    ids.drop(members)
    members |= {"choices": msgspec.Raw(b"[]"), "usage": msgspec.Raw(usage)}
    return msgspec.json.encode(members)


def usage_text(usage: Usage) -> bytes:
    return msgspec.json.encode(
        {
            "prompt_tokens": usage.input,
            "total_tokens": usage.input + usage.output,
            "completion_tokens": usage.output,
        }
    )


def text_events(
    last: bytes, texts: Iterable[tuple[int, str]], finish_reason: str | None = None
) -> list[bytes]:
    """An event for each of those choices."""
    return [event_of(text_chunk(last, index, text, finish_reason)) for index, text in texts]


def text_chunk(last: bytes, index: int, text: str, finish_reason: str | None = None) -> bytes:
    """A chunk that says this, in the words of a chat or of a completion."""
    members = msgspec.json.decode(last)
    members.pop("usage", None)
    ids.drop(members)
    members["choices"] = [choice_of(is_chat(members), index, text, finish_reason)]
    return msgspec.json.encode(members)


def is_chat(members: dict[str, Any]) -> bool:
    return members.get("object") != "text_completion"


def choice_of(chat: bool, index: int, text: str, finish_reason: str | None) -> dict[str, Any]:
    said: dict[str, Any] = {"text": text}
    if chat:
        said = {"delta": {"content": text} if text or finish_reason is None else {}}
    return {"index": index, **said, "logprobs": None, "finish_reason": finish_reason}
