"""The head of an answer: the model by the name that was asked for, and the tier it ran with (pure).

No JSON string holds a quote that is not escaped, so the member is found by its bytes, and what is
around it is not read.
"""

import functools
import re

import msgspec

from control.gateway.streams.sse import Event, event_of

_REMEMBERED = 1024
_MODEL = re.compile(rb'("model"\s*+:\s*+)"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_OWN_TIER = re.compile(
    rb',\s*"service_tier"\s*:\s*(?:null|"[^"\\]*")|"service_tier"\s*:\s*(?:null|"[^"\\]*")\s*,'
)


class Name:
    """What takes the place of the model that an engine names."""

    def __init__(self, asked: str, served: str, tier: str = "") -> None:
        self._value = msgspec.json.encode(asked)
        if tier:
            self._value += b',"service_tier":' + msgspec.json.encode(tier)
        self._tells_tier = bool(tier)
        # As engines write it, most likely.
        self._seen = b'"model":' + msgspec.json.encode(served)
        self._told = b'"model":' + self._value

    def renamed(self, data: bytes) -> bytes:
        """A whole answer, or a chunk: the same but for that member."""
        if self._tells_tier and b'"service_tier"' in data:
            data = _OWN_TIER.sub(b"", data, count=1)
        if self._seen not in data:
            found = _MODEL.search(data)
            if found is None:
                return data
            self._seen, self._told = found[0], found[1] + self._value
        return data.replace(self._seen, self._told, 1)

    def original(self, data: bytes) -> bytes:
        """As the engine wrote what was renamed."""
        return data.replace(self._told, self._seen, 1)

    def event(self, event: Event) -> Event:
        if event.data is None:
            return event
        data = self.renamed(event.data)
        if event.start < 0:
            return Event(event_of(data), data, -1)
        start, end = event.start, event.start + len(event.data)
        return Event(event.raw[:start] + data + event.raw[end:], data, start)


@functools.lru_cache(_REMEMBERED)
def name_of(asked: str, served: str, tier: str) -> Name | None:
    """None if an engine's answers say already what the tenant is to read."""
    return Name(asked, served, tier) if tier or asked != served else None
