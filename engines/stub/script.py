"""What the stub is told to do with the next calls: delays, faults, any bytes."""

import asyncio
from collections import deque
from dataclasses import dataclass, field, fields, replace
from typing import Any

TIMES_MAX = 1_000_000


class BadScript(ValueError):
    """The message says which member is wrong, and what it may be."""


@dataclass(frozen=True)
class Raw:
    """A body played byte for byte, as the fixtures of the field cases are."""

    data: bytes
    split: int | str = "frame"  # bytes a write, or one event a write
    end: str = "fin"  # "fin" | "rst" | "hold" (the socket stays open)
    framing: str = "close"  # "close": the body ends with the connection | "chunked"
    pause_seconds: float = 0.001
    content_type: str = "text/event-stream; charset=utf-8"


@dataclass(frozen=True)
class Script:
    """One way to answer; what is None is as the stub was started with."""

    ttft_seconds: float | None = None
    token_seconds: float | None = None
    tokens: int | None = None
    text: str | None = None  # answer these words, instead of counting up
    prompt_tokens: int | None = None
    cached_tokens: int = 0
    reasoning_tokens: int = 0  # so many of the first tokens are thought, not said
    usage: str = "running"  # "running" | "final" (knows no running usage) | "none"
    status: int | None = None  # answer this status with an error body
    error: str = "The stub was told to fail."
    retry_after: str = ""
    fail_after_tokens: int | None = None
    fail_with: str = "error"  # "error" (vLLM's event, then [DONE]) | "fin" | "rst" | "exit"
    hang: bool = False  # never answer, or never go on after fail_after_tokens
    raw: Raw | None = None
    hold_after_tokens: int | None = None  # and go on when an order says so
    gate: asyncio.Event | None = field(default=None, compare=False)  # opened by that order


@dataclass
class Scripts:
    """Scripts wait in a row; each serves so many calls, then the next one does."""

    _waiting: deque[list] = field(default_factory=deque)
    _gate: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, script: Script, times: int) -> None:
        if script.hold_after_tokens is not None:
            script = replace(script, gate=self._gate)
        self._waiting.append([script, times])

    def go_on(self) -> None:
        """All that are held; those of later orders are held anew."""
        self._gate.set()
        self._gate = asyncio.Event()

    def clear(self) -> None:
        self._waiting.clear()

    def take(self) -> Script:
        if not self._waiting:
            return Script()
        entry = self._waiting[0]
        entry[1] -= 1
        if entry[1] <= 0:
            self._waiting.popleft()
        return entry[0]


_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("ttft_seconds", "token_seconds", "pause_seconds"), (int, float)),
    **dict.fromkeys(
        ("tokens", "prompt_tokens", "cached_tokens", "reasoning_tokens", "status"), (int,)
    ),
    **dict.fromkeys(("fail_after_tokens", "hold_after_tokens"), (int,)),
    **dict.fromkeys(("text", "error", "retry_after", "usage", "fail_with", "hex"), (str,)),
    **dict.fromkeys(("end", "framing", "content_type"), (str,)),
    "hang": (bool,),
    "split": (int, str),
    "raw": (dict,),
}
_CHOICES = {
    "usage": ("running", "final", "none"),
    "fail_with": ("error", "fin", "rst", "exit"),
    "end": ("fin", "rst", "hold"),
    "framing": ("close", "chunked"),
}


def read_script(given: Any) -> Script:
    """A Script from JSON, or BadScript."""
    members = _checked(given, {one.name for one in fields(Script)} - {"gate"})
    if "raw" in members:
        members["raw"] = _read_raw(members["raw"])
    return Script(**members)


def read_times(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= TIMES_MAX:
        raise BadScript(f"times must be a whole number from 1 to {TIMES_MAX}, not {value!r}")
    return value


def _read_raw(given: Any) -> Raw:
    members = _checked(given, {one.name for one in fields(Raw)} - {"data"} | {"hex"})
    try:
        data = bytes.fromhex(members.pop("hex"))
    except (KeyError, ValueError) as error:
        raise BadScript("raw needs hex: the body's bytes in hexadecimal") from error
    if members.get("split", "frame") != "frame" and not _is_count(members["split"]):
        raise BadScript("raw.split must be 'frame' or bytes a write, from 1")
    return Raw(data, **members)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _checked(given: Any, known: set[str]) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise BadScript(f"a script must be an object, not {type(given).__name__}")
    for name, value in given.items():
        if name not in known:
            raise BadScript(f"unknown member {name!r}; known are {', '.join(sorted(known))}")
        wrong_bool = isinstance(value, bool) and bool not in _TYPES[name]
        if wrong_bool or not isinstance(value, _TYPES[name]):
            raise BadScript(f"{name} must be {_TYPES[name][0].__name__}, not {value!r}")
        if name in _CHOICES and value not in _CHOICES[name]:
            raise BadScript(f"{name} must be one of {', '.join(_CHOICES[name])}, not {value!r}")
    return dict(given)
