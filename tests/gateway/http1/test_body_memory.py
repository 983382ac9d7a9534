"""Memory and connections have limits of their own: what is beyond them is refused, and told so."""

import json

import pytest

from control.gateway import errors
from control.gateway.http1.body_memory import SMALL_BYTES, Bodies
from control.gateway.http1.connections import Connections
from control.gateway.limits import MIB, Limits
from tests.gateway.place import KEY, Place, Stream, chat, head_of, padded, replica
from tests.gateway.upstream import Upstream, answered

LIMITS = Limits(body_bytes=4 * MIB, bodies_bytes=6 * MIB)


def test_bodies_share_what_there_is_and_give_it_back():
    bodies = Bodies(LIMITS)
    assert bodies.hold("a", 4 * MIB) == 4 * MIB
    with pytest.raises(errors.Overloaded) as refused:
        bodies.hold("b", 3 * MIB)
    assert refused.value.wait_seconds == 2
    assert bodies.held_bytes == 4 * MIB
    assert bodies.release("a") == SMALL_BYTES
    assert bodies.hold("b", 3 * MIB) == 3 * MIB
    assert bodies.release("b") == bodies.release("never held any") == SMALL_BYTES
    assert bodies.held_bytes == 0


def test_a_body_without_a_length_takes_more_step_by_step_and_no_more_than_one_may():
    bodies = Bodies(LIMITS)
    room = bodies.grow("a", SMALL_BYTES + 1)
    assert room == bodies.held_bytes == SMALL_BYTES + 1 + MIB
    assert bodies.grow("a", 4 * MIB) == bodies.held_bytes == 4 * MIB
    with pytest.raises(errors.RequestTooLarge):
        bodies.grow("a", 4 * MIB + 1)
    assert bodies.held_bytes == 4 * MIB


def test_who_leaves_takes_along_what_was_held():
    connections = Connections(LIMITS)
    connections.add("a")
    connections.bodies.hold("a", MIB)
    connections.leave("a")
    assert (set(connections), connections.bodies.held_bytes) == (set(), 0)


@pytest.fixture
async def place(tmp_path):
    engine = Upstream(answered())
    limits = {"body_bytes": MIB, "bodies_bytes": MIB, "connections": 3}
    async with Place(tmp_path, limits=limits) as place:
        place.know_replicas(replica(1, await engine.start()))
        yield place
        await engine.stop()


@pytest.mark.parametrize("chunked", [False, True])
async def test_large_requests_at_once_are_refused_before_they_are_read(place, chunked):
    bodies = place.listener.connections.bodies
    most = head_of(MIB) + b"{"
    async with Stream(place.port, most) as first:
        await place.until(lambda: bodies.held_bytes == MIB)
        small = await place.post(padded(SMALL_BYTES))
        assert small.status == 200  # asks for nothing
        refused = await post(place, padded(SMALL_BYTES + 1), chunked)
        assert (refused.status, refused.error["code"]) == (503, "server_is_overloaded")
        assert int(refused.headers["retry-after"]) >= 1
        first.writer.write(padded(MIB)[1:])
        await first.until(b"HTTP/1.1 200 ")
        await place.until(lambda: bodies.held_bytes == 0)
        assert (await post(place, padded(SMALL_BYTES + 1), chunked)).status == 200
    await place.until(lambda: bodies.held_bytes == 0)


async def test_what_a_client_that_leaves_had_sent_is_given_back(place):
    bodies = place.listener.connections.bodies
    async with Stream(place.port, head_of(MIB) + b"{"):
        await place.until(lambda: bodies.held_bytes > 0)
        assert bodies.held_bytes == MIB
    await place.until(lambda: bodies.held_bytes == 0)


async def post(place: Place, body: bytes, chunked: bool):
    async def parts():
        yield body

    headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
    content = parts() if chunked else body
    return await place.request("POST", "/v1/chat/completions", content=content, headers=headers)


async def test_connections_beyond_the_limit_are_told_so_and_others_are_served(place):
    ask = b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n"
    async with Stream(place.port, b"G") as one, Stream(place.port, b"G") as other:
        await place.until(lambda: len(place.listener.connections) == 2)
        async with Stream(place.port, ask) as third:
            await third.until(b"HTTP/1.1 200 ")
            async with Stream(place.port, b"") as fourth:
                told = await fourth.until(b"Too many connections.")
                assert told.startswith(b"HTTP/1.1 503 ")
                assert b"retry-after: " in told
                assert b"connection: close" in told
            one.writer.write(ask[1:])
            assert await one.until(b"HTTP/1.1 200 ")
        other.writer.write(ask[1:])
        assert await other.until(b"HTTP/1.1 200 ")
    await place.until(lambda: not place.listener.connections)
    assert (await place.post(json.dumps(chat()).encode())).status == 200


async def test_a_wrong_key_is_told_so_however_large_its_body_would_be(place):
    async with Stream(place.port, head_of(30 * MIB, key="wrong")) as stream:
        assert (await stream.until(b"invalid_api_key")).startswith(b"HTTP/1.1 401")
    assert place.listener.connections.bodies.held_bytes == 0
