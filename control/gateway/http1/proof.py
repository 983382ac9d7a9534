"""One small question to an engine, and its whole answer: is it well, who is it."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol

from control.gateway.limits import Limits

_ANSWER_BYTES_MAX = 4 * 1024 * 1024


class Reply(NamedTuple):
    status: int
    body: bytes


class Inquiry:
    """An exchange that is awaited: None if no answer came, or one that is too long."""

    def __init__(self) -> None:
        self._status = 0
        self._parts: list[bytes] = []
        self._bytes = 0
        self._reply: asyncio.Future[Reply | None] = asyncio.get_running_loop().create_future()

    async def reply(self, seconds: float) -> Reply | None:
        try:
            async with asyncio.timeout(seconds):
                return await self._reply
        except TimeoutError:
            return None

    def on_head(self, status: int, headers: dict[bytes, bytes]) -> None:
        self._status = status

    def on_data(self, data: bytes) -> None:
        self._bytes += len(data)
        if self._bytes <= _ANSWER_BYTES_MAX:
            self._parts.append(data)

    def on_chunks(self, raw: bytes) -> bool:
        return False

    def on_end(self) -> None:
        too_long = self._bytes > _ANSWER_BYTES_MAX
        self._answer(None if too_long else Reply(self._status, b"".join(self._parts)))

    def on_failure(self, reason: str, *, sent: bool, reused: bool) -> None:
        self._answer(None)

    def _answer(self, reply: Reply | None) -> None:
        if not self._reply.done():
            self._reply.set_result(reply)


class Proof:
    """What a pool asks an address before it trusts it with calls.

    A proof holds for connections that are made soon after it, and until one is lost: whoever
    has taken over the port in the meantime is asked who it is.
    """

    def __init__(
        self,
        request: Callable[[], bytes],
        judge: Callable[[Reply | None], str | None],
        *,
        limits: Limits,
        clock: Callable[[], float],
    ) -> None:
        self._request = request
        self._judge = judge
        self._limits = limits
        self._clock = clock
        self._valid_until = 0.0
        self._asking: asyncio.Future[str | None] | None = None

    @property
    def is_due(self) -> bool:
        return self._clock() >= self._valid_until

    def holds(self) -> None:
        """It has just been given, here or elsewhere."""
        self._valid_until = self._clock() + self._limits.identity_seconds

    def doubt(self) -> None:
        self._valid_until = 0.0

    async def of(self, upstream: "Asked") -> str | None:
        """Why it must not be used, or None. One asks for all who wait at that moment."""
        if self._asking is None:
            self._asking = asyncio.ensure_future(self._ask(upstream))
            self._asking.add_done_callback(self._asked)
        return await asyncio.shield(self._asking)

    async def _ask(self, upstream: "Asked") -> str | None:
        inquiry = Inquiry()
        upstream.begin(inquiry, self._request())
        why = self._judge(await inquiry.reply(self._limits.probe_seconds))
        if why is None:
            self.holds()
        return why

    def _asked(self, _done: asyncio.Future) -> None:
        self._asking = None


class Asked(Protocol):
    def begin(self, exchange: Inquiry, request: bytes) -> None: ...
