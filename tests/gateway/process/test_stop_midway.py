"""Who is about to ask, is asking, or has yet to take an answer, is waited for at a worker's end."""

import json
import socket
import time
from collections.abc import AsyncIterator

import pytest

from tests.gateway.place import Place, Stream, head_of, padded
from tests.gateway.running import HANG_SECONDS, Running, until
from tests.gateway.upstream import answered

ASKED = padded(100)
PIECES = 10
LIMITS = {"asks_again_seconds": 60, "header_seconds": 600, "idle_seconds": 600}
LARGE = 16 * 1024 * 1024  # more than kernels keep for a reader that does not read


@pytest.fixture
async def place(tmp_path) -> AsyncIterator[Place]:
    async with Place(tmp_path, limits=LIMITS) as place:
        yield place


def is_whole(answer: bytes, text: str = "fine") -> bool:
    head, _, body = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        return False
    return json.loads(body)["choices"][0]["message"]["content"] == text


async def test_a_request_of_which_the_rest_has_yet_to_come_is_waited_for(place, engines):
    await engines(answered())
    async with Stream(place.port, head_of(len(ASKED))[:20]) as client:
        await place.until(lambda: {one.state for one in place.listener.connections} == {"head"})
        place.listener.stop_listening()
        place.push(place.limits.asks_again_seconds + 1)
        assert place.listener.is_needed()
        client.writer.write(head_of(len(ASKED))[20:] + ASKED)
        answer = await client.rest()
    assert is_whole(answer)
    assert b"connection: close" in answer.lower()
    await place.until(lambda: not place.listener.is_needed())


async def test_who_asked_lately_may_ask_once_more(place, engines):
    await engines(answered(), answered())
    async with Stream(place.port, head_of(len(ASKED)) + ASKED) as client:
        await client.until(b"fine")
        place.listener.stop_listening()
        place.push(place.limits.asks_again_seconds / 2)
        assert place.listener.is_needed()
        client.writer.write(head_of(len(ASKED)) + ASKED)
        answer = await client.rest()
    assert answer.count(b"HTTP/1.1 200") == 2
    assert b"connection: close" in answer.lower()


async def test_who_has_not_asked_for_a_while_is_not_waited_for(place, engines):
    await engines(answered())
    async with Stream(place.port, head_of(len(ASKED)) + ASKED) as client:
        await client.until(b"fine")
        place.push(place.limits.asks_again_seconds + 1)
        assert not place.listener.is_needed()
        place.listener.stop_listening()
        assert await client.reader.read(-1) == b""


@pytest.mark.django_db(transaction=True)
def test_a_body_that_comes_in_pieces_is_answered_though_its_worker_is_told_to_stop(
    environment, key
):
    running = Running(environment)
    try:
        until(lambda: running.status() == 200, "the gateway is ready")
        with socket.create_connection(("127.0.0.1", running.port), HANG_SECONDS) as client:
            client.sendall(head_of(len(ASKED)))
            running.process.terminate()
            for at in range(0, len(ASKED), len(ASKED) // PIECES):
                time.sleep(0.1)  # longer than an end that nothing is waited for
                client.sendall(ASKED[at : at + len(ASKED) // PIECES])
            answer = b"".join(iter(lambda: client.recv(65536), b""))
    finally:
        running.stop()
    assert is_whole(answer)


@pytest.mark.django_db(transaction=True)
def test_an_answer_that_is_taken_slowly_is_whole_though_its_worker_is_told_to_stop(
    environment, key, engine
):
    running = Running(environment)
    try:
        until(lambda: running.status() == 200, "the gateway is ready")
        engine.play(answered("x" * LARGE))
        with socket.create_connection(("127.0.0.1", running.port), HANG_SECONDS) as client:
            client.sendall(head_of(len(ASKED)) + ASKED)
            head = client.recv(1024)
            running.process.terminate()
            time.sleep(1)  # longer than an end that nothing is waited for
            rest = b"".join(iter(lambda: client.recv(1024 * 1024), b""))
    finally:
        running.stop()
    assert is_whole(head + rest, "x" * LARGE)
