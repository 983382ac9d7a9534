"""What the playground asks, and what comes back: parsing and counting, no I/O."""

import json
from dataclasses import dataclass, field
from decimal import Decimal

from control.metering.facts import PriceRow

MILLION = 10**6
MESSAGES_MAX = 200
LINE_BYTES_MAX = 1024 * 1024
WORDS = {
    401: "The gateway does not know the playground's key yet: try again in a second.",
    404: "No such route for this key.",
}


@dataclass(frozen=True)
class Ask:
    route: str
    messages: tuple[dict, ...]
    temperature: float
    max_tokens: int | None

    def body(self) -> dict:
        body = {
            "model": self.route,
            "messages": list(self.messages),
            "temperature": self.temperature,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        return body | ({"max_tokens": self.max_tokens} if self.max_tokens else {})


@dataclass(frozen=True)
class Stop:
    pass


@dataclass(frozen=True)
class Unclear:
    what: str


def read(text: str) -> Ask | Stop | Unclear:
    try:
        message = json.loads(text)
    except ValueError:
        return Unclear("That was no JSON.")
    match message:
        case {"type": "stop"}:
            return Stop()
        case {"type": "ask", "route": str(route), "messages": [_, *_] as messages} if route:
            return _ask(route, messages, message)
    return Unclear("Choose a route and write a message.")


def _ask(route: str, messages: list, message: dict) -> Ask | Unclear:
    if len(messages) > MESSAGES_MAX:
        return Unclear(f"A conversation has at most {MESSAGES_MAX} messages: start a new one.")
    kept = []
    for one in messages:
        match one:
            case {"role": "system" | "user" | "assistant" as role, "content": str(content)}:
                kept.append({"role": role, "content": content})
            case _:
                return Unclear("A message has a role and a text.")
    temperature, most = message.get("temperature"), message.get("max_tokens")
    if not isinstance(temperature, int | float) or not 0 <= temperature <= 2:
        return Unclear("Temperature is a number from 0 to 2.")
    if most is not None and (not isinstance(most, int) or most < 1):
        return Unclear("Max tokens is a whole number from 1, or empty.")
    return Ask(route, tuple(kept), float(temperature), most)


class Lines:
    """Cuts a byte stream into the data of its events; a read is not an event."""

    def __init__(self):
        self._rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        self._rest = self._rest[-LINE_BYTES_MAX:]
        lines = (line.removesuffix(b"\r") for line in whole)
        return [line[5:].strip() for line in lines if line.startswith(b"data:")]


@dataclass
class Answer:
    """A streamed answer so far. Times are seconds of one monotonic clock."""

    started: float
    request_id: str = ""
    first_text: float | None = None
    last_text: float | None = None
    events: int = 0
    usage: dict = field(default_factory=dict)
    model: str = ""
    finish_reason: str = ""
    error: str = ""

    def take(self, data: bytes, *, at: float) -> str:
        """The text of one event; counts, usage and errors are kept."""
        if data.startswith(b"[DONE]"):
            return ""
        try:
            event = json.loads(data)
        except ValueError:
            event = None
        if not isinstance(event, dict):
            self.error = "The engine sent something that is no event."
            return ""
        if error := event.get("error"):
            self.error = error.get("message") or "The engine failed."
            return ""
        self.usage = event.get("usage") or self.usage
        self.model = event.get("model") or self.model
        return "".join(self._choice(choice, at) for choice in event.get("choices") or ())

    def _choice(self, choice: dict, at: float) -> str:
        self.finish_reason = choice.get("finish_reason") or self.finish_reason
        delta = choice.get("delta") or {}
        text = delta.get("content") or delta.get("reasoning_content") or ""
        if text:
            self.first_text = at if self.first_text is None else self.first_text
            self.last_text = at
            self.events += 1
        return text

    def figures(self, *, at: float) -> dict:
        """What is shown under the answer. Tokens are the engine's, else the events seen."""
        tokens = self.usage.get("completion_tokens", self.events)
        cached = (self.usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        seconds = (self.last_text - self.first_text) if self.first_text is not None else 0
        return {
            "request_id": self.request_id,
            "model": self.model,
            "finish_reason": self.finish_reason or "broken off",
            "ttft_seconds": None if self.first_text is None else self.first_text - self.started,
            "total_seconds": at - self.started,
            "tokens_per_second": (tokens - 1) / seconds if tokens > 1 and seconds > 0 else None,
            "input_tokens": self.usage.get("prompt_tokens"),
            "cached_input_tokens": cached,
            "output_tokens": tokens,
            "counted": "usage" if self.usage else "events",
        }


def cost(figures: dict, price: PriceRow | None) -> str:
    """What the call is charged, as its usage event will say; about, if tokens were not told."""
    if price is None:
        return "no price"
    cached = figures["cached_input_tokens"]
    fresh = (figures["input_tokens"] or 0) - cached
    charged = (
        fresh * Decimal(price.input)
        + cached * Decimal(price.cached_input)
        + figures["output_tokens"] * Decimal(price.output)
    ) / MILLION
    about = "" if figures["counted"] == "usage" else "about "
    return f"{about}{charged.normalize():f} {price.currency}"


def refusal(status: int, body: bytes, retry_after: str) -> str:
    """An error of the gateway, in words and with what to do."""
    try:
        message = json.loads(body)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        message = ""
    words = message or WORDS.get(status) or f"The gateway answered {status}."
    return f"{words} Try again in {retry_after} s." if retry_after else words
