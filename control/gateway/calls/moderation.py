"""What of a call a judge reads, and what is left of an answer that it flags (pure)."""

from typing import Any

import msgspec

from control.gateway import errors
from control.gateway.bodies.wire import Ask
from control.gateway.streams import chunks

WINDOW_TOKENS = 64
FINISH = "content_filter"
_WRITTEN_AROUND = ("tools", "tool_choice", "response_format", "structured_outputs")
_MEDIA = frozenset({"image_url", "video_url", "audio_url", "input_audio"})
_SAID = ("content", "reasoning", "reasoning_content", "refusal", "text", "arguments")


Parts = list[dict[str, Any]]


def question(route: str, call_id: str, stage: str, texts: list[str], parts: Parts) -> bytes:
    """A judge of texts alone is not told of parts that are not there."""
    asked = {"input": texts, "route": route, "call": call_id, "stage": stage}
    return msgspec.json.encode(asked | {"parts": parts} if parts else asked)


def asked_parts(ask: Ask) -> Parts:
    """Pictures, films and sounds of a prompt, as the engine gets them."""
    contents = [message.get("content") for message in ask.fields.get("messages", ())]
    lists = [content for content in contents if isinstance(content, list)]
    return [part for parts in lists for part in parts if part.get("type") in _MEDIA]


def asked_texts(ask: Ask) -> list[str]:
    """All that a tenant wrote. Raises a refusal for what a judge cannot read."""
    fields = ask.fields
    texts: list[str] = []
    for message in fields.get("messages", ()):
        texts += _strings(message) + _names(message)
    # Descriptions, names and schemas reach the model too: as one text, whatever their shape.
    texts += [
        msgspec.json.encode(fields[name]).decode() for name in _WRITTEN_AROUND if fields.get(name)
    ]
    for name in ("prompt", "suffix", "input", "query", "documents", "text_1", "text_2"):
        texts += _written(fields.get(name), name)
    return texts


def answer_texts(body: bytes) -> list[str]:
    """Of a whole answer, each choice's."""
    members = msgspec.json.decode(body)
    choices = members.get("choices") if isinstance(members, dict) else None
    return ["".join(_strings(choice)) for choice in choices or ()]


def chunk_text(choice: chunks.Choice) -> str:
    return (choice.text or "") + "".join(_strings(choice.delta or {}))


def emptied(body: bytes) -> bytes:
    """A whole answer of which nothing may be shown, though it was generated and is billed."""
    members = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    choices = msgspec.json.decode(members["choices"])
    for choice in choices:
        choice["finish_reason"] = FINISH
        choice["logprobs"] = None
        if isinstance(choice.get("message"), dict):
            choice["message"] = {"role": "assistant", "content": ""}
        else:
            choice["text"] = ""
    return msgspec.json.encode(members | {"choices": choices})


def _strings(value: Any) -> list[str]:
    """What is said in a message, a delta or a choice: its texts, thoughts and arguments."""
    found: list[str] = []
    left = [value]
    while left:
        one = left.pop(0)
        if isinstance(one, list):
            left = [*one, *left]
        elif isinstance(one, dict):
            found += [one[name] for name in _SAID if isinstance(one.get(name), str)]
            left = [child for child in one.values() if isinstance(child, list | dict)] + left
    return found


def _names(message: dict[str, Any]) -> list[str]:
    """Of who speaks, and of the tools that a message calls."""
    calls = message.get("tool_calls") or ()
    functions = [call.get("function") for call in calls if isinstance(call, dict)]
    named = [message, *[one for one in functions if isinstance(one, dict)]]
    return [one["name"] for one in named if isinstance(one.get("name"), str)]


def _written(value: Any, name: str) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return _strings(value)
    if not isinstance(value, list):
        return []
    if any(isinstance(one, int | list) for one in value):
        raise errors.InvalidValue(
            f"'{name}' is judged here before it is answered: send it as text, not as token ids.",
            param=name,
        )
    return [text for one in value for text in _written(one, name)]
