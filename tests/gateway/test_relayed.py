"""`/v1/usage` is answered by web: the gateway shows who asks, and nothing else of the request."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from control.gateway.relayed import Web as Relays
from control.models.sealing import digest_of
from control.routes import passes
from tests.gateway.place import KEY, Place, identity

ANSWER = b'{"object":"usage","data":[]}'


class Web:
    """Answers each request as it is told, and remembers it."""

    def __init__(self) -> None:
        self.seen: list[bytes] = []
        self.status, self.body, self.kind = 200, ANSWER, b"application/json"
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def start(self) -> None:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]

    async def _serve(self, reader, writer) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.seen.append(head)
                await self.go_on.wait()
                line = b"HTTP/1.1 %d X\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n"
                writer.write(line % (self.status, self.kind, len(self.body)) + self.body)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def stop(self) -> None:
        self.go_on.set()
        self.server.close()


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    web = Web()
    await web.start()
    yield web
    web.stop()


@pytest.fixture
async def place(tmp_path, web) -> AsyncIterator[Place]:
    async with serving(tmp_path, web.port) as place:
        yield place


@asynccontextmanager
async def serving(folder: Path, port: int | None, **limits: float) -> AsyncIterator[Place]:
    async with Place(folder, limits=limits) as place:
        url = f"http://127.0.0.1:{port}" if port else ""
        place.shared.web = Relays(url, place.limits, place.time.now, place.time.wall)
        yield place
        place.shared.web.close()


async def test_a_key_is_told_in_a_pass_and_its_secret_is_not(place, web):
    answer = await place.get("/v1/usage?month=2026-11&group_by=day,key")
    assert (answer.status, answer.body) == (200, ANSWER)
    assert answer.headers["x-request-id"].startswith("req_")
    [head] = web.seen
    line, *headers = head.decode().split("\r\n")
    assert line == "GET /v1/usage?month=2026-11&group_by=day,key HTTP/1.1"
    named = dict(header.split(": ", 1) for header in headers if header)
    target = line.split()[1].encode()
    assert passes.key_of(named[passes.HEADER], "GET", target, place.time.wall()) == 9
    assert KEY not in head.decode()
    assert "authorization" not in named


async def test_who_shows_no_key_never_reaches_web(place, web):
    assert (await place.get("/v1/usage", key="weir-" + "x" * 40)).status == 401
    answer = await place.request("GET", "/v1/usage", headers={passes.HEADER: "9.1.00"})
    assert answer.status == 401
    assert (await place.post({}, "/v1/usage")).status == 405
    assert web.seen == []


async def test_a_key_of_other_endpoints_may_not_ask(place, web):
    place.identities = {digest_of(KEY): identity(endpoints=("chat.completions",))}
    place.know()
    answer = await place.get("/v1/usage")
    assert (answer.status, answer.error["code"]) == (403, "permission_denied")
    place.identities = {digest_of(KEY): identity(endpoints=("usage",))}
    place.know()
    assert (await place.get("/v1/usage")).status == 200


async def test_what_web_refuses_is_passed_on_and_what_it_fails_is_not(place, web):
    web.status, web.body = 400, b'{"error":{"message":"m","type":"t","param":null,"code":null}}'
    answer = await place.get("/v1/usage?month=x")
    assert (answer.status, answer.body) == (400, web.body)
    web.status, web.kind, web.body = 500, b"text/html", b"<h1>oh</h1>"
    answer = await place.get("/v1/usage")
    assert (answer.status, answer.error["code"]) == (503, "server_is_overloaded")
    assert "retry-after" in answer.headers
    web.status = 200
    assert (await place.get("/v1/usage")).status == 503


async def test_two_at_once_of_a_tenant_and_no_more(place, web):
    web.go_on.clear()
    waiting = [asyncio.create_task(place.get("/v1/usage")) for _ in range(2)]
    await place.until(lambda: len(web.seen) == 2)
    answer = await place.get("/v1/usage")
    assert (answer.status, answer.error["code"]) == (429, "concurrency_limit_exceeded")
    web.go_on.set()
    assert [answer.status for answer in await asyncio.gather(*waiting)] == [200, 200]
    assert (await place.get("/v1/usage")).status == 200
    assert not place.shared.web.asking


async def test_who_hangs_up_leaves_nothing_behind(place, web):
    web.go_on.clear()
    asking = asyncio.create_task(place.get("/v1/usage"))
    await place.until(lambda: web.seen)
    assert place.shared.web.asking
    asking.cancel()
    await place.until(lambda: not place.shared.web.asking)
    web.go_on.set()
    assert (await place.get("/v1/usage")).status == 200


async def test_web_that_is_slow_or_away_is_a_503(tmp_path, web):
    web.go_on.clear()
    async with serving(tmp_path / "1", web.port, relayed_seconds=0.2) as place:
        assert (await place.get("/v1/usage")).status == 503
        assert not place.shared.web.asking
    web.stop()
    async with serving(tmp_path / "2", web.port) as place:
        assert (await place.get("/v1/usage")).status == 503
    async with serving(tmp_path / "3", None) as place:
        assert (await place.get("/v1/usage")).status == 503


async def test_an_answer_that_is_too_large_is_a_503(tmp_path, web):
    async with serving(tmp_path, web.port, relayed_bytes=10) as place:
        assert (await place.get("/v1/usage")).status == 503
