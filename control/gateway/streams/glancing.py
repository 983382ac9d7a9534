"""Tokens in the middle of a stream, taken from its bytes without decoding their events."""

from control.gateway.streams import chunks
from control.gateway.streams.ids import TokenIds
from control.gateway.streams.metered import Metered
from control.gateway.streams.names import Name
from control.gateway.streams.tokens import (
    Found,
    beginning_of,
    token_in,
    without_ids,
    without_usage,
)


class Glancing:
    """What a reader knows of a stream, kept up also where nothing is decoded."""

    # Of a stream that has not begun; here, since each call makes a reader.
    name: Name | None = None  # of the model, where the engine calls it otherwise
    parts = 0  # choices with content that came, whatever they hold
    tokens = 0  # generated up to the last one that was glanced at
    _last_chunk = b""
    _beginning = b""  # of events that may be one token, in the middle of a stream
    _shown: bytes | None = None  # what the tenant reads for that beginning
    _glanced: Found | None = None  # the last such event, if nothing came after it
    _told: Found | None = None  # the last of them that told usage

    def __init__(
        self, choices: int, running_usage: bool, token_ids: TokenIds | None, is_one_kind: bool
    ) -> None:
        self.token_ids = token_ids
        self._running_usage = running_usage
        self._strip_ids = token_ids is not None and not token_ids.shown
        self._at_a_glance = is_one_kind and not (running_usage and self._strip_ids)
        self._used = Metered(choices)

    def glance(self, data: bytes) -> bytes | None:
        """What `feed` would pass on, if `data` is just one token; None if it is anything else."""
        found = token_in(data, self._beginning)
        return None if found is None else self._note(data, found)

    def skim(self, raw: bytes) -> bytes | None:
        """What `feed` would pass on of chunks of HTTP that are whole, and just one token each.

        It is `raw` itself if all of it is to pass; None if it is anything else.
        """
        parts = raw.split(b"\r\n")  # size, event, size, event, …, and nothing; none is in an event
        if len(parts) == 3:
            event, found = parts[1], token_in(parts[1], self._beginning)
            if found is None or parts[2] or parts[0] != b"%x" % len(event):
                return None
            shown = self._note(event, found)
            return raw if shown is event else shown
        return self._skim_some(parts, raw)

    def _skim_some(self, parts: list[bytes], raw: bytes) -> bytes | None:
        if parts[-1] or len(parts) < 3 or not len(parts) & 1 or not parts[-2]:
            return None  # nothing is in the last chunk of a body
        sizes, events = parts[:-1:2], parts[1::2]
        found = [token_in(event, self._beginning) for event in events]
        if None in found or sizes != [b"%x" % len(event) for event in events]:
            return None
        shown = list(map(self._note, events, found))
        return raw if shown == events else b"".join(shown)

    def _note(self, event: bytes, found: Found) -> bytes:
        """What the tenant reads of it."""
        thought, member, ids, usage, _, tokens_out = found.groups()
        self._glanced = found
        self.parts += 1
        if usage is not None:
            self._told = found
            self.tokens = int(tokens_out)
        elif self._told is None and self._used.latest is None:
            self.tokens = self.parts
        passed = event
        if self.token_ids is not None:
            self.token_ids.add(ids, thought=thought == b"reasoning")
        if self._strip_ids and member is not None:
            passed = without_ids(event, found)
        elif usage is not None and not self._running_usage:
            passed = without_usage(event, found)
        return passed if self._shown is None else self._shown + passed[len(self._beginning) :]

    def _begin_to_glance(self, is_in_the_middle: bool) -> None:
        """Or end to: it was decoded up to here."""
        name, last = self.name, self._last_chunk
        if is_in_the_middle and self._at_a_glance:
            self._begin(beginning_of(last if name is None else name.original(last)))
        else:
            self._begin(b"")

    def _begin(self, beginning: bytes) -> None:
        name, self._beginning = self.name, beginning
        self._shown = name.renamed(beginning) if name is not None and beginning else None

    def _as_shown(self, event: bytes) -> bytes:
        """With the model's name that the tenant knows; it begins as all of the stream do."""
        return event if self._shown is None else self._shown + event[len(self._beginning) :]

    def _catch_up(self) -> None:
        """Note of the last tokens what decoding would have noted of each."""
        found, self._glanced = self._glanced, None
        told, self._told = self._told, None
        if found is None:
            return
        self._last_chunk = self._as_shown(found.string)[6:-2]
        if told is not None:
            usage, tokens_in, tokens_out = told.group(4, 5, 6)
            self._used.latest = chunks.Usage(int(tokens_in), 0, int(tokens_out), 0)
            self._used.raw = usage
