"""One engine's stream on its way to a tenant: what passes, what is taken out, what it used."""

import msgspec

from control.gateway import errors
from control.gateway.streams import chunks, ids, made
from control.gateway.streams.edges import DONE, Edges, Piece
from control.gateway.streams.engine_errors import refusal_in
from control.gateway.streams.ids import TokenIds
from control.gateway.streams.sse import Event, Splitter, TooLong, event_of
from control.gateway.streams.stops import Watch, Words
from control.states import Outcome


class Reader(Edges):
    """Fed with the bytes of an event stream, gives the bytes to pass on.

    Bytes pass as they came, less the members that Weir itself asked for; chunks that are empty
    without those are dropped, so are a second finish of one choice and all after [DONE].
    """

    error: errors.Refusal | None = None
    cut = False  # ended here by a stop word, while the engine may go on
    _watch: Watch | None = None
    _stopped = False  # a choice was ended by a stop word

    def __init__(
        self,
        *,
        include_usage: bool,
        running_usage: bool,
        choices: int,
        event_bytes_max: int,
        token_ids: TokenIds | None = None,
        stops: Words | None = None,
    ) -> None:
        super().__init__(choices, running_usage, token_ids, choices == 1 and not stops)
        self._include_usage = include_usage
        self._choices = choices
        if stops:
            self._watch = Watch(stops)
        self._event_bytes_max = event_bytes_max
        self._splitter = Splitter(event_bytes_max)

    def feed(self, data: bytes) -> list[Piece]:
        pieces: list[Piece] = []
        if self._at_a_glance and self._splitter.holds_nothing and not self.error:
            if taken := self._take(data, pieces):
                self._splitter.skip()
            if self.done or taken == len(data):
                return pieces
            data = data[taken:]
        self._catch_up()
        try:
            events = self._splitter.feed(data)
        except TooLong:
            self.error = errors.UpstreamFailed("The engine sent an event that is too long.")
            return pieces
        pieces += self._pieces(events)
        self._begin_to_glance(self._is_in_the_middle())
        return pieces

    def finish(self) -> list[Piece]:
        """The engine's bytes have ended: what was left, then the end that the tenant gets."""
        self._catch_up()
        if self.done or self.error:
            return []
        pieces = self._pieces(self._splitter.finish())
        if not self.done and self.outcome() is Outcome.COMPLETE:
            pieces.extend(self._ending(DONE))
        return pieces

    def resume(self) -> bytes:
        """Another engine goes on with the answer: what this one broke off in is forgotten.

        Gives the last chunk, which the next ones are to be like.
        """
        self._catch_up()
        self.error = None
        self._beginning = b""
        self._splitter = Splitter(self._event_bytes_max)
        self._splitter.feed(b": \n\n")  # begun, and between two events
        return self._last_chunk

    def outcome(self) -> Outcome:
        if self.error:
            is_refusal = self.error.status < 500 and not self.parts
            return Outcome.REJECTED if is_refusal else Outcome.UPSTREAM_ERROR
        expected = len(self._seen) if self.done else self._choices
        whole = self._seen and self._seen <= self.finished.keys() and len(self.finished) >= expected
        if whole and "abort" not in self.finished.values():
            return Outcome.COMPLETE
        return Outcome.INCOMPLETE if self.done else Outcome.TRUNCATED

    def end_early(self, finish_reason: str, ended: frozenset[int]) -> list[Piece]:
        """The end of a stream that is not shown any further; `ended` are choices seen to end."""
        self.done = self.cut = True
        left = [(index, "") for index in range(self._choices) if index not in ended]
        ends = made.text_events(self._last_chunk, left, finish_reason)
        if self._include_usage and self._used.raw:
            ends.append(event_of(made.usage_chunk(self._last_chunk, self._used.text())))
        return [Piece(data, content=True) for data in (*ends, DONE)]

    @property
    def tells_cached(self) -> bool:
        return self._used.tells_cached

    @property
    def holds_back(self) -> bool:
        return self._watch is not None and self._watch.holds

    def usage(self) -> chunks.Usage | None:
        self._catch_up()
        return self._used.total()

    @property
    def tokens_out(self) -> int:
        """As the engine says, or else what came."""
        if self._told is not None:
            return self.tokens
        usage = self._used.total()
        return self.parts if usage is None else usage.output

    def finish_reason(self) -> str:
        return self.finished[min(self.finished)] if self.finished else ""

    def _is_in_the_middle(self) -> bool:
        """Of a stream of one choice, between two events."""
        begun = self._last_chunk and self._splitter.is_between
        return bool(begun) and not (self.finished or self.done or self.error)

    def _pieces(self, events: list[Event]) -> list[Piece]:
        pieces: list[Piece] = []
        for event in events:
            if self.done or self.error:
                break
            if event.data is None:
                pieces.append(Piece(event.raw, content=False))
            elif event.data.startswith(b"[DONE]"):
                self.done = True
                pieces.extend(self._ending(event.raw))
            elif piece := self._chunk(self.name.event(event) if self.name else event):
                pieces.append(piece)
                if self.cut:
                    self.done = True
                    pieces.extend(self._ending(DONE))
        return pieces

    def _chunk(self, event: Event) -> Piece | None:
        chunk = chunks.look(event.data)
        if chunk is None:
            # Not for us to judge, if it is whole; a torn one is what a broken stream leaves.
            return Piece(event.raw, content=True) if event.raw.endswith((b"\n", b"\r")) else None
        if chunk.error is not None:
            self.error = refusal_in(chunk)
            return None
        if chunk.usage:
            self._used.note(chunk)
        choices = chunk.choices
        if choices == []:
            return self._empty_chunk(event, chunk)
        self._last_chunk = event.data
        already = bool(self.finished and choices) and all(c.index in self.finished for c in choices)
        if self.token_ids is not None and not already:
            self.token_ids.read(chunk)
        if self._watch is not None and choices:
            return None if already else self._watched(chunk, event.data)
        content = self._note_choices(choices)
        return None if already else Piece(self._passed_on(event, chunk), content)

    def _watched(self, chunk: chunks.Chunk, data: bytes) -> Piece | None:
        """The chunk as far as no stop word may begin in it; the last one ends the stream."""
        members = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        choices = msgspec.json.decode(members["choices"])
        shown = [choice for choice in choices if choice.get("index", 0) not in self.finished]
        for choice in shown:
            self._watch.pass_on(choice)
            if self._strip_ids:
                ids.drop(choice)
        by_engine = {c.index: c.finish_reason for c in chunk.choices}
        rewritten = msgspec.convert(shown, list[chunks.Choice])
        self.parts += sum(c.has_content() and c.finish_reason is None for c in chunk.choices)
        content = self._note_choices(rewritten, counted=True)
        stopped = any(c.finish_reason and not by_engine[c.index] for c in rewritten)
        self._stopped |= stopped
        self.cut = self._stopped and len(self.finished) >= self._choices
        if not self._running_usage:
            members.pop("usage", None)
        if self._strip_ids:
            ids.drop(members)
        return Piece(event_of(msgspec.json.encode(members | {"choices": shown})), content)

    def _note_choices(self, choices: list[chunks.Choice] | None, *, counted: bool = False) -> bool:
        content = choices is None
        for choice in choices or ():
            self._seen.add(choice.index)
            if choice.has_content():
                content = True
                self.parts += not counted and choice.finish_reason is None
            if choice.finish_reason is not None:
                self.finished.setdefault(choice.index, choice.finish_reason)
        return content

    def _empty_chunk(self, event: Event, chunk: chunks.Chunk) -> Piece | None:
        """Kept for the end if the tenant asked for usage; clients that did not would trip."""
        if not self._include_usage or chunks.usage_of(chunk) is None:
            return None
        if self._running_usage and not self.finished:
            return Piece(event.raw, content=False)
        self._usage_event = event.raw
        return None

    def _passed_on(self, event: Event, chunk: chunks.Chunk) -> bytes:
        if self._strip_ids:
            return event_of(ids.without_ids(event.data, usage=not self._running_usage))
        if not chunk.usage or self._running_usage:
            return event.raw
        data = chunks.without_member(event.data, "usage", chunk.usage)
        if event.start < 0:
            return event_of(data)
        start, end = event.start, event.start + len(event.data)
        return event.raw[:start] + data + event.raw[end:]

    def _ending(self, done: bytes) -> list[Piece]:
        """With what was held back, if it is no stop word after all."""
        ending = super()._ending(done)
        if self._watch is None:
            return ending
        held_back = made.text_events(self._last_chunk, self._watch.left())
        return [Piece(data, content=True) for data in held_back] + ending
