"""How a stream begins and ends, taken from its bytes where these are as in nearly all streams."""

import msgspec

from control.gateway.streams import chunks, made
from control.gateway.streams.glancing import Glancing
from control.gateway.streams.ids import TokenIds
from control.gateway.streams.sse import event_of
from control.gateway.streams.tokens import (
    last_in,
    role_in,
    token_in,
    usage_in,
    without_ids,
    without_usage,
)

DONE = b"data: [DONE]\n\n"


class Piece(msgspec.Struct, frozen=True, gc=False):
    data: bytes
    content: bool  # the tenant has seen part of an answer once this is sent


class Edges(Glancing):
    """Whole events are taken one by one, as long as each is what may come next in such a stream:
    a role, tokens, the last of them, usage, and the end. What is noted of one is what decoding it
    would have noted.
    """

    done = False
    _include_usage = False
    _usage_event: bytes | None = None

    def __init__(
        self, choices: int, running_usage: bool, token_ids: TokenIds | None, is_one_kind: bool
    ) -> None:
        super().__init__(choices, running_usage, token_ids, is_one_kind)
        self.finished: dict[int, str] = {}  # finish reason by choice, the first one of each
        self._seen: set[int] = set()

    def _take(self, data: bytes, pieces: list[Piece]) -> int:
        """How many bytes were taken. What is left is to be decoded."""
        at = 0
        while not self.done and (end := data.find(b"\n\n", at)) >= 0:
            event = data[at : end + 2]
            if self._beginning:
                taken = self._take_token(event, pieces)
            elif self.finished:
                taken = self._take_end(event, pieces)
            else:
                taken = not self._last_chunk and self._take_role(event, pieces)
            if not taken:
                break
            at = end + 2
        return at

    def _take_role(self, event: bytes, pieces: list[Piece]) -> bool:
        found = role_in(event)
        if found is None:
            return False
        beginning, _, usage, tokens_in, tokens_out, member, prompt = found.groups()
        cut_from = cut_to = found.end(2)  # all that Weir asked for by itself follows the choices
        if usage is not None:
            self._tell(usage, chunks.Usage(int(tokens_in), 0, int(tokens_out), 0))
            cut_to = cut_to if self._running_usage else found.end(3)
        if self.token_ids is not None:
            self.token_ids.begin(prompt)
            cut_to = found.end(6) if self._strip_ids and member is not None else cut_to
        self._seen.add(0)
        self._begin(b"data: " + beginning)
        self._last_chunk = self._as_shown(event)[6:-2]
        shown = self._as_shown(event[:cut_from] + event[cut_to:])
        pieces.append(Piece(shown, content=False))
        return True

    def _take_token(self, event: bytes, pieces: list[Piece]) -> bool:
        if found := token_in(event, self._beginning):
            pieces.append(Piece(self._note(event, found), content=True))
            return True
        found = last_in(event, self._beginning)
        if found is None:
            return False
        reason, member, ids, usage, _, tokens_out = found.groups()
        if ids is not None and self.token_ids is not None:
            self.token_ids.add(ids, thought=False)
        passed = event
        if self._strip_ids and member is not None:
            passed = without_ids(event, found)
        elif usage is not None and not self._running_usage:
            passed = without_usage(event, found)
        pieces.append(Piece(self._as_shown(passed), content=True))
        self.finished[0] = reason.decode()
        self._glanced = found
        if usage is not None:
            self._told, self.tokens = found, int(tokens_out)
        self._catch_up()
        self._begin(b"")  # no more tokens
        return True

    def _take_end(self, event: bytes, pieces: list[Piece]) -> bool:
        if event == DONE:
            self.done = True
            pieces.extend(self._ending(event))
            return True
        found = usage_in(event)
        usage = None if found is None else chunks.usage_in(found[1])
        if usage is None:
            return False
        self._tell(found[1], usage)
        if self._include_usage:
            self._usage_event = event if self.name is None else self.name.renamed(event)
        return True

    def _tell(self, text: bytes, usage: chunks.Usage) -> None:
        self._used.latest, self._used.raw = usage, text
        self.tokens = usage.output

    def _ending(self, done: bytes) -> list[Piece]:
        usage = self._usage_event
        if usage is None and self._include_usage and self._used.raw and self._last_chunk:
            usage = event_of(made.usage_chunk(self._last_chunk, self._used.text()))
        ending = [Piece(done, content=True)]
        return [Piece(usage, content=True), *ending] if usage else ending
