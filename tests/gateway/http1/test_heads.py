"""A head is known again only where reading it anew would give the same."""

import pytest

from control.gateway.http1.heads import Head, known
from tests.gateway.place import KEY, Stream, head_of, padded
from tests.gateway.upstream import answered

BEFORE = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer k\r\n"


def request(length: int | bytes = 5, body: bytes = b"12345", before: bytes = BEFORE) -> bytes:
    digits = length if isinstance(length, bytes) else b"%d" % length
    return before + b"Content-Length: " + digits + b"\r\nx: y\r\n\r\n" + body


def head(length: bytes = b"5") -> Head:
    one = Head()
    one.headers = {b"content-length": length}
    return one


@pytest.mark.parametrize(
    ("again", "body"),
    [
        (request(), b"12345"),
        (request(11, b"hello world"), b"hello world"),
        (request(1, b"a"), b"a"),
        (request(0, b""), b""),
        (request(6), None),  # the rest has yet to come
        (request(4), None),  # more than one request
        (request(b"+5"), None),
        (request(b"5 "), None),
        (request(b"0x5"), None),
        (request(b""), None),
        (request(before=BEFORE.replace(b"Bearer k", b"Bearer l")), None),
        (request(before=BEFORE + b"z: 1\r\n"), None),
        (request().replace(b"x: y", b"x: z"), None),
        (request().replace(b"x: y\r\n", b"transfer-encoding: chunked\r\n"), None),
        (request()[:-9], None),
        (b"", None),
        (b"G", None),
    ],
)
def test_only_the_length_may_differ(again, body):
    assert known(request(), head()).body_of(again) == body


@pytest.mark.parametrize(
    "data",
    [
        request(6),
        request(before=BEFORE + b"content-length: 5\r\n"),
        request(before=BEFORE + b"x: " + b"a" * 5000 + b"\r\n"),
        request().replace(b"Content-Length: 5", b"Content-Length:  5"),
        request().replace(b"Content-Length: 5", b"Content-Length: 05"),
    ],
)
def test_what_is_out_of_the_ordinary_is_not_remembered(data):
    assert known(data, head()) is None


async def test_requests_after_the_first_are_served_and_refused_as_the_first(place, engines):
    engine = await engines(*[answered("fine", 7, 3)] * 3)
    async with Stream(place.port, head_of(100) + padded(100)) as stream:
        await stream.until(b'"fine"')
        for size in (200, 99, 100):
            stream.got = b""
            stream.writer.write(head_of(size) + padded(size))
            assert (await stream.until(b'"fine"')).startswith(b"HTTP/1.1 200")
        place.identities = {}
        place.know()
        stream.got = b""
        stream.writer.write(head_of(100) + padded(100))
        got = await stream.rest()
        assert got.startswith(b"HTTP/1.1 401")
        assert KEY.encode() not in got
    assert len(engine.seen) == len(place.closes()) == 4
    assert len({close.call_id for close in place.closes()}) == 4


async def test_a_request_after_the_first_may_come_in_two_pieces_or_two_at_once(place, engines):
    await engines(*[answered("fine", 7, 3)] * 4)
    whole = head_of(100) + padded(100)
    async with Stream(place.port, whole) as stream:
        await stream.until(b'"fine"')
        stream.got = b""
        stream.writer.write(whole[:-50])
        await stream.writer.drain()
        await place.until(lambda: any(c.state == "body" for c in place.listener.connections))
        stream.writer.write(whole[-50:])
        await stream.until(b'"fine"')
        stream.writer.write(whole + whole)
        assert b"pipelining is not supported" in await stream.rest()
