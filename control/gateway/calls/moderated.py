"""A call whose route has a judge: of what is asked, of what is answered, or of both."""

import logging
from collections.abc import Callable
from typing import NamedTuple

from control.gateway import errors
from control.gateway.calls import moderation
from control.gateway.calls.call import Call
from control.gateway.errors import Refusal
from control.gateway.http1.framing import unframed
from control.gateway.judges import Question, Verdict
from control.gateway.routing.rules import Chosen
from control.gateway.streams import chunks
from control.gateway.streams.relay import Piece
from control.gateway.streams.sse import Splitter
from control.states import Outcome

log = logging.getLogger(__name__)

UNJUDGED = "unjudged"  # the flag of a call whose judge did not answer


class Held(NamedTuple):
    """One piece of a stream that no judge has seen yet, and what it says."""

    piece: Piece
    text: str
    ends: frozenset[int]  # choices
    tokens: int = 1  # that it says, if it says anything


class ModeratedCall(Call):
    """A stream is held back by windows, each judged with the text of the one before it."""

    def __init__(self, *given) -> None:
        super().__init__(*given)
        self._rules = self._route.moderation
        self._journal.in_windows = self._rules.after
        self._question: Question | None = None
        self._windows: list[Held] = []
        self._asked_about = 0  # of those
        self._tokens_seen = 0  # that the engine's stream said so far
        self._before = ""  # the text of the last window that passed
        self._shown_ends: frozenset[int] = frozenset()
        self._end: tuple[Outcome, Refusal] | None = None  # of the engine's stream
        self._splitter = Splitter(self._shared.limits.event_bytes)

    # --- before it costs anything ---

    def _on_taken(self) -> None:
        if not self._rules.before:
            return super()._on_taken()
        try:
            texts = moderation.asked_texts(self._ask)
        except Refusal as refusal:
            return self.refuse(refusal)
        parts = moderation.asked_parts(self._ask)
        return self._judge("input", texts, self._on_asked_judged, parts)

    def _on_asked_judged(self, verdict: Verdict) -> None:
        if verdict is Verdict.FLAGGED:
            refusal = errors.ContentFiltered("The request was refused by this model's moderation.")
            return self.refuse(refusal)
        if self._stays_unjudged(verdict):
            return self.refuse(_unavailable())
        return super()._on_taken()

    # --- what is answered ---

    def dispatch(self, choice: Chosen) -> None:
        self._drop()  # nothing was shown of what came before
        super().dispatch(choice)

    def begin_anew(self, why: str, outcome: Outcome) -> None:
        self._drop()  # a verdict on what was held would show it
        super().begin_anew(why, outcome)

    def on_token(self, data: bytes, now: float) -> None:
        self.on_pieces([Piece(data, content=True)])

    def on_chunks(self, raw: bytes, now: float) -> None:
        self.on_token(unframed(raw), now)

    def on_pieces(self, pieces: list[Piece]) -> None:
        if not self._rules.after:
            return super().on_pieces(pieces)
        self._windows += self._counted([self._held_of(piece) for piece in pieces])
        held_bytes = sum(len(held.piece.data) for held in self._windows)
        if held_bytes >= self._shared.limits.buffer_bytes and not self._paused:
            self._paused = True
            self._attempt.pause(True)
        return self._advance()

    def on_answer(self, body: bytes) -> None:
        if not self._rules.after:
            return super().on_answer(body)
        texts = moderation.answer_texts(body)
        if not any(texts):
            return super().on_answer(body)  # vectors and scores, which say nothing
        return self._judge("output", texts, lambda verdict: self._on_answer_judged(body, verdict))

    def _on_answer_judged(self, body: bytes, verdict: Verdict) -> None:
        if verdict is Verdict.FLAGGED:
            self._attempt.finish_reason = moderation.FINISH
            body = moderation.emptied(body)
        elif self._stays_unjudged(verdict):
            return self.refuse(_unavailable())
        return super().on_answer(body)

    def on_stream_end(self, outcome: Outcome, refusal: Refusal) -> None:
        if self._rules.after and outcome in (Outcome.COMPLETE, Outcome.INCOMPLETE):
            self._end = outcome, refusal
            return self._advance()
        return super().on_stream_end(outcome, refusal)

    def end(self, outcome: Outcome, status: int) -> None:
        self._drop()
        super().end(outcome, status)

    # --- inside ---

    def _held_of(self, piece: Piece) -> Held:
        text, ends = "", set()
        for event in self._splitter.feed(piece.data):
            chunk = chunks.look(event.data) if event.data else None
            for choice in (chunk.choices or ()) if chunk else ():
                text += moderation.chunk_text(choice)
                ends |= {choice.index} if choice.finish_reason is not None else set()
        return Held(piece, text, frozenset(ends))

    def _counted(self, came: list[Held]) -> list[Held]:
        """A chunk may hold several tokens: those beyond one each are the last one's."""
        usage = self._attempt.reader.usage()
        told = usage.output if usage else 0
        more = told - self._tokens_seen - sum(bool(held.text) for held in came)
        self._tokens_seen = max(told, self._tokens_seen)
        if came and came[-1].text and more > 0:
            came[-1] = came[-1]._replace(tokens=1 + more)
        return came

    def _advance(self) -> None:
        """Ask about what is held, once it is a window or all that comes."""
        if self._question is not None or self.ended or self._outcome:
            return None
        if not self._windows and self._end:
            return super().on_stream_end(*self._end)
        size = self._window()
        if not size:
            return None
        self._asked_about = size
        text = "".join(held.text for held in self._windows[:size])
        if not text:
            return self._release()
        return self._judge("output", [self._before + text], self._on_window_judged)

    def _window(self) -> int:
        """How many pieces may be judged now; 0 is none yet."""
        said = 0
        for number, held in enumerate(self._windows, 1):
            said += held.tokens if held.text else 0
            if said >= moderation.WINDOW_TOKENS:
                return number
        return len(self._windows) if self._end else 0

    def _on_window_judged(self, verdict: Verdict) -> None:
        if self.ended or self._outcome:
            return None
        if verdict is Verdict.FLAGGED:
            return self._filter()
        if self._stays_unjudged(verdict):
            self._attempt.abort()
            self._may_retry = False
            return self.on_refusal(_unavailable(), Outcome.UPSTREAM_ERROR)
        return self._release()

    def _release(self) -> None:
        shown, self._windows = (
            self._windows[: self._asked_about],
            self._windows[self._asked_about :],
        )
        self._before = "".join(held.text for held in shown)
        self._shown_ends = self._shown_ends.union(*(held.ends for held in shown))
        if self._paused and not self._delivery.is_full:
            self._paused = False
            self._attempt.pause(False)
        super().on_pieces([held.piece for held in shown])
        self._advance()

    def _filter(self) -> None:
        """What was shown stays; the rest is not, and the engine is left."""
        self._attempt.abort()
        self._attempt.finish_reason = moderation.FINISH
        self._windows = []
        ending = self._attempt.answer.end_early(moderation.FINISH, self._shown_ends)
        super().on_pieces(ending)
        self._finish(Outcome.COMPLETE)

    def _judge(
        self,
        stage: str,
        texts: list[str],
        then: Callable[[Verdict], None],
        parts: moderation.Parts | None = None,
    ) -> None:
        def on_verdict(verdict: Verdict) -> None:
            self._question = None
            self._shared.tally.add("moderations_total", stage=stage, verdict=verdict)
            if not self.ended:
                self._guarded(then, verdict)

        body = moderation.question(self._route.name, self.id, stage, texts, parts or [])
        self._question = self._shared.judges.ask(self._rules, body, on_verdict)
        if self._question is None:
            on_verdict(Verdict.UNKNOWN)

    def _guarded(self, then: Callable[[Verdict], None], verdict: Verdict) -> None:
        """Nobody else would end a call that fails on its verdict."""
        try:
            return then(verdict)
        except Exception:
            log.exception("call %s failed on its verdict", self.id)
        if self._attempt:
            self._attempt.abort()
        return self.refuse(errors.InternalError("The gateway failed on this request."))

    def _stays_unjudged(self, verdict: Verdict) -> bool:
        """Whether that is the call's end; if not, it goes on with a mark."""
        if verdict is not Verdict.UNKNOWN:
            return False
        if self._rules.fail_open:
            self._journal.flag(UNJUDGED)
        return not self._rules.fail_open

    def _drop(self) -> None:
        question, self._question = self._question, None
        if question:
            question.drop()
        self._windows, self._end, self._before = [], None, ""
        self._tokens_seen = 0


def _unavailable() -> Refusal:
    return errors.ModerationUnavailable("The moderation of this model does not answer.")
