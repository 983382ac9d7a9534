"""Chat answers and chunks as dialects read them: only what they put into their own words."""

from typing import Any

import msgspec

from control.gateway import errors


class Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class ToolCall(msgspec.Struct):
    index: int = 0
    id: str | None = None
    function: Function | None = None


class Message(msgspec.Struct):
    """A whole message, or the delta of one."""

    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None  # as other engines name it
    refusal: str | None = None
    tool_calls: list[ToolCall] | None = None

    @property
    def thought(self) -> str:
        return self.reasoning or self.reasoning_content or ""


class Choice(msgspec.Struct):
    message: Message | None = None
    delta: Message | None = None
    logprobs: dict[str, Any] | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None


class InputDetails(msgspec.Struct):
    cached_tokens: int | None = None


class OutputDetails(msgspec.Struct):
    reasoning_tokens: int | None = None


class Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: InputDetails | None = None
    completion_tokens_details: OutputDetails | None = None

    @property
    def input(self) -> int:
        return max(self.prompt_tokens or 0, 0)

    @property
    def output(self) -> int:
        return max(self.completion_tokens or 0, 0)

    @property
    def cached(self) -> int:
        details = self.prompt_tokens_details
        return min(max(details.cached_tokens or 0, 0), self.input) if details else 0

    @property
    def reasoning(self) -> int:
        details = self.completion_tokens_details
        return min(max(details.reasoning_tokens or 0, 0), self.output) if details else 0


class Answer(msgspec.Struct):
    """A whole answer, or a chunk of a streamed one."""

    id: str = ""
    created: int = 0
    choices: list[Choice] = []
    usage: Usage | None = None


_answer = msgspec.json.Decoder(Answer).decode


def whole(body: bytes) -> tuple[Answer, Choice]:
    try:
        answer = _answer(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        answer = Answer()
    if not answer.choices or answer.choices[0].message is None:
        raise errors.UpstreamFailed("The engine's answer is not understood.")
    return answer, answer.choices[0]


def chunk(data: bytes) -> Answer | None:
    """None for what is no chunk: a translator has nothing to say of it."""
    try:
        return _answer(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def object_of(arguments: str | None) -> dict[str, Any]:
    """A tool's arguments; empty if the answer was cut off within them."""
    try:
        given = msgspec.json.decode(arguments or "{}")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return given if isinstance(given, dict) else {}


def logprobs_of(choice: Choice) -> list[dict[str, Any]]:
    given = (choice.logprobs or {}).get("content")
    return given if isinstance(given, list) else []
