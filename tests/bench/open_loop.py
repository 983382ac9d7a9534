"""Calls that come when they come, answered or not: an open-loop client over kept connections."""

import asyncio
import itertools
import json
import random
import re
import time
from collections import deque
from dataclasses import dataclass, field

_STATUS = re.compile(rb"HTTP/1\.1 (\d{3})")
_LENGTH = re.compile(rb"content-length: (\d+)")
_TOOK = re.compile(rb"openai-processing-ms: (\d+)")
_OUTPUT = re.compile(rb'"completion_tokens":\s*(\d+)')
CONNECTIONS_MAX = 2_000


@dataclass
class Answer:
    """Times in seconds since the call was sent; `took_ms` is what the gateway says of itself."""

    kind: str
    began_at: float
    status: int = 0
    first_seconds: float = 0.0
    total_seconds: float = 0.0
    tokens: int = 0
    took_ms: int = 0
    retry_after: bool = False
    whole: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class Connection(asyncio.Protocol):
    def __init__(self, caller: "Caller") -> None:
        self.caller = caller
        self.answer: Answer | None = None
        self.got = bytearray()

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport = transport

    def send(self, answer: Answer, request: bytes) -> None:
        self.answer, self.got = answer, bytearray()
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        answer = self.answer
        if answer is None:
            return
        self.got += data
        if not answer.status and b"\r\n\r\n" in self.got:
            self._head(answer)
        if not answer.first_seconds and b'"content":' in self.got and answer.status == 200:
            answer.first_seconds = time.monotonic() - answer.began_at
        if answer.status and self._has_ended(answer):
            self._end(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.answer:
            self._end(self.answer, kept=False)

    def _head(self, answer: Answer) -> None:
        head = self.got.partition(b"\r\n\r\n")[0]
        answer.status = int(_STATUS.match(head).group(1))
        answer.took_ms = int(_TOOK.search(head).group(1))
        answer.retry_after = b"\r\nretry-after: " in head

    def _has_ended(self, answer: Answer) -> bool:
        if answer.status == 200:
            answer.whole = self.got.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
            return self.got.endswith(b"\r\n0\r\n\r\n")
        head, _, body = self.got.partition(b"\r\n\r\n")
        return len(body) >= int(_LENGTH.search(head).group(1))

    def _end(self, answer: Answer, *, kept: bool = True) -> None:
        answer.total_seconds = time.monotonic() - answer.began_at
        if answer.whole:
            answer.tokens = int(_OUTPUT.findall(self.got)[-1])
        self.answer, self.got = None, bytearray()
        self.caller.ended(self, answer, kept=kept)


class Caller:
    """Sends calls of several kinds; `keys` and `bodies` are by kind."""

    def __init__(self, host: str, port: int, requests: dict[str, list[bytes]]) -> None:
        self.answers: list[Answer] = []
        self.missed = 0  # would have needed more connections than the client may open
        self.late_seconds = 0.0  # how far arrivals fell behind their time, at most
        self._host, self._port = host, port
        self._requests = {kind: itertools.cycle(each) for kind, each in requests.items()}
        self._idle: deque[Connection] = deque()
        self._open = 0
        self._dialling: set[asyncio.Task] = set()
        self._pending = 0
        self._quiet = asyncio.Event()

    def call(self, kind: str) -> Answer:
        answer = Answer(kind, time.monotonic())
        self._pending += 1
        self._quiet.clear()
        while self._idle:
            connection = self._idle.pop()
            if not connection.transport.is_closing():
                connection.send(answer, next(self._requests[kind]))
                return answer
            self._open -= 1
        if self._open >= CONNECTIONS_MAX:
            self.missed += 1
            self._forget(answer)
            return answer
        self._open += 1
        task = asyncio.get_running_loop().create_task(self._dial(answer))
        self._dialling.add(task)
        task.add_done_callback(self._dialling.discard)
        return answer

    async def _dial(self, answer: Answer) -> None:
        loop = asyncio.get_running_loop()
        try:
            _, connection = await loop.create_connection(
                lambda: Connection(self), self._host, self._port
            )
        except OSError:
            self._open -= 1
            self.answers.append(answer)  # with status 0
            return self._forget(answer)
        return connection.send(answer, next(self._requests[answer.kind]))

    def ended(self, connection: Connection, answer: Answer, *, kept: bool) -> None:
        self.answers.append(answer)
        if kept:
            self._idle.append(connection)
        else:
            self._open -= 1
        self._forget(answer)

    def _forget(self, answer: Answer) -> None:
        answer.ended.set()
        self._pending -= 1
        if not self._pending:
            self._quiet.set()

    async def arrive(self, rates: dict[str, float], seconds: float, seed: int) -> None:
        """Poisson arrivals, calls a second by kind; back when every call has been answered."""
        chance = random.Random(seed)
        began = time.monotonic()
        due = {kind: began + chance.expovariate(rate) for kind, rate in rates.items()}
        while (kind := min(due, key=due.__getitem__)) and due[kind] < began + seconds:
            wait = due[kind] - time.monotonic()
            self.late_seconds = max(self.late_seconds, -wait)
            await asyncio.sleep(max(wait, 0))  # also when late: answers must be read
            self.call(kind)
            due[kind] += chance.expovariate(rates[kind])
        await self._quiet.wait()

    async def keep_busy(self, kind: str, at_once: int, seconds: float) -> None:
        """Closed loop: the next call when one has ended."""
        until = time.monotonic() + seconds

        async def one_after_the_other() -> None:
            while time.monotonic() < until:
                await self.call(kind).ended.wait()

        await asyncio.gather(*(one_after_the_other() for _ in range(at_once)))
        await self._quiet.wait()


def request(path: str, key: str, body: dict) -> bytes:
    text = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {key}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(text)}\r\n\r\n"
    )
    return head.encode() + text
