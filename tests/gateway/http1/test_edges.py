"""HTTP/1.1 at its edges: what a tenant's connection may do, and what it is told."""

import asyncio

import pytest

from control.gateway.http1.listener import Listener
from tests.gateway.place import KEY, Stream, head_of, padded
from tests.gateway.upstream import streamed


async def test_a_client_that_expects_it_is_told_to_go_on(place, engines):
    await engines()
    body = padded(100)
    async with Stream(place.port, head_of(100, more="expect: 100-continue\r\n")) as stream:
        await stream.until(b"HTTP/1.1 100 Continue\r\n\r\n")
        stream.writer.write(body)
        assert b"HTTP/1.1 200" in await stream.until(b'"usage"')


async def test_h03_idle_connections_are_closed(place, engines):
    async with Stream(place.port, b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n") as stream:
        await stream.until(b'{"status":"ok"}')
        place.push(76)
        assert (await stream.rest()).endswith(b'{"status":"ok"}')


async def test_pipelining_is_refused_after_the_first_answer(place, engines):
    await engines()
    body = padded(100)
    async with Stream(place.port, (head_of(100) + body) * 2) as stream:
        got = await stream.until(b"pipelining is not supported")
        assert got.index(b"HTTP/1.1 200") < got.index(b"HTTP/1.1 400")
    assert len(place.closes()) == 1


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"rubbish\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\nhost: x\r\nx: " + b"a" * 70_000 + b"\r\n\r\n", 431),
        (b"GET /health HTTP/1.1\r\nhost: x\r\nx: " + b"a" * 70_000, 431),
        (head_of(20_971_521), 413),
        (b"GET /nowhere HTTP/1.1\r\nhost: x\r\n\r\n", 404),
        (b"DELETE /v1/models HTTP/1.1\r\nhost: x\r\n\r\n", 405),
        (b"GET /v1/chat/completions HTTP/1.1\r\nhost: x\r\n\r\n", 405),
        (head_of(5, more="transfer-encoding: chunked\r\n"), 400),
    ],
)
async def test_every_refusal_is_an_openai_error_with_an_id(place, engines, sent, status):
    async with Stream(place.port, sent) as stream:
        got = await stream.until(b"}}")
    assert got.startswith(b"HTTP/1.1 %d" % status)
    assert b"x-request-id: req_" in got
    assert b'"param":null' in got
    if status == 405:
        assert b"allow: " in got


async def test_head_and_options_are_answered(place, engines):
    headers = {"authorization": f"Bearer {KEY}"}
    listed = await place.request("HEAD", "/v1/models", headers=headers)
    assert (listed.status, listed.body) == (200, b"")
    options = await place.request("OPTIONS", "/v1/chat/completions")
    assert (options.status, options.headers["allow"]) == (200, "POST, OPTIONS")


async def test_old_clients_get_a_stream_that_ends_with_the_connection(place, engines):
    await engines(streamed("a"))
    async with Stream(place.port, b"") as stream:
        body = b'{"model":"chat","stream":true,"messages":[{"role":"user","content":"x"}]}'
        stream.writer.write(head_of(len(body)).replace(b"HTTP/1.1", b"HTTP/1.0") + body)
        got = await stream.rest()
    assert b"transfer-encoding" not in got
    assert got.endswith(b"data: [DONE]\n\n")
    assert got.count(b"connection: close") == 1


@pytest.mark.parametrize("framing", ["content-length: 100", "transfer-encoding: chunked"])
async def test_an_upgrade_is_declined_by_one_answer_in_http_1_1(place, engines, framing):
    """As curl --http2 asks: the parser stops behind such a head, and the body follows it."""
    await engines()
    body = padded(100)
    sent = b"64\r\n%b\r\n0\r\n\r\n" % body if "chunked" in framing else body
    head = head_of(100, more="connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\n")
    head = head.replace(b"content-length: 100", framing.encode())
    for parts in ([head + sent], [head, sent], [head, sent[:50], sent[50:]]):
        async with Stream(place.port, b"") as stream:
            for part in parts:
                stream.writer.write(part)
                await asyncio.sleep(0.01)  # a packet of its own
            got = await stream.rest()
        assert got.startswith(b"HTTP/1.1 200")
        assert got.count(b"HTTP/1.1") == 1
    assert len(place.closes()) == 3


async def test_an_upgrade_without_a_body_is_declined_too(place, engines):
    asked = b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
    async with Stream(place.port, asked) as stream:
        got = await stream.rest()
    assert got.startswith(b"HTTP/1.1 200")
    assert got.count(b"HTTP/1.1") == 1


async def test_rubbish_behind_a_request_does_not_disturb_its_answer(place, engines):
    await engines(streamed("a"), streamed("b"))
    for rubbish in (b"rubbish \0\r\n\r\n", b"GET /nowhere HTTP/1.1\r\nhost: x\r\n\r\n"):
        body = b'{"model":"chat","stream":true,"messages":[{"role":"user","content":"x"}]}'
        async with Stream(place.port, head_of(len(body)) + body + rubbish) as stream:
            got = await stream.rest()
        assert got.startswith(b"HTTP/1.1 200")
        assert got.index(b"data: [DONE]") < got.index(b"HTTP/1.1 400")
    assert [close.outcome for close in place.closes()] == ["complete", "complete"]


@pytest.mark.parametrize("uri", ["http://127.0.0.1:7801/health", "HTTPS://x/health?a=b"])
async def test_a_whole_uri_is_understood_as_its_path(place, engines, uri):
    asked = f"GET {uri} HTTP/1.1\r\nhost: x\r\n\r\n".encode()
    async with Stream(place.port, asked) as stream:
        assert (await stream.until(b"}")).startswith(b"HTTP/1.1 200")


async def test_a_sweep_of_thousands_leaves_turns_to_others(place):
    """By turns of the loop, not by a clock: what comes meanwhile waits for few of them."""
    swept: list[int] = []

    class Swept:
        def sweep(self, now: float) -> None:
            swept.append(1)

    listener = Listener(place.gateway, place.limits)
    listener.connections = {Swept() for _ in range(5000)}
    listener.sweep(0.0)
    first = len(swept)
    await asyncio.sleep(0)
    assert 0 < first < 500
    assert len(swept) < 1500
    for _ in range(100):
        await asyncio.sleep(0)
    assert len(swept) == 5000
