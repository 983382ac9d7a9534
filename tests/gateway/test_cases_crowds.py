"""Cases of the field about many at once, or much: slow clients, deaf ones, idle ones, bombs."""

import asyncio
import gzip
import resource
import socket
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress

import pytest

from control.gateway.calls.call import Call
from tests.gateway.place import Place, chat, head_of, padded, replica
from tests.gateway.upstream import Script, Upstream, answered, chunk

FILES = 12_000  # both ends of 5,000 connections
AT_ONCE = 500  # connections made in one turn: fewer than the queue of the listener holds


@pytest.fixture(autouse=True)
def _many_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < FILES:
        pytest.skip(f"{FILES} files cannot be open here, {hard} at most")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, FILES), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Crowd:
    """Raw connections to one place."""

    def __init__(self, place: Place, sockets: ExitStack) -> None:
        self._place, self._sockets = place, sockets
        self.connections: list[socket.socket] = []

    async def join(
        self, count: int, sent: bytes, *, window_bytes: int | None = None
    ) -> list[socket.socket]:
        joined = []
        for number in range(count):
            one = self._sockets.enter_context(socket.socket())
            if window_bytes:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window_bytes)
            one.connect(("127.0.0.1", self._place.port))
            one.setblocking(False)
            one.send(sent)
            joined.append(one)
            if number % AT_ONCE == AT_ONCE - 1:
                await asyncio.sleep(0)
        self.connections += joined
        wanted = len(self.connections)
        await self._place.until(lambda: len(self._place.listener.connections) >= wanted, 60)
        return joined

    async def until_ended(self) -> list[bytes]:
        """What each has got by the end of its connection."""
        got: list[bytes] = []
        for one in self.connections:
            parts: list[bytes] = []
            await self._place.until(lambda one=one, parts=parts: _has_ended(one, parts), 60)
            got.append(b"".join(parts))
        return got


def _has_ended(one: socket.socket, parts: list[bytes]) -> bool:
    try:
        while data := one.recv(65536):
            parts.append(data)
    except BlockingIOError:
        return False
    except ConnectionResetError:
        pass
    return True


@contextmanager
def crowd(place: Place) -> Iterator[Crowd]:
    with ExitStack() as sockets:
        yield Crowd(place, sockets)


@asynccontextmanager
async def serving(folder, *scripts: Script, **limits) -> AsyncIterator[Place]:
    engine = Upstream(*scripts or [answered()])
    async with Place(folder, limits=limits) as place:
        place.know_replicas(replica(1, await engine.start(), slots=64))
        place.engine = engine
        yield place
        await engine.stop()


async def answers(place: Place, count: int = 20) -> set[int]:
    """Statuses of calls on connections of their own; a client for each takes too long to make."""
    return {await status(place) for _ in range(count)}


async def status(place: Place) -> int:
    async with place.stream(chat()) as stream:
        return int((await stream.until(b"\r\n\r\n"))[9:12])


async def test_h03_hundreds_of_slow_clients_hold_up_nobody_and_are_ended(tmp_path):
    async with serving(tmp_path) as place:
        with crowd(place) as slow:
            heads = await slow.join(500, b"P")
            bodies = await slow.join(50, head_of(100_000))
            assert await answers(place) == {200}
            for letter in (b"O", b"S"):
                place.push(5.5)
                for one in heads:
                    _send(one, letter)
                for one in bodies:
                    _send(one, b"{")
            assert await answers(place) == {200}
            place.push(1)
            for _ in range(3):
                place.push(3)  # those that do not go on their own are not waited for
            ended = await slow.until_ended()
        assert {got.partition(b"\r\n")[0] for got in ended} == {b"HTTP/1.1 408 Request Timeout"}
        assert await answers(place) == {200}
        assert len(place.opens()) == 60


def _send(one: socket.socket, data: bytes) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):  # it has been ended
        one.send(data)


def _is_full(call) -> bool:
    return isinstance(call, Call) and call._delivery.is_full


async def test_h03_clients_that_do_not_read_are_dropped_in_bounded_memory(tmp_path):
    text = "x" * 60_000
    body = b"".join(chunk(text, usage=(7, n)) for n in range(1, 111))  # 6.6 MB for each of 20
    async with serving(tmp_path, Script(body, end="hold", split=60_000)) as place:
        request = padded(100)[:-1].rstrip() + b',"stream":true}'
        with crowd(place) as deaf:
            await deaf.join(20, head_of(len(request)) + request, window_bytes=4096)
            calls = place.shared.calls
            await place.until(lambda: len(calls) == 20 and all(map(_is_full, calls)), 60)
            most = place.limits.buffer_bytes + 2 * len(text)
            assert all(call._delivery._pending_bytes < most for call in calls)
            place.push(31)
            await place.until(lambda: not calls, 60)
        closes = place.closes()
        assert [closed.outcome for closed in closes] == ["slow_client"] * 20
        assert all(0 < closed.delivered_tokens < closed.output_tokens for closed in closes)
        for seen in place.engine.seen:
            await asyncio.wait_for(seen.closed.wait(), 60)


@pytest.mark.parametrize("count", [100, 5000])
async def test_open_connections_are_alike_few_or_many(tmp_path, count):
    async with serving(tmp_path) as place:
        with crowd(place) as idle:
            await idle.join(count, b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
            await place.until(
                lambda: all(one.state == "idle" for one in place.listener.connections), 60
            )
            assert await answers(place) == {200}
            place.push(place.limits.idle_seconds - 1)
            assert len(place.listener.connections) >= count
            place.push(2)
            ended = await idle.until_ended()
        assert {got.partition(b"\r\n")[0] for got in ended} == {b"HTTP/1.1 200 OK"}
        await place.until(lambda: not place.listener.connections, 60)
        assert await answers(place) == {200}


def bomb() -> bytes:
    """10 GiB of zeros, of which a block is repeated: 10 MB."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(bytes(1024 * 1024)) + packer.flush(zlib.Z_FULL_FLUSH)
    return gzip.compress(b"")[:10] + block * 10_240


async def test_h01_a_bomb_takes_less_than_twice_the_limit_of_memory(tmp_path):
    sent = bomb()
    assert 8_000_000 < len(sent) < 12_000_000
    async with serving(tmp_path) as place:
        tracemalloc.start()
        try:
            refused = await place.post(sent, content_encoding="gzip")
            _, peak_bytes = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert (refused.status, refused.error["code"]) == (413, "request_too_large")
        assert peak_bytes < 2 * place.limits.decoded_bytes
        assert not place.engine.seen
