"""An answer that another engine goes on with, read as if the first one still sent it."""

from typing import Any

import msgspec

from control.gateway import errors
from control.gateway.streams import chunks, made
from control.gateway.streams.relay import Piece, Reader
from control.gateway.streams.sse import Event, Splitter, TooLong, event_of
from control.states import Outcome

_HEAD = ("id", "object", "created", "model")


class Continued:
    """A reader of a completion from token ids; all that it reads goes on in the first reader.

    Usage counts the first prompt, and all tokens made once: what the second engine took as its
    prompt again is not the tenant's.
    """

    def __init__(self, reader: Reader, *, event_bytes_max: int) -> None:
        last = msgspec.json.decode(reader.resume())
        self._reader = reader
        self._head = {name: last[name] for name in _HEAD if name in last}
        self._chat = made.is_chat(last)
        self._made = reader.token_ids.count
        self._input = (reader.usage() or chunks.Usage(0, 0, 0, 0)).input
        self._splitter = Splitter(event_bytes_max)
        self._error: errors.Refusal | None = None

    # --- what the first reader says ---

    @property
    def reader(self) -> Reader:
        return self._reader

    @property
    def error(self) -> errors.Refusal | None:
        return self._error or self._reader.error

    @property
    def done(self) -> bool:
        return self._reader.done

    @property
    def cut(self) -> bool:
        return self._reader.cut

    @property
    def parts(self) -> int:
        return self._reader.parts

    def usage(self) -> chunks.Usage | None:
        return self._reader.usage()

    @property
    def tokens_out(self) -> int:
        return self._reader.tokens_out

    def outcome(self) -> Outcome:
        return Outcome.UPSTREAM_ERROR if self._error else self._reader.outcome()

    def finish_reason(self) -> str:
        return self._reader.finish_reason()

    # --- the second engine's bytes ---

    def glance(self, data: bytes) -> None:
        """Each event is written anew."""

    def skim(self, raw: bytes) -> None:
        """As `glance`."""

    def feed(self, data: bytes) -> list[Piece]:
        try:
            events = self._splitter.feed(data)
        except TooLong:
            self._error = errors.UpstreamFailed("The engine sent an event that is too long.")
            return []
        return self._reader.feed(self._rewritten(events)) if events else []

    def finish(self) -> list[Piece]:
        if events := self._splitter.finish():
            return self._reader.feed(self._rewritten(events)) + self._reader.finish()
        return self._reader.finish()

    def _rewritten(self, events: list[Event]) -> bytes:
        return b"".join([self._rewrite(event) for event in events])

    def _rewrite(self, event: Event) -> bytes:
        if event.data is None or event.data.startswith(b"[DONE]"):
            return event.raw
        try:
            chunk = msgspec.json.decode(event.data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return b""  # torn
        if not isinstance(chunk, dict) or "choices" not in chunk:
            return event.raw  # an error, most likely: the reader knows
        given = {"choices": [self._choice(choice) for choice in chunk["choices"]]}
        if usage := chunk.get("usage"):
            given["usage"] = self._usage(usage)
        return self._event(given)

    def _event(self, members: dict[str, Any]) -> bytes:
        return event_of(msgspec.json.encode(self._head | members))

    def _choice(self, choice: dict[str, Any]) -> dict[str, Any]:
        finish = choice.get("finish_reason")
        made_ = made.choice_of(self._chat, 0, choice.get("text") or "", finish)
        if finish is not None:
            made_["stop_reason"] = choice.get("stop_reason")
        if "token_ids" in choice:
            made_["token_ids"] = choice["token_ids"]
        return made_

    def _usage(self, usage: dict[str, Any]) -> dict[str, int]:
        tokens_out = self._made + (usage.get("completion_tokens") or 0)
        return {
            "prompt_tokens": self._input,
            "total_tokens": self._input + tokens_out,
            "completion_tokens": tokens_out,
        }
