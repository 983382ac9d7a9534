"""Operators' judges of texts, asked over HTTP: bounded in number and in time, never twice."""

import asyncio
import functools
import logging
from collections import deque
from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from control.gateway.http1.pool import Pool
from control.gateway.http1.sending import Sending
from control.gateway.limits import Limits
from control.routes.snapshot import ModerationInfo, Routes

log = logging.getLogger(__name__)


class Verdict(StrEnum):
    CLEAN = "clean"
    FLAGGED = "flagged"
    UNKNOWN = "unknown"  # no answer in time, or none that is understood


class Address(NamedTuple):
    host: str
    port: int
    tls: bool
    path: str


class Question:
    """One text before a judge. `on_verdict` comes once, unless it is dropped before."""

    def __init__(
        self, judge: "Judge", request: bytes, seconds: float, on_verdict: Callable[[Verdict], None]
    ) -> None:
        self.request = request
        self._judge = judge
        self._on_verdict: Callable[[Verdict], None] | None = on_verdict
        self._sending: Sending | None = None
        self._status = 0
        self._parts: list[bytes] = []
        self._bytes = 0
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(seconds, self._tell, Verdict.UNKNOWN)

    def send(self, pool: Pool) -> None:
        self._sending = pool.send(self, self.request)

    def drop(self) -> None:
        """Nobody wants to know any more."""
        self._on_verdict = None
        self._end()

    def on_head(self, status: int, headers: dict[bytes, bytes]) -> None:
        self._status = status

    def on_data(self, data: bytes) -> None:
        self._bytes += len(data)
        if self._bytes > self._judge.answer_bytes:
            return self._tell(Verdict.UNKNOWN)
        return self._parts.append(data)

    def on_chunks(self, raw: bytes) -> bool:
        return False

    def on_end(self) -> None:
        self._sending = None
        self._tell(verdict_of(self._status, b"".join(self._parts)))

    def on_failure(self, reason: str, *, sent: bool, reused: bool) -> None:
        self._sending = None
        if reused:
            return self.send(self._judge.pool)  # it was just being closed: nobody has read this
        return self._tell(Verdict.UNKNOWN)

    def _tell(self, verdict: Verdict) -> None:
        tell, self._on_verdict = self._on_verdict, None
        self._judge.heard(verdict)
        self._end()
        if tell:
            tell(verdict)

    def _end(self) -> None:
        self._timer.cancel()
        sending, self._sending = self._sending, None
        if sending:
            sending.abort()
        self._judge.ended(self)


class Judge:
    """One address: so many questions at once, so many more in a row."""

    def __init__(self, address: Address, limits: Limits, clock: Callable[[], float]) -> None:
        self.answer_bytes = limits.judge_answer_bytes
        self._head = b"POST %b HTTP/1.1\r\nhost: %b:%d\r\n" % (
            address.path.encode(),
            address.host.encode(),
            address.port,
        )
        self._limits = limits
        self.pool = Pool(address.host, address.port, tls=address.tls, limits=limits, clock=clock)
        self._bytes = 0  # of all questions that it was not rid of yet
        self._asking: set[Question] = set()
        self._waiting: deque[Question] = deque()
        self._name = f"{address.host}:{address.port}"
        self._clock = clock
        self._answers = True
        self._silent_at = 0.0  # the last time that it told nothing

    def heard(self, verdict: Verdict) -> None:
        """Said once when it begins to fail, and once when it has been well for a while."""
        if verdict is Verdict.UNKNOWN:
            self._silent_at = self._clock()
            if self._answers:
                self._answers = False
                log.error(
                    "the judge at %s does not answer: calls go on unjudged where their route fails"
                    " open, and are refused elsewhere",
                    self._name,
                )
        elif not self._answers and self._has_been_well():
            self._answers = True
            log.warning("the judge at %s answers again", self._name)

    def _has_been_well(self) -> bool:
        return self._clock() - self._silent_at >= self._limits.judge_calm_seconds

    def ask(
        self, body: bytes, seconds: float, on_verdict: Callable[[Verdict], None]
    ) -> Question | None:
        """None if too many wait already, or too much: it is unknown then, and stays so."""
        limits = self._limits
        is_much = bool(self._bytes) and self._bytes + len(body) > limits.judge_bytes
        if is_much or len(self._waiting) >= limits.judge_waiting:
            self.heard(Verdict.UNKNOWN)
            return None
        request = b"%bcontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
            self._head,
            len(body),
            body,
        )
        question = Question(self, request, seconds, on_verdict)
        self._bytes += len(request)
        self._waiting.append(question)
        self._advance()
        return question

    def ended(self, question: Question) -> None:
        self._bytes -= len(question.request)
        question.request = b""
        self._asking.discard(question)
        if question in self._waiting:
            self._waiting.remove(question)
        self._advance()

    def _advance(self) -> None:
        while self._waiting and len(self._asking) < self._limits.judge_calls:
            question = self._waiting.popleft()
            self._asking.add(question)
            question.send(self.pool)


class Judges:
    """All judges that routes name."""

    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self._by_address: dict[Address, Judge] = {}

    def know(self, routes: Routes) -> None:
        """Of a judge that no route names any more no connection is kept; what it was asked goes
        on."""
        named = {
            address_of(route.moderation.url) for route in routes.routes.values() if route.moderation
        }
        for address in self._by_address.keys() - named:
            self._by_address.pop(address).pool.close()

    def ask(
        self, info: ModerationInfo, body: bytes, on_verdict: Callable[[Verdict], None]
    ) -> Question | None:
        address = address_of(info.url)
        judge = self._by_address.get(address)
        if judge is None:
            judge = self._by_address[address] = Judge(address, self._limits, self._clock)
        return judge.ask(body, info.timeout_ms / 1000, on_verdict)

    def sweep(self, now: float) -> None:
        for judge in self._by_address.values():
            judge.pool.sweep(now)

    def close(self) -> None:
        for judge in self._by_address.values():
            judge.pool.close()


@functools.lru_cache(256)
def address_of(url: str) -> Address:
    parts = urlsplit(url)
    tls = parts.scheme == "https"
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Address(parts.hostname or "", parts.port or (443 if tls else 80), tls, path)


def verdict_of(status: int, body: bytes) -> Verdict:
    """`{"flagged": …}`, or `{"results": [{"flagged": …}, …]}` as OpenAI's moderations answer."""
    try:
        said = msgspec.json.decode(body) if status == 200 else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Verdict.UNKNOWN
    flags = _flags(said)
    if not flags or not all(isinstance(flag, bool) for flag in flags):
        return Verdict.UNKNOWN
    return Verdict.FLAGGED if any(flags) else Verdict.CLEAN


def _flags(said: Any) -> list[Any]:
    if not isinstance(said, dict):
        return []
    results = said.get("results", [said])
    if not isinstance(results, list):
        return []
    return [one.get("flagged") if isinstance(one, dict) else None for one in results]
