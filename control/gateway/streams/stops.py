"""Stop words that no engine looks for: found in the text, across chunk borders (pure)."""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

# How many stop words an engine takes: those of OpenAI's kind four, as its API says.
_ENGINE_STOPS_MAX = {"vllm": 64, "stub": 64}
_OTHERS_STOPS_MAX = 4


class Split(NamedTuple):
    """`to_engine` go out with the call, `ours` are looked for in what comes back."""

    to_engine: tuple[str, ...]
    ours: tuple[str, ...]


def split(asked: Any, defaults: tuple[str, ...], engine: str) -> Split:
    """The tenant's own words first, as it gave them; the route's are added to them."""
    own = (asked,) if isinstance(asked, str) else tuple(asked or ())
    words = own + tuple([word for word in defaults if word and word not in own])
    most = _ENGINE_STOPS_MAX.get(engine, _OTHERS_STOPS_MAX)
    return Split(words[:most], tuple([word for word in words[most:] if word]))


class Words:
    """Some stop words, ready to be looked for. The same for all choices of all streams."""

    def __init__(self, words: Iterable[str], *, included: bool = False) -> None:
        self.included = included  # the tenant wants to see the word that ended the answer
        self._words = tuple(dict.fromkeys(words))
        self._pattern = re.compile("|".join(map(re.escape, self._words)))
        self._beginnings = {word[:size] for word in self._words for size in range(1, len(word))}
        self._hold_max = max(map(len, self._words), default=1) - 1

    def find(self, text: str) -> tuple[int, str] | None:
        """Where the answer ends, and the word that ends it.

        It is the word that was whole first, as if the text came character by character.
        """
        if self._pattern.search(text) is None:
            return None
        ends = [(text.find(word) + len(word), -len(word), word) for word in self._words]
        end, _, word = min(found for found in ends if found[0] >= len(found[2]))
        return (end if self.included else end - len(word)), word

    def held(self, text: str) -> int:
        """How many of the last characters may be the beginning of a stop word."""
        for size in range(min(self._hold_max, len(text)), 0, -1):
            if text[-size:] in self._beginnings:
                return size
        return 0


class Watch:
    """One stream's choices, each with the text that is held back of it."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self._pending: dict[int, str] = {}

    @property
    def holds(self) -> bool:
        return any(self._pending.values())

    def left(self) -> list[tuple[int, str]]:
        """What is still held back of each choice, once nothing more comes."""
        left = [(index, text) for index, text in self._pending.items() if text]
        self._pending.clear()
        return left

    def pass_on(self, choice: dict[str, Any]) -> None:
        """Rewrites a streamed choice to what may be shown of it now, and ends it at a match."""
        index = choice.get("index", 0)
        text = self._pending.get(index, "") + _text_of(choice)
        if found := self._words.find(text):
            at, word = found
            self._pending[index] = ""
            _set_text(choice, text[:at])
            _end(choice, word)
            return
        size = 0 if choice.get("finish_reason") is not None else self._words.held(text)
        self._pending[index] = text[len(text) - size :]
        _set_text(choice, text[: len(text) - size])


def cut(body: bytes, words: Words) -> bytes:
    """A whole answer, less what comes after a stop word in any of its choices."""
    members = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    choices = msgspec.json.decode(members["choices"])
    changed = False
    for choice in choices:
        text = _text_of(choice)
        if text and (found := words.find(text)):
            changed = True
            _set_text(choice, text[: found[0]])
            _end(choice, found[1])
    if not changed:
        return body
    return msgspec.json.encode(members | {"choices": choices})


def _end(choice: dict[str, Any], word: str) -> None:
    choice["finish_reason"] = "stop"
    choice["stop_reason"] = word


def _said(choice: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Where a choice has its text: a completion's own, a chat's in its delta or message."""
    for name in ("delta", "message"):
        if isinstance(inner := choice.get(name), dict):
            return inner, "content"
    return choice, "text"


def _text_of(choice: dict[str, Any]) -> str:
    place, name = _said(choice)
    text = place.get(name)
    return text if isinstance(text, str) else ""


def _set_text(choice: dict[str, Any], text: str) -> None:
    """A delta that said nothing is not made to say an empty text."""
    place, name = _said(choice)
    if text or name in place:
        place[name] = text
