"""How many writes an answer is: each is a call of the kernel, and a wake of the tenant."""

import asyncio

import pytest

from control.gateway.http1.framing import ending, framed
from control.gateway.http1.turn import Outgoing, Turn
from tests.gateway.place import Stream, head_of
from tests.gateway.upstream import streamed


@pytest.mark.parametrize(
    ("data", "chunked", "last"),
    [
        (b"", True, b"0\r\n\r\n"),
        (b"x" * 17, True, b"11\r\n" + b"x" * 17 + b"\r\n0\r\n\r\n"),
        (b"", False, b""),
        (b"x", False, b"x"),
    ],
)
def test_the_last_of_a_body_has_its_end_with_it(data, chunked, last):
    assert ending(data, chunked) == last
    assert not data or last.startswith(framed(data, chunked))


async def test_the_head_of_a_stream_goes_out_with_its_first_token(place, engines, monkeypatch):
    await engines(streamed("one", "two", chunked=True, split="frame"))
    begun, put = [], Outgoing.put

    def watched(self, data):
        if data.startswith(b"HTTP/1.1 "):
            begun.append(data)
        return put(self, data)

    monkeypatch.setattr(Outgoing, "put", watched)
    body = b'{"model":"chat","messages":[{"role":"user","content":"x"}],"stream":true}'
    for more in ("", "x-deadline-ms: 580000\r\n"):
        async with Stream(place.port, head_of(len(body), more=more) + body) as stream:
            await stream.until(b"0\r\n\r\n")
    assert [data.count(b"data: ") for data in begun] == [2, 2]
    assert all(b'"one"' in data for data in begun)


class Written:
    """A transport that notes who wrote what."""

    def __init__(self, name, seen):
        self.write = lambda data: seen.append((name, data))


async def test_what_a_turn_sends_goes_out_at_its_end_in_one_write_each():
    seen, turn = [], Turn()
    one, two = (Outgoing(Written(name, seen), turn) for name in ("one", "two"))
    one.put(b"a")
    two.put(b"x")
    one.put(b"b")
    assert seen == []
    await asyncio.sleep(0)
    assert seen == [("one", b"ab"), ("two", b"x")]
    one.put(b"c")
    await asyncio.sleep(0)
    assert seen[2:] == [("one", b"c")]


async def test_what_is_written_at_once_goes_after_what_waits():
    seen, turn = [], Turn()
    one = Outgoing(Written("one", seen), turn)
    one.put(b"a")
    one.write(b"end")
    assert seen == [("one", b"aend")]
    one.put(b"next")
    one.forget()
    await asyncio.sleep(0)
    assert seen == [("one", b"aend")]
